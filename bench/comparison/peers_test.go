package comparison

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/throughput"
	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/e2e/leaktest"
)

// TestMain lets the test binary be a candidate too, and a double of Java.
func TestMain(m *testing.M) {
	RunInstance()
	runJava()
	leaktest.Main(m)
}

func broker(t *testing.T) []string {
	t.Helper()
	b, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.ListenAddrs()
}

func someInput() workload.Input {
	return workload.Input{Seed: 3, Keys: 100, Distribution: workload.Uniform, Duplicates: 0.1}
}

// TestMeasure runs everything that needs no Java, on the embedded broker.
func TestMeasure(t *testing.T) {
	var progress bytes.Buffer
	cfg := Config{
		Brokers: broker(t), BrokerPID: os.Getpid(), Name: "measured", Dir: t.TempDir(), Progress: &progress, Command: "make this",
		Workloads: []string{"pass", "ledger", "repartition"}, Records: 4000, Partitions: 2, Input: someInput(), Rounds: 2,
		Latency:  &LatencyConfig{Rate: 200, Warmup: time.Second, Duration: time.Second, Rounds: 1},
		Recovery: &RecoveryConfig{Rate: 200, Restarts: 1, Between: 100 * time.Millisecond},
		Scaling:  &ScalingConfig{Records: 2000, Rounds: 1},
	}
	r, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	for i, want := range [][]string{{Onceward, Loop}, {Onceward}, {Onceward}} {
		c := r.Comparisons[i]
		if len(c.Rounds) != 2 || !slices.Equal(candidatesOf(c), want) {
			t.Errorf("%s: %+v", c.Workload, c.Rounds)
		}
		for _, round := range c.Rounds {
			for _, run := range round.Runs {
				if run.Records != 4000 || run.Rate() <= 0 || run.Outputs < 3000 || run.Seconds < run.Steady.Seconds {
					t.Errorf("%s: %+v", c.Workload, run)
				}
			}
		}
	}
	if first := r.Comparisons[0].Rounds[1].Runs[0]; first.Candidate != Loop {
		t.Errorf("the second round is begun by %s", first.Candidate)
	}
	if len(r.Latency) != 1 || r.Latency[0].Latency.Count != 200 || len(r.Scaling) != 7 || len(r.Scaling[6].Runs) != 1 ||
		r.Scaling[3].Name != scaleRows || r.Scaling[3].Runs[0].Records != 500 || r.Scaling[3].CacheBytes != cacheMin {
		t.Errorf("latency %+v, scaling %+v", r.Latency, r.Scaling)
	}
	if len(r.Recovery) != 1 || r.Recovery[0].All < r.Recovery[0].First || r.Recovery[0].First <= 0 || r.Recovery[0].Events == 0 {
		t.Errorf("recovery %+v", r.Recovery)
	}
	for _, target := range r.Targets() {
		if against := target.Against == Loop || strings.HasPrefix(target.Against, Onceward); target.Measured != against {
			t.Errorf("target %+v", target)
		}
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	var written struct{ Comparisons []Comparison }
	encoded, err := os.ReadFile(dir + "/RESULTS.json")
	if err != nil || json.Unmarshal(encoded, &written) != nil || len(written.Comparisons) != 3 {
		t.Errorf("written are %+v, %v", written, err)
	}
	text, err := os.ReadFile(dir + "/RESULTS.md")
	for _, part := range []string{
		"Made by `make this`", "**Some steady states were so short", "pass of loop (", "| 500, cache 16 MiB |", "| pass, records/s | loop | at least 1.5 |", "| two processes on one core each |", "not measured",
	} {
		if err != nil || !strings.Contains(string(text), part) {
			t.Errorf("%q is missing, %v:\n%s", part, err, text)
		}
	}
	if chart, err := os.ReadFile(dir + "/RESULTS.svg"); err != nil || bytes.Count(chart, []byte("<line")) != 4 {
		t.Errorf("the chart is\n%s, %v", chart, err)
	}
}

// TestMeasureWithJava compares with a test double of Java, and finds its errors. e2e/figures runs
// the real Kafka Streams.
func TestMeasureWithJava(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	choice := streams.Choice{Tuning: streams.Tuning{Name: "tuned", Threads: 2}, Heap: "64m", SmallHeap: "32m"}
	cfg := Config{
		Brokers: broker(t), Name: "compared", Dir: t.TempDir(), Streams: &streams.Installation{Java: self}, Workloads: []string{"pass"},
		Records: 2000, Partitions: 2, Input: someInput(), Rounds: 1, Choices: Choices{"pass": choice},
	}
	r, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{Onceward, Streams, StreamsTuned, StreamsSmall, Loop}
	if got := candidatesOf(r.Comparisons[0]); !slices.Equal(got, want) {
		t.Errorf("%q have run, want %q", got, want)
	}
	if text := r.Markdown(); r.Java != "double of Java" || !strings.Contains(text, "Chosen: tuned, heap 64m, smallest 32m") {
		t.Errorf("the report is\n%s", text)
	}

	cfg.Only = []string{"stream"}
	if _, err := Measure(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "there is no candidate \"stream\"") {
		t.Errorf("of a candidate that is not there it says %v", err)
	}
	cfg.Only = nil

	cfg.Tunings = []streams.Tuning{{Name: "one", Threads: 1}, {Name: "two", Threads: 2}}
	s, err := Sweep(t.Context(), cfg)
	if err != nil || len(s.Choices["pass"].Tunings) != 2 || s.Choices["pass"].SmallHeap != heaps[0] {
		t.Errorf("swept %+v, %v", s.Choices, err)
	}

	for heap, want := range map[string]error{heapTooSmall: errEnded, heapInvents: throughput.ErrWrong, heapClaims: errStores} {
		wrong := cfg
		choice.Heap, choice.SmallHeap = heap, heap
		wrong.Choices, wrong.Only, wrong.Dir = Choices{"pass": choice}, []string{StreamsTuned}, t.TempDir()
		if _, err := Measure(t.Context(), wrong); !errors.Is(err, want) {
			t.Errorf("with -Xmx%s: %v, want %v", heap, err, want)
		}
	}
}

// TestCompareStores: every way in which a store can be wrong.
func TestCompareStores(t *testing.T) {
	ledger, err := workload.Find("ledger")
	if err != nil {
		t.Fatal(err)
	}
	checked := throughput.Checked{
		Events: 5,
		Sums: map[workload.Account]workload.Sum{
			workload.AccountOf(1): {Count: 3, Balance: -7}, workload.AccountOf(2): {Count: 2, Balance: 9},
		},
	}
	right := func() []storeReport {
		return []storeReport{{"inbox", 5, "whatever"}, {"balances", 2, "2f118c680647f1bb"}}
	}
	for _, tc := range []struct {
		name   string
		change func([]storeReport) []storeReport
		ok     bool
	}{
		{"right", func(s []storeReport) []storeReport { return s }, true},
		{"an id less", func(s []storeReport) []storeReport { s[0].Entries--; return s }, false},
		{"an account less", func(s []storeReport) []storeReport { s[1].Entries--; return s }, false},
		{"another balance", func(s []storeReport) []storeReport { s[1].Digest = "1" + s[1].Digest; return s }, false},
		{"another store", func(s []storeReport) []storeReport { s[1].Store = "counts"; return s }, false},
		{"no store", func([]storeReport) []storeReport { return nil }, false},
	} {
		if err := compareStores(ledger, tc.change(right()), checked); (err == nil) != tc.ok || err != nil && !errors.Is(err, errStores) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestVerdict: targets that are to be exceeded, and those that are not.
func TestVerdict(t *testing.T) {
	for _, tc := range []struct {
		target Target
		ratios []float64
		want   string
	}{
		{Target{Limit: 2.5, Aim: 4}, []float64{4, 5, 3}, "met"},
		{Target{Limit: 2.5, Aim: 4}, []float64{3}, "met, below the aim"},
		{Target{Limit: 2.5, Aim: 4}, []float64{2}, "**missed by 20 %**"},
		{Target{Limit: 0.5, Most: true}, []float64{0.5}, "met"},
		{Target{Limit: 0.5, Most: true}, []float64{0.6}, "**missed by 20 %**"},
		{Target{Limit: 0.5, Most: true}, nil, "not measured"},
	} {
		if got := tc.target.measured(tc.ratios).Verdict(); got != tc.want {
			t.Errorf("%+v with %v: %s, want %s", tc.target, tc.ratios, got, tc.want)
		}
	}
}

// TestSweepTriesEnough: the settings differ, and what was found last fits the version that is
// compared.
func TestSweepTriesEnough(t *testing.T) {
	seen := map[string]bool{}
	for _, tuning := range tunings() {
		settings := strings.Join(append(slices.Clone(tuning.Java), tuning.Properties...), " ")
		if key := strings.Repeat("t", tuning.Threads) + settings; seen[key] || seen[tuning.Name] || tuning.Name == "" {
			t.Errorf("%q is there twice", tuning.Name)
		} else {
			seen[key], seen[tuning.Name] = true, true
		}
	}
	if n := len(tunings()); n < 12 {
		t.Errorf("only %d settings are tried", n)
	}
	if last, err := LastSweep(); err != nil || last.Streams != streams.Version {
		t.Errorf("the last sweep was of %q, %v, and %s is compared", last.Streams, err, streams.Version)
	}
}
