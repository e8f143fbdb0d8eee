package admin

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
)

// TestPlanJudgesLostOnRestart: a change that loses rows is not safe once there are rows. Nothing is
// said against other changes of a store that has no rows at a start.
func TestPlanJudgesLostOnRestart(t *testing.T) {
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	other := topology.KeyValueStore("others", schemas.String(), schemas.Int64())
	asText := topology.KeyValueStore("counts", schemas.String(), schemas.String()).LostOnRestart()
	lost, inMemory := counts.LostOnRestart(), counts.InMemory()
	for name, test := range map[string]struct {
		before, after topology.AnyStore
		started       bool
		want          Judgement
		text          string
	}{
		"from the disk": {counts, lost, true, Rebuild,
			"rebuild store counts: rows on disk becomes in memory and lost on restart: its rows are gone with the start"},
		"from memory":                   {inMemory, lost, true, Rebuild, "Its changelog stays, and is in the way"},
		"before anything was committed": {counts, lost, false, Safe, "safe store counts: rows on disk"},
		"to the disk":                   {lost, counts, true, Rebuild, "lost on restart becomes on disk: it begins empty once more"},
		"to memory":                     {lost, inMemory, true, Rebuild, "lost on restart becomes in memory: it begins empty once more"},
		"with other codecs":             {lost, asText, true, Safe, "safe store counts: formats (string, int64) becomes (string, string)\n"},
		"new":                           {other, lost, true, Safe, "safe store counts: is new: a store: it is empty after each start"},
		"gone":                          {lost, other, true, Safe, "safe store counts: is gone: a store: it has no changelog that would stay"},
	} {
		t.Run(name, func(t *testing.T) {
			d := plannedBase()
			d.counts = test.before
			before := d.describe(t)
			d.counts = test.after
			running := taskPlanInput{id: graph.TaskID{Subtopology: "words", Partition: 1}, committed: test.started}
			plan := planInput{looked: true, before: &before, after: d.describe(t), unread: map[string]restore.Unread{}, tasks: []taskPlanInput{running}}.judge()
			if plan.Judgement != test.want || !strings.Contains(plan.text(), test.text) {
				t.Errorf("judged %s, want %s with %q:\n%s", plan.Judgement, test.want, test.text, plan.text())
			}
			if strings.Contains(plan.text(), "store counts: changelog") {
				t.Errorf("the changelog is judged too:\n%s", plan.text())
			}
		})
	}
}

// TestPlanOfPartitionerAndLostStore: another partitioner asks for no rebuild of a task whose stores
// have no rows at the start.
func TestPlanOfPartitionerAndLostStore(t *testing.T) {
	for lost, want := range map[bool]Judgement{false: Rebuild, true: Safe} {
		counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
		if lost {
			counts = counts.LostOnRestart()
		}
		d := plannedBase()
		d.counts = counts
		before := d.describe(t)
		d.opts = append(d.opts, topology.PartitionBy("first", func(string, string, string, int32) int32 { return 0 }))
		running := taskPlanInput{id: graph.TaskID{Subtopology: "words"}, committed: true}
		plan := planInput{looked: true, before: &before, after: d.describe(t), unread: map[string]restore.Unread{}, tasks: []taskPlanInput{running}}.judge()
		if plan.Judgement != want {
			t.Errorf("lost %t: judged %s, want %s:\n%s", lost, plan.Judgement, want, plan.text())
		}
	}
}
