package peers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/peers/streams"
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

// TestPartsOfAnEarlierResult: what is measured anew takes the place of what was there, and the rest stays, with the day and the settings that
// it was measured with.
func TestPartsOfAnEarlierResult(t *testing.T) {
	compared := func(workload string, rate float64) Comparison {
		var run Run
		run.Contestant, run.RecordsPerSecond = Onceward, rate
		return Comparison{Workload: workload, Rounds: []Round{{Runs: []Run{run}}}}
	}
	chosen := func(name string) streams.Choice {
		return streams.Choice{Tuning: streams.Tuning{Name: name}, Heap: "1g", SmallHeap: "1g"}
	}
	first := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	then, now := Occasion{first, "a machine", "make first"}, Occasion{first.AddDate(0, 0, 3), "a machine", "make second"}
	earlier := Result{
		Time: then.Time, Command: then.Command, Machine: "a machine", Streams: "4.3.1",
		Measured:    map[string]Occasion{"pass": then, "ledger": then, "latency": then},
		Choices:     Choices{"pass": chosen("old"), "ledger": chosen("old")},
		Comparisons: []Comparison{compared("pass", 1000), compared("ledger", 2000)},
		Latency:     []Latency{{Contestant: Onceward, Rate: 77, Latency: latency.Summary{Count: 5}}},
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
	result := Result{
		Time: now.Time, Command: now.Command, Machine: "a machine", Streams: "4.3.1", Measured: map[string]Occasion{"ledger": now, "count": now},
		Choices:     Choices{"pass": chosen("new"), "ledger": chosen("new"), "count": chosen("new")},
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
		"- 2030-01-02: latency, pass, by `make first` on a machine\n", "- 2030-01-05: count, ledger, by `make second` on a machine\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing:\n%s", line, text)
		}
	}
	if strings.Contains(earlier.Markdown(), "parts of several runs") {
		t.Error("a result of one run is said to be of several")
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
	if _, err := Earlier(dir); err == nil || !strings.Contains(err.Error(), "move it away to begin anew") {
		t.Errorf("of a broken file: %v", err)
	}
}
