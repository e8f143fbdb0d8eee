package figures

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/e2e/cluster"
)

// ledgers are the workloads that TestEvidence compares: a ledger, the same behind an inbox, the same
// with one row for both, and the second with evidence.
var ledgers = []string{"ledger-bare", "ledger", "ledger-payload", "ledger-evidence"}

// TestEvidence runs a ledger alone, behind an inbox, in place of an inbox, and with evidence of
// ledger and inbox, in turns on one broker, and says what each of them costs. Outputs, state and evidence are checked, record by
// record; no time is asserted. Targets: the inbox 15 % and evidence 40 % of the rate without them.
func TestEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("this measures, for a build as it is released, and -short leaves it out")
	}
	p := planFromEnv()
	records, keys, rounds := int64(20_000), int64(2_000), 1
	if p.dir != "" {
		records, keys, rounds = 3_000_000, 100_000, 5
	}
	c := broker(t, p)
	in := c.Name(t, "in")
	_, err := throughput.Fill(t.Context(), throughput.FillConfig{
		Brokers: c.Brokers(), Workload: ledgers[0], Topic: in, Partitions: partitions, Records: records,
		Input: workload.Input{Seed: 1, Keys: keys, Distribution: workload.Uniform, Duplicates: 0.01},
	})
	if err != nil {
		t.Fatal(err)
	}
	results := map[string][]throughput.Result{}
	for round := range rounds {
		order := slices.Clone(ledgers)
		if round%2 == 1 { // whatever changes with time strikes all of them alike
			slices.Reverse(order)
		}
		for _, name := range order {
			r := runLedger(t, c, name, in, records)
			t.Logf("\n%s", r)
			results[name] = append(results[name], r)
		}
	}
	table := ledgersTable(results)
	t.Logf("\n%s", table)
	if p.dir != "" && !t.Failed() {
		if err := measure.Write(p.dir, "evidence", table, results); err != nil {
			t.Fatal(err)
		}
	}
}

// runLedger runs a workload in a process of its own, and leaves nothing of it.
func runLedger(t *testing.T, c *cluster.Cluster, name, in string, records int64) throughput.Result {
	t.Helper()
	application, dir := c.Name(t, name), t.TempDir()
	r, err := throughput.RunProcess(t.Context(), throughput.RunConfig{
		Brokers: c.Brokers(), Application: application, Workload: name, In: in, Out: application + "-out", Until: records,
		StateDir: filepath.Join(dir, "state"),
	}, filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Records != records || r.Check == nil || r.Check.Inputs != records ||
		(name == "ledger-evidence") != (r.Check.Entries > records) {
		t.Errorf("%s: %d records, checked %+v", name, r.Records, r.Check)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	topics, err := c.Admin().ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	own := slices.DeleteFunc(topics.Names(), func(topic string) bool { return !strings.HasPrefix(topic, application+"-") })
	var deleted kadm.DeleteTopicResponses
	if deleted, err = c.Admin().DeleteTopics(t.Context(), own...); err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ledgersTable is the results for people. A ratio is that of two runs of one round.
func ledgersTable(results map[string][]throughput.Result) string {
	var b strings.Builder
	first := results[ledgers[0]]
	fmt.Fprintf(&b, "# Inbox and evidence\n\n%s. %d partitions, %d records each, the first quarter not counted; median, "+
		"least and most of %d runs in turns.\n\n", latency.Host(), partitions, first[0].Records, len(first))
	if slices.ContainsFunc(ledgers, func(name string) bool { return slices.ContainsFunc(results[name], throughput.Result.Brief) }) {
		b.WriteString("**Some steady states were so short that their rates say nothing.**\n\n")
	}
	fmt.Fprintf(&b, "| workload | records/s | of %s | of %s | CPU s per million |\n|---|---|---|---|---|\n", ledgers[0], ledgers[1])
	for _, name := range ledgers {
		var rates, ofBare, ofLedger, cpu []float64
		for round, r := range results[name] {
			rate := r.Steady.RecordsPerSecond
			rates = append(rates, rate)
			ofBare = append(ofBare, rate/results[ledgers[0]][round].Steady.RecordsPerSecond)
			ofLedger = append(ofLedger, rate/results[ledgers[1]][round].Steady.RecordsPerSecond)
			cpu = append(cpu, r.Steady.CPUSeconds/float64(max(r.Steady.Records, 1))*1e6)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, measure.SpreadOf(rates).Text(0), measure.SpreadOf(ofBare).Text(2),
			measure.SpreadOf(ofLedger).Text(2), measure.SpreadOf(cpu).Text(2))
	}
	return b.String()
}
