package metrics

import (
	"reflect"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestCounts: what the console makes rates of is the sum of what a scrape returns.
func TestCounts(t *testing.T) {
	m := New(everything)
	if got := m.Counts(); len(got.Records) != 0 || len(got.Outcomes) != 0 || got.Commits != 0 {
		t.Errorf("a process that has done nothing has counted %+v", got)
	}
	for worker, partition := range []int32{3, 4} {
		w := m.Worker(worker)
		w.Contributed(&task.Contribution{
			Task: task.New(task.Spec{
				ID:     graph.TaskID{Subtopology: "in_order", Partition: partition},
				Inputs: []state.Input{{Topic: "in", Partition: partition}, {Topic: "also", Partition: partition}},
			}),
			Counts: []graph.OutcomeCount{{Node: "inbox", Outcome: "duplicates", N: 3}, {Node: "inbox", Outcome: "new", N: 4}},
			Taken:  []task.Taken{{Records: 5}, {Records: 1}},
		})
		w.Applied(3*time.Millisecond, 6, time.Second)
	}
	got := m.Counts()
	if want := []RecordCount{{"in_order_3", "also", 1}, {"in_order_3", "in", 5}, {"in_order_4", "also", 1}, {"in_order_4", "in", 5}}; !reflect.DeepEqual(got.Records, want) {
		t.Errorf("the records are %+v, want %+v", got.Records, want)
	}
	if want := []OutcomeCount{{"in_order", "inbox", 14}}; !reflect.DeepEqual(got.Outcomes, want) {
		t.Errorf("the outcomes are %+v, want %+v", got.Outcomes, want)
	}
	if got.Commits != 2 || len(got.CommitSeconds) != len(latencyBuckets) {
		t.Fatalf("%d commits in %d buckets, want 2 in %d", got.Commits, len(got.CommitSeconds), len(latencyBuckets))
	}
	for _, b := range got.CommitSeconds {
		if want := map[bool]uint64{false: 0, true: 2}[b.Bound >= 0.003]; b.Count != want {
			t.Errorf("%d commits took at most %g s, want %d", b.Count, b.Bound, want)
		}
	}
}
