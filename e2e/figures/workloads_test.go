package figures

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
)

// TestWorkloads runs every workload on real Kafka, each in a process of its own. Outputs and state
// are checked, record by record; no time is asserted. `make bench` is the full one.
func TestWorkloads(t *testing.T) {
	if testing.Short() {
		t.Skip("this measures, for a build as it is released, and -short leaves it out")
	}
	p := planFromEnv()
	// The windows of Nexmark close in a short input with an interval. Figures are those of an input
	// without one.
	records, keys, interval, dir := int64(40_000), int64(2_000), time.Millisecond, p.dir
	if dir != "" {
		records, keys, interval = 8_000_000, 100_000, 0
	}
	c := broker(t, p)
	// One input serves all workloads over the same data.
	inputs := map[workload.Data]string{}
	input := func(w workload.Workload) string {
		if inputs[w.Data] == "" {
			inputs[w.Data] = c.Name(t, string(w.Data))
			_, err := throughput.Fill(t.Context(), throughput.FillConfig{
				Brokers: c.Brokers(), Workload: w.Name, Topic: inputs[w.Data], Partitions: partitions, Records: records,
				Interval: interval, Input: workload.Input{
					Seed: 1, Keys: keys, Distribution: workload.Uniform, Duplicates: 0.01, Flights: flightData,
				},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return inputs[w.Data]
	}
	var results []throughput.Result
	for _, w := range workload.All() {
		name := c.Name(t, w.Name)
		r, err := throughput.RunProcess(t.Context(), throughput.RunConfig{
			Brokers: c.Brokers(), Application: name, Workload: w.Name, In: input(w), Out: name + "-out", Until: records,
			StateDir: filepath.Join(t.TempDir(), "state"),
		}, filepath.Join(t.TempDir(), w.Name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		if r.Records != records || r.Check == nil || r.Check.Inputs != records {
			t.Errorf("%s: %d records, checked %+v", w.Name, r.Records, r.Check)
		}
		t.Logf("\n%s", r)
		results = append(results, r)
	}
	if dir != "" && !t.Failed() {
		if err := measure.Write(dir, "workloads", workloadsTable(results), results); err != nil {
			t.Fatal(err)
		}
	}
}

// workloadsTable is the results for people.
func workloadsTable(results []throughput.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Workloads\n\n%s. %d partitions, %d records each, the first quarter not counted; one run.\n\n", latency.Host(),
		partitions, results[0].Records)
	if slices.ContainsFunc(results, func(r throughput.Result) bool { return r.Brief() }) {
		b.WriteString("**Some steady states were so short that their rates say nothing.**\n\n")
	}
	b.WriteString("| workload | records/s | CPU s per million | resident MiB | transactions |\n|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %.0f | %d |\n", r.Workload, r.Steady.RecordsPerSecond,
			r.Steady.CPUSeconds/float64(max(r.Steady.Records, 1))*1e6, measure.MiB(r.RSSPeak), r.Transactions)
	}
	return b.String()
}
