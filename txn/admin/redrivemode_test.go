package admin

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestRedriveLeavesLettersOfReplays: the inputs of a replay are those of the live application. So
// its dead letters are redriven only if the caller names the application, or says that they are
// repairs. Requirement I2.
func TestRedriveLeavesLettersOfReplays(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			options RedriveOptions
			want    RedriveOutcome
		}{
			"as they are":     {RedriveOptions{}, LeftReplay},
			"elsewhere":       {RedriveOptions{To: "other"}, LeftReplay},
			"of this one":     {RedriveOptions{Filter: DeadLetterFilter{Applications: []string{"app"}}}, Redriven},
			"as repairs":      {RedriveOptions{Repair: true}, Redriven},
			"dry, as repairs": {RedriveOptions{Repair: true, DryRun: true}, Redriven},
		} {
			o := newHarness(t)
			o.die("a=1", "b=2")
			died := o.read("dead")[0]
			for _, mode := range []topology.Mode{topology.Replay, topology.Backfill, topology.Repair} {
				text := []byte(mode.String())
				r := &kgo.Record{Topic: "dead", Partition: died.Partition, Key: died.Key, Value: died.Value, Timestamp: died.Timestamp}
				for _, h := range died.Headers {
					if h.Key == graph.HeaderID {
						h.Value = text
					}
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
				}
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: topology.HeaderMode, Value: text})
				o.write(r)
			}
			want := map[RedriveOutcome]int64{Redriven: 4}
			want[test.want]++
			if got := o.redrive(test.options); got.Outcomes[LeftReplay] != want[LeftReplay] || got.Outcomes[Redriven] != want[Redriven] {
				t.Errorf("%s: %v, want %v", name, got.Outcomes, want)
			}
		}
	})
}
