package opening

import (
	"testing"

	"github.com/onceward/onceward/topology/graph"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestOpenings: who opens a task waits for the one before, in the order in which they came, and for
// nobody who opens another task.
func TestOpenings(t *testing.T) {
	var o openings
	task, other := graph.TaskID{Subtopology: "in", Partition: 0}, graph.TaskID{Subtopology: "in", Partition: 1}
	first, leaveFirst := o.enter(task)
	second, leaveSecond := o.enter(task)
	third, _ := o.enter(task)
	if elsewhere, _ := o.enter(other); !closed(first) || !closed(elsewhere) {
		t.Error("somebody waits for nobody")
	}
	if closed(second) || closed(third) {
		t.Error("a task is opened twice at a time")
	}
	leaveFirst()
	if !closed(second) || closed(third) {
		t.Error("the second one, and nobody else, has its turn when the first has ended")
	}
	leaveSecond()
	if !closed(third) {
		t.Error("the third one waits for nobody")
	}
}
