package comparison

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/workload"
)

func TestSelect(t *testing.T) {
	cfg := Thorough()
	if err := cfg.Select(nil); err != nil || cfg.Workloads != nil || cfg.Scaling == nil {
		t.Errorf("no names leave %+v, %v", cfg, err)
	}
	if err := cfg.Select([]string{"recovery", "ledger", "flights"}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(cfg.Workloads, []string{"ledger", "flights"}) || cfg.Recovery == nil || cfg.Latency != nil || cfg.Restore != nil || cfg.Scaling != nil {
		t.Errorf("selected is %+v", cfg)
	}
	cfg = Thorough()
	sided := []string{"stream-table", "stream-stream", "foreign-key", "sessions"}
	if err := cfg.Select(sided); err != nil || !slices.Equal(cfg.Workloads, sided) || cfg.Recovery != nil {
		t.Errorf("joins and sessions are selected as %+v, %v", cfg.Workloads, err)
	}
	cfg = Thorough()
	if err := cfg.Select([]string{"scaling"}); err != nil {
		t.Fatal(err)
	}
	m := &measurement{cfg: cfg}
	if parts, err := m.parts(); err != nil || len(parts) != 1 || parts[0].name != "scaling" {
		t.Errorf("parts are %+v, %v", parts, err)
	}
	if err := cfg.Select([]string{"ledgers"}); err == nil || !strings.Contains(err.Error(), `no part "ledgers"; there are pass, count`) {
		t.Errorf("an unknown part gives %v", err)
	}
}

// TestPartsOfAnEarlierResult: a part that is measured again replaces the earlier one. The other
// parts stay, with the day and the settings of their measurement.
func TestPartsOfAnEarlierResult(t *testing.T) {
	compared := func(workload string, rate float64) Comparison {
		var run Run
		run.Candidate, run.RecordsPerSecond = Onceward, rate
		return Comparison{Workload: workload, Rounds: []Round{{Runs: []Run{run}}}}
	}
	chosen := func(name string) streams.Choice {
		return streams.Choice{Tuning: streams.Tuning{Name: name}, Heap: "1g", SmallHeap: "1g"}
	}
	first := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	then := Occasion{Time: first, Machine: "a machine", Command: "make first"} // as an older build has it
	now := Occasion{Time: first.AddDate(0, 0, 3), Machine: "a machine", Command: "make second", Broker: "another broker"}
	earlier := Result{
		Time: then.Time, Command: then.Command, Machine: "a machine", Streams: "4.3.1", Java: "some Java", Broker: "a broker",
		Limits:      measure.Limits{"GOGC": "50"},
		Measured:    map[string]Occasion{"pass": then, "ledger": then, "latency": then},
		Choices:     Choices{"pass": chosen("old"), "ledger": chosen("old")},
		Comparisons: []Comparison{compared("pass", 1000), compared("ledger", 2000)},
		Latency:     []Latency{{Candidate: Onceward, Rate: 77, Latency: latency.Summary{Count: 5}}},
	}
	dir := t.TempDir()
	if err := earlier.Write(dir); err != nil {
		t.Fatal(err)
	}
	read, err := Earlier(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read.Markdown(), earlier.Markdown(); got != want {
		t.Errorf("read again it is\n%s\nand was\n%s", got, want)
	}
	newer := chosen("new")
	newer.Time, newer.Records = now.Time, 7
	result := Result{
		Time: now.Time, Command: now.Command, Machine: "a machine", Streams: "4.3.1", Measured: map[string]Occasion{"ledger": now, "count": now},
		Choices:     Choices{"pass": newer, "ledger": newer, "count": newer},
		Comparisons: []Comparison{compared("ledger", 4000), compared("count", 3000)},
	}.With(read)
	var rates []string
	for _, c := range result.Comparisons {
		rates = append(rates, c.Workload+" "+c.Rounds[0].Runs[0].String()[15:22])
	}
	if want := []string{"pass     1.0", "count     3.0", "ledger     4.0"}; !slices.Equal(rates, want) {
		t.Errorf("compared are %q, want %q", rates, want)
	}
	if result.Choices["pass"].Tuning.Name != "old" || result.Choices["ledger"].Tuning.Name != "new" || len(result.Latency) != 1 {
		t.Errorf("choices %+v, latency %+v", result.Choices, result.Latency)
	}
	text := result.Markdown()
	for _, line := range []string{
		"- 2030-01-02: latency, pass, by `make first` on a machine; a broker; Kafka Streams 4.3.1, some Java; GOGC=50\n",
		"- 2030-01-05: count, ledger, by `make second` on a machine; another broker\n", "Found on 2030-01-05, over 7 records.",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing:\n%s", line, text)
		}
	}
	if strings.Contains(earlier.Markdown(), "parts of several runs") {
		t.Error("a result of one run is said to be of several")
	}
}

// TestOccasions: parts of one run are of one, however long it takes; other runs, and other builds
// of Onceward, are told apart on one day too.
func TestOccasions(t *testing.T) {
	evening := Result{Time: time.Date(2030, 1, 2, 23, 0, 0, 0, time.UTC), Command: "make it", Revision: "v1"}
	measured := func(r Result, names ...string) Result {
		r.Measured = map[string]Occasion{}
		for i, name := range names {
			r.Measured[name] = r.occasion(r.Time.Add(time.Duration(i) * 2 * time.Hour))
		}
		return r
	}
	if text := measured(evening, "pass", "ledger").Markdown(); strings.Contains(text, "parts of several runs") || !strings.Contains(text, "- Onceward: v1\n") {
		t.Errorf("a run over midnight:\n%s", text)
	}
	later := evening
	later.Time, later.Revision = evening.Time.Add(time.Minute), "v2"
	text := measured(later, "count").With(measured(evening, "pass", "ledger")).Markdown()
	for _, line := range []string{
		"- 2030-01-02: ledger, pass, by `make it` on ; Onceward v1\n", "- 2030-01-02: count, by `make it` on ; Onceward v2\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing:\n%s", line, text)
		}
	}
}

// TestEarlierWithoutParts: a result of a build that measured everything at once keeps its day and
// its machine when parts of it are kept.
func TestEarlierWithoutParts(t *testing.T) {
	dir := t.TempDir()
	old := Result{
		Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Command: "make all", Machine: "an old machine", Broker: "an old broker",
		Comparisons: []Comparison{{Workload: "pass"}}, Latency: []Latency{{Candidate: Onceward}},
	}
	if err := old.Write(dir); err != nil {
		t.Fatal(err)
	}
	read, err := Earlier(dir)
	if err != nil {
		t.Fatal(err)
	}
	now := Result{Time: old.Time.AddDate(1, 0, 0), Command: "make part", Machine: "a machine", Broker: "a broker"}
	now.Measured = map[string]Occasion{"ledger": now.occasion(now.Time)}
	now.Comparisons = []Comparison{{Workload: "ledger"}}
	text := now.With(read).Markdown()
	if line := "- 2030-01-02: latency, pass, by `make all` on an old machine; an old broker\n"; !strings.Contains(text, line) {
		t.Errorf("%q is missing:\n%s", line, text)
	}
}

// TestTuned: a comparison says what Kafka Streams ran with, and whether a sweep of that workload
// has found it.
func TestTuned(t *testing.T) {
	choices := Choices{"ledger": {Tuning: streams.Tuning{Name: "fast", Threads: 3}, Heap: "1g", SmallHeap: "512m"}}
	for name, want := range map[string]string{
		"ledger": "the fastest of its sweep.", "count": "**the fastest of the sweep of ledger**; none was made for this workload.",
		"sessions":    "**the fastest of the sweep of ledger**; none was made for this workload.",
		"repartition": "**for which no sweep was made**.", "foreign-key": "**for which no sweep was made**.",
	} {
		w, err := workload.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		of, sweptFor := choices.choice(w)
		text := tuned(Comparison{Workload: name, Tuned: &Tuned{of.Tuning, of.Heap, of.SmallHeap, sweptFor}})
		if !strings.HasSuffix(text, want) || !strings.Contains(text, "heap "+of.Heap) {
			t.Errorf("of %s the report says%s", name, text)
		}
	}
}

// TestDescribe: the report says of an input what its records have of the settings.
func TestDescribe(t *testing.T) {
	all := workload.Input{Seed: 1, Keys: 200, Distribution: workload.Zipf, Duplicates: 0.01}
	for name, want := range map[string]string{
		"ledger":        "200 keys, zipf, 1 % of them duplicates (seed 1)",
		"sessions":      "200 keys, zipf, without duplicates (seed 1)",
		"stream-stream": "a key for each pair, whose records are at most 200 apart, without duplicates (seed 1)",
	} {
		w, err := workload.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(w.Uses(all)); got != want {
			t.Errorf("of %s the report says %q, want %q", name, got, want)
		}
	}
}

// TestPartsKeepTheirSettings: what a kept part was measured with is neither lost nor replaced by
// what another part was measured with.
func TestPartsKeepTheirSettings(t *testing.T) {
	choices := func(name string) Choices {
		return Choices{"pass": {Tuning: streams.Tuning{Name: name}}, "ledger": {Tuning: streams.Tuning{Name: name}}}
	}
	of := func(r Result, names ...string) Result {
		r.Measured = map[string]Occasion{}
		for _, name := range names {
			r.Measured[name] = r.occasion(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
			if slices.Contains(compared, name) {
				r.Comparisons = append(r.Comparisons, Comparison{Workload: name})
			}
		}
		return r
	}
	with := Result{Broker: "a broker", Streams: "4.3.1", Java: "some Java", Choices: choices("old")}
	alone := Result{Broker: "another broker"}

	r := of(alone, "latency").With(of(with, "ledger", "latency"))
	if r.Streams != "4.3.1" || r.Java != "some Java" || r.Choices["ledger"].Tuning.Name != "old" || r.Measured["ledger"].Broker != "a broker" ||
		r.Measured["latency"].Streams != "" {
		t.Errorf("measured anew without Kafka Streams: %+v", r)
	}
	if r := of(alone, "ledger").With(of(with, "ledger")); r.Streams != "" || len(r.Choices) != 0 {
		t.Errorf("with nothing left that it has run: %+v", r)
	}
	unswept := with
	unswept.Choices = nil
	swept := with
	swept.Choices = choices("new")
	r = of(swept, "ledger").With(of(unswept, "pass", "ledger"))
	if _, there := r.Choices["pass"]; there || r.Choices["ledger"].Tuning.Name != "new" {
		t.Errorf("kept without a choice, and measured with one: %+v", r.Choices)
	}
}

// TestPartsWithoutCandidates claims two things. A part without any of the named candidates is not
// measured, so its earlier result stays. The first part that is measured finds a broker that has
// worked before.
func TestPartsWithoutCandidates(t *testing.T) {
	var progress strings.Builder
	cfg := Config{
		Brokers: broker(t), Name: "parts", Dir: t.TempDir(), Progress: &progress, Workloads: []string{"ledger"}, Records: 2000, Partitions: 2,
		Input: someInput(), Rounds: 1, Only: []string{Loop}, Latency: &LatencyConfig{Rate: 200, Duration: time.Second, Rounds: 1},
		Scaling: &ScalingConfig{Records: 2000, Rounds: 1},
	}
	r, err := Measure(t.Context(), cfg)
	if err != nil || len(r.Measured) != 0 || len(r.Comparisons) != 0 || strings.Count(progress.String(), "is left out") != 3 {
		t.Errorf("without anybody %+v are measured, %v\n%s", r.Measured, err, &progress)
	}
	progress.Reset()
	cfg.Only, cfg.Workloads, cfg.Scaling = []string{Onceward}, []string{}, nil
	r, err = Measure(t.Context(), cfg)
	warmed, measured := strings.Index(progress.String(), "warming up"), strings.Index(progress.String(), "latency")
	if err != nil || len(r.Latency) != 1 || warmed < 0 || measured < warmed {
		t.Errorf("of latency alone there is %+v, %v\n%s", r.Latency, err, &progress)
	}
}

// TestForSweep: a sweep is of workloads, and keeps the choices that it does not make again, each
// with its day.
func TestForSweep(t *testing.T) {
	cfg, err := Thorough().ForSweep([]string{"pass", "flights"})
	if err != nil || !slices.Equal(cfg.Workloads, []string{"pass", "flights"}) || cfg.Rounds != 1 || cfg.Records != Thorough().Records/4 {
		t.Errorf("for a sweep it is %+v, %v", cfg, err)
	}
	if _, err := Thorough().ForSweep([]string{"pass", "latency"}); err == nil || !strings.Contains(err.Error(), `"latency" is none`) {
		t.Errorf("of another part it says %v", err)
	}
	day := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := Swept{Time: day.AddDate(0, 0, 3), Records: 7, Choices: Choices{"pass": {Time: day.AddDate(0, 0, 3), Records: 7}}}.With(
		Swept{Time: day, Records: 5, Choices: Choices{"pass": {}, "ledger": {}, "count": {Time: day.AddDate(0, 0, 1), Records: 6}}})
	for name, records := range map[string]int64{"pass": 7, "ledger": 5, "count": 6} {
		if c := s.Choices[name]; c.Records != records || c.Time.IsZero() {
			t.Errorf("the choice for %s is said to be of %d records on %s", name, c.Records, c.Time)
		}
	}
}

func TestEarlierResult(t *testing.T) {
	dir := t.TempDir()
	if r, err := Earlier(dir); err != nil || len(r.Measured) != 0 {
		t.Errorf("of an empty directory it is %+v, %v", r, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "RESULTS.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Earlier(dir); err == nil || !strings.Contains(err.Error(), "move it away to start again") {
		t.Errorf("of a broken file: %v", err)
	}
}
