package txn_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// TestRebuildFromInputWithDelays: one task is rebuilt without the others, because it has its
// partitions of the delayed retry topics for itself. The records that wait there come again with
// their input, once. They are counted if they do not come again.
func TestRebuildFromInputWithDelays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShop(t, topology.Policy{Action: topology.Delay, Attempts: 5, Then: topology.DeadLetter})
		s.broken.Store("bad", true)
		delays := topology.RetryTopics(time.Hour)
		s.send("bad", 1)
		s.send("good", 10)
		dir := t.TempDir()
		_, stop := start(t, s.topology(delays), s.config(dir))
		s.read(t, "out", 10)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		client := s.office(t)
		op := client.Application(s.topology(delays))
		const retries = "counting-in.retry-1h0m0s-repartition"
		for _, test := range []struct {
			dry     bool
			offsets admin.Offsets
			dropped int64
		}{{true, admin.Offsets{"in": 1}, 1}, {true, admin.Offsets{"in": admin.End}, 1}, {false, nil, 0}} {
			report, err := op.RebuildFromInput(t.Context(), admin.Options{Tasks: []string{"in_0"}, DryRun: test.dry}, test.offsets)
			if err != nil {
				t.Fatal(err)
			}
			dropped := map[string]int64{}
			for _, in := range report.Tasks[0].Inputs {
				dropped[in.Topic] = in.Dropped
			}
			if len(report.Tasks) != 1 || dropped[retries] != test.dropped || dropped["in"] != 0 || len(dropped) != 2 {
				t.Errorf("from %v: the report is %+v, want %d records dropped", test.offsets, report, test.dropped)
			}
		}
		_, err := op.RebuildFromInput(t.Context(), admin.Options{DryRun: true}, admin.Offsets{retries: admin.Start})
		if !errors.Is(err, admin.ErrRefused) {
			t.Errorf("an offset of a delayed retry topic is taken: %v", err)
		}
		s.broken.Delete("bad")
		_, stop = start(t, s.topology(delays), s.config(dir))
		of := map[string]int{}
		for _, r := range s.read(t, "out", 21) {
			of[string(r.Key)]++
		}
		if of["bad"] != 1 || of["good"] != 20 {
			t.Errorf("the outputs are %v, want the good ones twice, and the bad one", of)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
