package assign

import (
	"errors"
	"reflect"
	"testing"

	"github.com/onceward/onceward/topology/graph"
)

// TestSelfRemembersState: how far a task's state is stays known when the task is given up, and
// unknown is less than anything known.
func TestSelfRemembersState(t *testing.T) {
	count := func(p int32) graph.TaskID { return graph.TaskID{Subtopology: "count", Partition: p} }
	m := NewSelf(Process{Subtopologies: []Subtopology{{Name: "count", Stateful: true}, {Name: "copy"}}, OnDisk: []graph.TaskID{count(7)}})
	first := m.Join([]TaskNow{
		{Task: count(1), Offsets: []int64{0, 0}}, {Task: count(2), Offsets: []int64{5}, Stopped: errors.New("why")},
		{Task: graph.TaskID{Subtopology: "copy"}, Offsets: []int64{9}}, {Task: count(3)},
	}, []graph.TaskID{count(9)})
	local := []LocalTask{{Task: count(1), Position: 1}, {Task: count(2), Position: 6}, {Task: count(7), Position: 0}}
	if !reflect.DeepEqual(first.Local, local) {
		t.Errorf("local state is %v, want %v", first.Local, local)
	}
	if want := []StoppedTask{{Task: count(2), Reason: "why"}}; !reflect.DeepEqual(first.Stopped, want) {
		t.Errorf("stopped tasks are %v, want %v", first.Stopped, want)
	}
	if !reflect.DeepEqual(first.Warm, []graph.TaskID{count(9)}) {
		t.Errorf("warm copies are %v", first.Warm)
	}
	if later := m.Join(nil, nil); !reflect.DeepEqual(later.Local, first.Local) || len(later.Stopped) > 0 {
		t.Errorf("after everything was given up: %+v", later)
	}
}
