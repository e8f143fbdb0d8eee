package txn_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

// TestChangedTopologyIsTold: a start on the state directory of another topology says so, once, and
// goes on.
func TestChangedTopologyIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out", "other")
		dir := t.TempDir()
		for i, c := range []struct {
			topology *topology.Topology
			told     bool
		}{
			{copyTopology(t, "out"), false},
			{copyTopology(t, "out", "other"), true},
			{copyTopology(t, "out", "other"), false},
		} {
			var log syncBuffer
			app, stop := start(t, c.topology, b.config(txn.Config{
				StateDir: dir, Workers: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			}))
			waitFor(t, "the task", func() bool {
				tasks := app.Status().Tasks
				return len(tasks) == 1 && tasks[0].State == txn.TaskRunning
			})
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			var stored graph.Description
			if text, err := state.ReadDescription(dir); err != nil {
				t.Fatal(err)
			} else if err := json.Unmarshal(text, &stored); err != nil || stored.Fingerprint != c.topology.Fingerprint() {
				t.Errorf("start %d: the state directory has the description of %s, %v", i, stored.Fingerprint, err)
			}
			if told := strings.Contains(log.String(), "the topology has changed"); told != c.told {
				t.Errorf("start %d: told is %t, want %t", i, told, c.told)
			}
			if c.told && !strings.Contains(log.String(), "sink topic other is new") {
				t.Errorf("what has changed is not told:\n%s", log.String())
			}
		}
	})
}
