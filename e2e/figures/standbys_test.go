package figures

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
)

var (
	rolls   = flag.Int("rolls", 1, "rounds of TestStandbys that restart every instance")
	rounds  = flag.Int("rounds", 1, "rounds of TestStandbys that compare with and without a standby")
	backlog = flag.Int64("backlog", 200_000, "records of the backlog that TestStandbys drains")
	asks    = flag.Int("queries", 1000, "queries of each kind in TestStandbys")
)

// warmScenario is one measurement of instances with standbys, or of queries.
type warmScenario struct {
	name string
	// measure returns the report for people, and what the file in JSON has.
	measure func(t *testing.T) (markdown string, result any)
}

var warmScenarios = []warmScenario{
	{"rolling", func(t *testing.T) (string, any) { r := measureRollingWarm(t, false); return r.markdown(), r }},
	{"rolling-remain", func(t *testing.T) (string, any) { r := measureRollingWarm(t, true); return r.markdown(), r }},
	{"throughput", func(t *testing.T) (string, any) { r := measureCosts(t); return r.markdown(), r }},
	{"query", func(t *testing.T) (string, any) { r := measureQueries(t); return r.markdown(), r }},
}

// TestStandbys measures what standbys do for restarts in order and what they cost, and how long
// queries take that another instance answers. Brokers are at their own defaults, and so are the
// timeouts. Every event must have come once, and every answer must be right. `make standbys` is the
// full one.
func TestStandbys(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	dir := os.Getenv(envFigures)
	for _, s := range warmScenarios {
		t.Run(s.name, func(t *testing.T) {
			markdown, result := s.measure(t)
			t.Logf("\n%s", markdown)
			if dir != "" && !t.Failed() {
				if err := measure.Write(dir, "standbys-"+s.name, markdown, result); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// peered are the settings of instances that watch each other, with timeouts of production.
func peered(standbys int) latency.Settings {
	return latency.Settings{
		SessionTimeout: sessionDefault, TransactionTimeout: transactionDefault, Peers: "127.0.0.1:0", Standbys: standbys,
	}
}

// distribution returns that of a figure of all runs.
func distribution[T any](runs []T, figure func(T) time.Duration) latency.Summary {
	ds := make([]time.Duration, 0, len(runs))
	for _, r := range runs {
		ds = append(ds, figure(r))
	}
	slices.Sort(ds)
	return latency.Summarize(ds)
}

// exactlyOnce is the last sentence of a report: what became of all events.
func exactlyOnce(events uint64, a latency.Anomalies) string {
	return fmt.Sprintf("Exactly once: of %d events %d are lost, %d doubled, %d have wrong sums.\n", events, a.Lost, a.Doubled, a.Wrong)
}
