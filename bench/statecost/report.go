package statecost

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/measure"
)

// beyondMax is how far resident memory may exceed the configured memory. slowdownMax is how much
// the time per record may grow from the smallest size to the largest. reopenMax is how long an open
// after a kill may take.
const (
	beyondMax   = 200 << 20
	slowdownMax = 2
	reopenMax   = 2 * time.Second
)

// spread returns the spread of a value over the runs.
func (c Curve) spread(value func(Run) float64) measure.Spread {
	var values []float64
	for _, r := range c.Runs {
		values = append(values, value(r))
	}
	return measure.SpreadOf(values)
}

// Summary is a curve in figures.
type Summary struct {
	Keys         Keys         `json:"keys"`
	Distribution Distribution `json:"distribution"`
	// Record is in nanoseconds, PeakRSS in MiB.
	Record  measure.Spread `json:"record_ns"`
	PeakRSS measure.Spread `json:"peak_rss_mib"`
	// Slowdown is the time by that of the same repeat at the smallest size.
	Slowdown measure.Spread `json:"slowdown"`
}

// Summaries sums the curves up.
func (r Result) Summaries() []Summary {
	var out []Summary
	for _, c := range r.Curves {
		base := r.Curves[slices.IndexFunc(r.Curves, func(b Curve) bool { return b.Workload == c.Workload })]
		var slowdown []float64
		for i, run := range c.Runs {
			slowdown = append(slowdown, run.Record/base.Runs[i].Record)
		}
		out = append(out, Summary{
			Keys: c.Keys, Distribution: c.Workload.Distribution, Slowdown: measure.SpreadOf(slowdown),
			Record:  c.spread(func(r Run) float64 { return r.Record }),
			PeakRSS: c.spread(func(r Run) float64 { return measure.MiB(r.PeakRSS) }),
		})
	}
	return out
}

// Write leaves the result in state.md and state.json in the directory, which it makes.
func (r Result) Write(dir string) error {
	return measure.Write(dir, "state", r.Markdown(), struct {
		Summaries []Summary `json:"summaries"`
		Result
	}{r.Summaries(), r})
}

// Markdown is the result for people.
func (r Result) Markdown() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	line("# State\n")
	line("%s; %s; median (least to most) of %d runs.", r.Time.Format(time.RFC3339), r.Host, len(r.Curves[0].Runs))
	line("Configured memory: a block cache of %.0f MiB. %s\n", measure.MiB(r.CacheBytes), r.Limits)
	line("Half of the keys are accounts. Keys of %d bytes, values of %d to %d.\n", keyBytes, valueBytesMin, valueBytesMax)
	line("| keys | accounts drawn | ns a record | processing | apply | slowest round | by the smallest size | peak RSS | cache hits | disk |")
	line("|---|---|---|---|---|---|---|---|---|---|")
	for i, s := range r.Summaries() {
		c := r.Curves[i]
		last := c.Runs[len(c.Runs)-1]
		line("| %d | %s | %s | %.0f | %.0f | %.0f | **%s** | %s MiB | %.1f %% | %.0f MiB |", s.Keys, c.Workload, s.Record.Text(0),
			c.spread(func(r Run) float64 { return r.Process }).Median, c.spread(func(r Run) float64 { return r.Apply }).Median,
			c.spread(func(r Run) float64 { return r.RoundMax }).Max, s.Slowdown.Text(2), s.PeakRSS.Text(0),
			100*float64(last.Cache.Hits)/float64(max(last.Cache.Hits+last.Cache.Misses, 1)), measure.MiB(int64(last.Store.DiskBytes)))
	}
	line("\nEach run: %d records in rounds of %d, %.0f %% of them duplicates. Aims: at most %d times the time of the smallest size, and at "+
		"most %.0f MiB resident.", r.Curves[0].Runs[0].Records, r.Curves[0].Workload.Round, 100*r.Curves[0].Workload.Duplicates, slowdownMax,
		measure.MiB(r.CacheBytes+beyondMax))
	if len(r.Reopens) > 0 {
		var took, replay []float64
		for _, o := range r.Reopens {
			took = append(took, float64(o.Took)/float64(time.Millisecond))
			replay = append(replay, float64(max(o.Applied-o.Kept, 0)))
		}
		line("\nReopen after kill -9 with %d keys, %d times: **%s ms** before the replay (aim: %d ms); records to be replayed: %s.",
			r.ReopenKeys, len(r.Reopens), measure.SpreadOf(took).Text(1), reopenMax.Milliseconds(), measure.SpreadOf(replay).Text(0))
	}
	return out.String()
}

// String names the distribution.
func (w Workload) String() string {
	if w.Distribution == Zipf {
		return fmt.Sprintf("%s, exponent %g", w.Distribution, w.Exponent)
	}
	return string(w.Distribution)
}
