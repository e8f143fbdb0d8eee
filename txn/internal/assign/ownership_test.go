package assign

import (
	"errors"
	"reflect"
	"testing"

	"github.com/onceward/onceward/topology/graph"
)

func member(id string, generation int32) func() (string, int32) {
	return func() (string, int32) { return id, generation }
}

func TestTaskOpensWhenAllInputsAreAssigned(t *testing.T) {
	o := New([]Subtopology{{Name: "join", Sources: []string{"left", "right"}}, {Name: "copy", Sources: []string{"plain"}}})
	if got := o.Add(map[string][]int32{"left": {0, 1}, "plain": {0}}); !reflect.DeepEqual(got, []graph.TaskID{{Subtopology: "copy"}}) {
		t.Fatalf("opened %v, want copy/0 only", got)
	}
	if n, owned := o.Partitions(), o.Owned(); n != 3 || len(owned) != 1 {
		t.Errorf("%d partitions and the tasks %v, want 3 and copy/0", n, owned)
	}
	if got := o.Add(map[string][]int32{"right": {1}}); !reflect.DeepEqual(got, []graph.TaskID{{Subtopology: "join", Partition: 1}}) {
		t.Fatalf("opened %v, want join/1", got)
	}
	if got := o.Remove(map[string][]int32{"left": {1}}); !reflect.DeepEqual(got, []graph.TaskID{{Subtopology: "join", Partition: 1}}) {
		t.Fatalf("closed %v, want join/1: one input is enough", got)
	}
	if got := o.Remove(map[string][]int32{"right": {1}}); len(got) != 0 {
		t.Fatalf("closed %v twice", got)
	}
}

func TestCheckFences(t *testing.T) {
	id := graph.TaskID{Subtopology: "copy"}
	parts := map[string][]int32{"plain": {0}}
	o := New([]Subtopology{{Name: "copy", Sources: []string{"plain"}}})
	o.Add(parts)
	epoch, _ := o.Epoch(id)
	claim := []Claim{{Task: id, Epoch: epoch, Member: "m1"}}
	if m, g, err := o.Check(claim, member("m1", 4)); err != nil || m != "m1" || g != 4 {
		t.Fatalf("an owned task is refused: %v", err)
	}
	if _, _, err := o.Check(claim, member("m2", 5)); !errors.Is(err, ErrMemberChanged) {
		t.Fatalf("a changed member id passes: %v", err)
	}
	o.Remove(parts)
	if _, _, err := o.Check(claim, member("m1", 4)); !errors.Is(err, ErrGivenUp) {
		t.Fatalf("a task that was given up passes: %v", err)
	}
	// Given up and assigned back to the same member: another member may have owned it in between.
	o.Add(parts)
	if _, _, err := o.Check(claim, member("m1", 6)); !errors.Is(err, ErrGivenUp) {
		t.Fatalf("a task that was given up and came back passes under its old epoch: %v", err)
	}
}
