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

// TestOpenings: a goroutine that opens a task waits for the one before, in the order in which they
// came, and not for one that opens another task.
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

// TestHold: a task that is held is not opened, and counts as being opened.
func TestHold(t *testing.T) {
	o := New(t.Context(), Config{})
	task := graph.TaskID{Subtopology: "in", Partition: 0}
	_, leave := o.order.enter(task)
	release := o.Hold(task)
	next, _ := o.order.enter(graph.TaskID{Subtopology: "in", Partition: 1})
	if !closed(next) {
		t.Error("another task is held")
	}
	leave()
	if !o.Opening(task) {
		t.Error("a task that is held does not count as being opened")
	}
	release()
	if o.Opening(task) {
		t.Error("a task is held after its release")
	}
}
