package figures

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

// queryRun is the queries that were asked in one way.
type queryRun struct {
	Way string `json:"way"`
	latency.QueryResult
	Load string `json:"load"`
}

// queryFigures are the queries of all ways.
type queryFigures struct {
	Host   string     `json:"host"`
	Time   time.Time  `json:"time"`
	Rate   int        `json:"events_per_second"`
	State  int        `json:"state_events"`
	Asked  int        `json:"queries_per_second"`
	Events uint64     `json:"events"`
	Runs   []queryRun `json:"runs"`
	latency.Anomalies
}

const (
	// queryRate is how many queries a second are asked.
	queryRate    = 500
	queryAtLeast = 10 * time.Millisecond
	queryAim     = 3 * time.Millisecond
)

// measureQueries asks one of two instances for keys of the other one, under load: in the instance
// itself over the connections of peers, and from another program over HTTP. The program is this
// process, which also makes and reads the load.
func measureQueries(t *testing.T) queryFigures {
	r := queryFigures{Host: latency.Host(), Time: time.Now().UTC(), Rate: *rate, State: *state, Asked: queryRate}
	f := newFleet(t, cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: brokerDefaults}), fleetPlan{
		instances: 2, partitions: partitions, rate: *rate, state: *state, common: peered(0), queries: true,
	})
	f.run(beforeFailure)
	asked, other := f.instances[0], f.instances[1]
	lanes, _ := f.running(other)
	plan := latency.QueryPlan{Topics: f.topics, Asked: asked.Settings.Instance, Lanes: lanes, Rate: queryRate, Count: *asks}
	handler, err := asked.QueryHandler()
	f.must(err)
	plain := &http.Transport{MaxIdleConnsPerHost: 64}
	defer plain.CloseIdleConnections()
	web := &http.Client{Transport: plain}
	client, err := txn.NewClient(handler, web)
	f.must(err)
	for _, way := range []struct {
		name    string
		measure func(ctx context.Context) (latency.QueryResult, error)
	}{
		{"txn.Query in an instance", func(ctx context.Context) (latency.QueryResult, error) { return asked.MeasureQueries(ctx, plan) }},
		{"txn.Query with a txn.Client", func(ctx context.Context) (latency.QueryResult, error) {
			return latency.MeasureQueries(ctx, plan, latency.AskIn(client, f.topics))
		}},
		{"GET of a JSON document", func(ctx context.Context) (latency.QueryResult, error) {
			return latency.MeasureQueries(ctx, plan, latency.AskHTTP(web, handler, f.topics))
		}},
	} {
		run := queryRun{Way: way.name, Load: latency.LoadAverage()}
		run.QueryResult, err = way.measure(t.Context())
		f.must(err)
		t.Logf("%s: %s", way.name, run.QueryResult)
		if run.Wrong > 0 || run.Local > 0 || run.Failed > 0 || run.Refused > *asks/10 {
			t.Errorf("%s: %s", way.name, run.QueryResult)
		}
		r.Runs = append(r.Runs, run)
	}
	r.Events, r.Anomalies = f.finish()
	return r
}

// markdown is the report for people.
func (r queryFigures) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Queries at another instance\n\n%s, %s. Two instances, %d events/s, a state of %d events at the start. One instance is asked for the "+
		"balance of a key of a partition that the other one has, %d times a second. A query is the view, one row, and the end of the view. Milliseconds from when it "+
		"was due, and behind the slash from the call. The difference is the wait of the measurement for a processor.\n\n"+
		"| way | queries | p50 | p99 | max | p99 at least | aim | refused | failed | wrong |\n|---|---|---|---|---|---|---|---|---|---|\n",
		r.Time.Format(time.DateOnly), r.Host, r.Rate, r.State, r.Asked)
	both := func(due, call time.Duration) string {
		return fmt.Sprintf("%.2f / %.2f", milliseconds(due), milliseconds(call))
	}
	for _, run := range r.Runs {
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %.0f | %.0f | %d | %d | %d |\n", run.Way, run.Latency.Count, both(run.Latency.P50, run.Call.P50),
			both(run.Latency.P99, run.Call.P99), both(run.Latency.Max, run.Call.Max), milliseconds(queryAtLeast), milliseconds(queryAim), run.Refused,
			run.Failed, run.Wrong)
	}
	fmt.Fprintf(&b, "\nEach answer was compared with the count and the balance that follow from its position. Each had to contain the record before the position "+
		"that an earlier answer of the partition had.\n\n%s", exactlyOnce(r.Events, r.Anomalies))
	return b.String()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
