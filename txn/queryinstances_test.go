package txn

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/queries"
	"github.com/onceward/onceward/txn/internal/session"
)

// TestBoundOfAnAddedInput: a view of the time before an input was added to the topology is behind a position
// of that input. An input that the task does not read is another error.
func TestBoundOfAnAddedInput(t *testing.T) {
	view := state.Positions{Inputs: []state.Input{{Topic: "old", Offset: 5}}}
	bounds := []queries.Bound{{Topic: "old", Offset: 4}, {Topic: "added"}}
	for reads, want := range map[bool]error{true: ErrBehind, false: session.ErrNotRead} {
		if err := contains(view, bounds, func(queries.Bound) bool { return reads }); !errors.Is(err, want) {
			t.Errorf("where the task reads the input %t: %v, want %v", reads, err, want)
		}
	}
}

// TestTasksThatThePlanMisses: a leader that does not know the partitions of a topic plans only the
// tasks that members hold. Then the topics say how many there are. So a key is looked for where its
// records are, and no partition is said not to exist.
func TestTasksThatThePlanMisses(t *testing.T) {
	join := assign.Join{Subtopologies: []assign.Subtopology{{Name: "s", Sources: []string{"in"}}}}
	plan := assign.Balance(assign.Request{ID: 1, Members: []assign.Member{
		{ID: "a", Instance: "a", Join: join, Owned: map[string][]int32{"in": {0, 1}}},
	}}).Plan
	if n := plan.Tasks("s"); n != 2 || plan.Owner(graph.TaskID{Subtopology: "s", Partition: 2}) != "" {
		t.Fatalf("the plan names %d tasks: the test tests nothing", n)
	}
	for _, c := range []struct {
		what            string
		topics, planned int32
		n               int32
		certain         bool
	}{
		{"the plan misses a task", 3, plan.Tasks("s"), 3, false},
		{"topics and plan agree", 2, plan.Tasks("s"), 2, true},
		{"a plan of an older build", 3, assign.Plan{}.Tasks("s"), 3, true},
		{"the topic has grown since the membership began", 1, plan.Tasks("s"), 2, false},
		{"the topics are not known", 0, plan.Tasks("s"), 2, false},
		{"nothing is known", 0, 0, 0, false},
	} {
		if n, certain := countTasks(c.topics, c.planned); n != c.n || certain != c.certain {
			t.Errorf("%s: %d tasks, certain %t, want %d and %t", c.what, n, certain, c.n, c.certain)
		}
	}
}
