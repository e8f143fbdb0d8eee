package comparison

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/bench/workload"
)

// reportName is the name of the files of a report, but for their endings.
const reportName = "RESULTS"

// Write leaves the result in RESULTS.md, RESULTS.json and RESULTS.svg in the directory, which it
// makes.
func (r Result) Write(dir string) error {
	err := measure.Write(dir, reportName, r.Markdown(), struct {
		Targets []Target `json:"targets"`
		Result
	}{r.Targets(), r})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, reportName+".svg"), []byte(r.Chart()), 0o644)
}

// page is a report in the making.
type page struct{ strings.Builder }

func (p *page) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// Markdown is the result for people.
func (r Result) Markdown() string {
	var p page
	p.line("# Onceward beside its peers\n")
	p.line("Made by `%s` on %s. Do not edit: the next run replaces it.\n", r.Command, r.Time.Format(time.DateOnly))
	if !p.occasions(r.Measured) {
		if r.Revision != "" {
			p.line("- Onceward: %s", r.Revision)
		}
		p.line("- Machine: %s; brokers and applications share it", r.Machine)
		p.line("- Broker: %s", r.Broker)
		if r.Streams != "" {
			p.line("- Kafka Streams %s, %s; exactly_once_v2, RocksDB", r.Streams, r.Java)
		}
		p.line("- Onceward: the defaults of txn.Config %s", r.Limits)
	}
	p.line("\nThe documentation of package `bench/comparison` has the rules of the comparison. Every output of every run was")
	p.line("compared with a recomputation from its input, and so were the stores of counts, balances and ids. Figures are medians, with the")
	p.line("least and the greatest in parentheses; ratios are of runs of one round. Rates are of the steady state, from a quarter of the records on.\n")
	if brief := r.brief(); len(brief) > 0 {
		p.line("**Some steady states were so short that their rates say little: %s. More records are needed.**\n", strings.Join(brief, ", "))
	}
	p.targets(r.Targets())
	if len(r.Comparisons) > 0 {
		p.line("![steady state, in records per second](%s.svg)\n", reportName)
	}
	for _, c := range r.Comparisons {
		p.comparison(c)
	}
	p.latency(r.Latency)
	p.recovery(r.Recovery)
	if r.Restore != nil {
		p.line("#%s", r.Restore.Markdown())
	}
	p.scaling(r.Scaling)
	if r.Streams != "" {
		p.settings(r.Choices)
	}
	return p.String()
}

// occasions lists when and with what the parts were measured, if they were not all at once, and
// reports whether that is so.
func (p *page) occasions(measured map[string]Occasion) bool {
	by := map[Occasion][]string{}
	for name, o := range measured {
		if o.Run.IsZero() { // of an older build, which tells the runs of one day from each other by their commands
			o.Run = o.Time.Truncate(24 * time.Hour)
		}
		o.Time = time.Time{}
		by[o] = append(by[o], name)
	}
	if len(by) < 2 {
		return false
	}
	p.line("It has parts of several runs; what is compared with each other was measured in one:\n")
	for _, o := range slices.SortedFunc(maps.Keys(by), func(a, b Occasion) int {
		return cmp.Or(a.Run.Compare(b.Run), cmp.Compare(a.Command, b.Command), cmp.Compare(a.Machine, b.Machine),
			cmp.Compare(a.details(), b.details()))
	}) {
		slices.Sort(by[o])
		p.line("- %s: %s, by `%s` on %s%s", o.Run.Format(time.DateOnly), strings.Join(by[o], ", "), o.Command, o.Machine, o.details())
	}
	p.line("\nBrokers and applications share the machine. Kafka Streams has exactly_once_v2 and RocksDB, Onceward the defaults of txn.Config.")
	return true
}

// brief lists whose runs were too short for their rates to say anything, with the shortest: of a
// workload, and of what was scaled.
func (r Result) brief() (all []string) {
	shortest := map[string]float64{}
	note := func(who string, runs []Run) {
		for _, run := range runs {
			if of := who + " of " + run.Candidate; run.Brief() {
				if least, there := shortest[of]; !there || run.Steady.Seconds < least {
					shortest[of] = run.Steady.Seconds
				}
			}
		}
	}
	for _, c := range r.Comparisons {
		for _, round := range c.Rounds {
			note(c.Workload, round.Runs)
		}
	}
	for _, s := range r.Scaling {
		note(s.Name, s.Runs)
	}
	for _, of := range slices.Sorted(maps.Keys(shortest)) {
		all = append(all, fmt.Sprintf("%s (%.1f s)", of, shortest[of]))
	}
	return all
}

func (p *page) targets(targets []Target) {
	p.line("## Targets\n\n| what | against | target | ratio | |\n|---|---|---|---|---|")
	for _, t := range targets {
		ratio := ""
		if t.Measured {
			ratio = t.Ratio.Text(2)
		}
		p.line("| %s | %s | %s | %s | %s |", t.What, t.Against, t.Want(), ratio, t.Verdict())
	}
	p.line("")
}

// comparison is a table of the candidates, and one of every run.
func (p *page) comparison(c Comparison) {
	in := c.Input
	p.line("## %s\n\nIt %s. %d records in %d partitions, %s.%s\n", c.Workload, c.About, in.Records, in.Partitions, describe(in.Input),
		tuned(c))
	p.line("| | k records/s | CPU s per million, application | broker | first commit after s | peak RSS, MiB |")
	p.line("|---|---|---|---|---|---|")
	names := candidatesOf(c)
	for _, name := range names {
		of := func(figure func(Run) float64) measure.Spread { return measure.SpreadOf(c.values(name, figure)) }
		p.line("| %s | %s | %s | %s | %s | %s |", name, of(rateK).Text(0), of(Run.AppCPU).Text(2), of(Run.BrokerCPU).Text(2),
			of(func(r Run) float64 { return r.ToFirstCommit }).Text(1), of(peakMiB).Text(0))
	}
	p.line("\nEvery run: k records/s of the steady state (from the start); CPU seconds per million of the application and of the broker:\n")
	p.line("| round | load before | %s |\n|---|---|%s", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for n, round := range c.Rounds {
		cells := make([]string, len(names))
		for _, run := range round.Runs {
			cells[slices.Index(names, run.Candidate)] = fmt.Sprintf("%.1f (%.1f); %.2f and %.2f", rateK(run), run.RecordsPerSecond/1e3,
				run.AppCPU(), run.BrokerCPU())
		}
		p.line("| %d | %s | %s |", n+1, round.Load, strings.Join(cells, " | "))
	}
	p.line("")
}

// tuned says what Kafka Streams ran with when tuned, and whether that was looked for with this
// workload.
func tuned(c Comparison) string {
	if c.Tuned == nil {
		return ""
	}
	out := fmt.Sprintf(" *%s* is %s, heap %s, ", StreamsTuned, c.Tuned.Tuning, c.Tuned.Heap)
	switch c.Tuned.SweptFor {
	case c.Workload:
		return out + "the fastest of its sweep."
	case "":
		return out + "**for which no sweep was made**."
	}
	return out + fmt.Sprintf("**the fastest of the sweep of %s**; none was made for this workload.", c.Tuned.SweptFor)
}

// describe says in words what is in an input.
func describe(in workload.Input) string {
	out := fmt.Sprintf("%.3g %% of them duplicates (seed %d)", 100*in.Duplicates, in.Seed)
	if in.Duplicates == 0 {
		out = fmt.Sprintf("without duplicates (seed %d)", in.Seed)
	}
	switch {
	case in.Keys > 0 && in.Distribution == "": // pairs
		return fmt.Sprintf("a key for each pair, whose records are at most %d apart, ", in.Keys) + out
	case in.Keys > 0:
		return fmt.Sprintf("%d keys, %s, ", in.Keys, in.Distribution) + out
	}
	return out
}

func rateK(r Run) float64   { return r.Rate() / 1e3 }
func peakMiB(r Run) float64 { return measure.MiB(r.PeakRSS) }

// candidatesOf are those of the first round, which has the order of their list.
func candidatesOf(c Comparison) (names []string) {
	for _, round := range c.Rounds[:min(1, len(c.Rounds))] {
		for _, run := range round.Runs {
			names = append(names, run.Candidate)
		}
	}
	return names
}

func (p *page) latency(all []Latency) {
	if len(all) == 0 {
		return
	}
	p.line("## Latency\n\nFrom the time at which an event was due until a read_committed reader has it, in milliseconds: "+
		"ledger at %d events/s, all candidates at the defaults. Every run:\n", all[0].Rate)
	p.line("| | load before | p50 | p90 | p99 | p99.9 | greatest |\n|---|---|---|---|---|---|---|")
	for _, l := range all {
		s := l.Latency
		p.line("| %s | %s | %.1f | %.1f | %.1f | %.1f | %.1f |", l.Candidate, l.Load, ms(s.P50), ms(s.P90), ms(s.P99), ms(s.P999),
			ms(s.Max))
	}
	p.line("")
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (p *page) recovery(all []Recovery) {
	if len(all) == 0 {
		return
	}
	p.line("## Recovery\n\nSeconds from kill -9 until a read_committed reader has an event that was due after it. A *restart* is of the "+
		"only process, at once, with its state and identity; at a *takeover* one of two processes stays away. *%s* has "+
		"`group.instance.id`, which spares a restart the wait for the session to end. Every event came once. Every run:\n", streamsStatic)
	p.line("| | | load before | events before | first partition | all partitions |\n|---|---|---|---|---|---|")
	for _, r := range all {
		p.line("| %s | %s | %s | %d | %.2f | %.2f |", r.What, r.Candidate, r.Load, r.Events, r.First.Seconds(), r.All.Seconds())
	}
	p.line("")
}

func (p *page) scaling(all []Scaling) {
	if len(all) == 0 {
		return
	}
	p.line("## Scaling\n\nOnceward alone, ledger. A process on one core has GOMAXPROCS=1.\n")
	p.line("| | records | k records/s | every run | CPU s per million | peak RSS, MiB |\n|---|---|---|---|---|---|")
	for _, s := range all {
		of := func(figure func(Run) float64) (values []float64) {
			for _, run := range s.Runs {
				values = append(values, figure(run))
			}
			return values
		}
		p.line("| %s | %s | %s | %.0f | %s | %s |", s.Name, records(s), measure.SpreadOf(of(rateK)).Text(0), of(rateK),
			measure.SpreadOf(of(Run.AppCPU)).Text(2), measure.SpreadOf(of(peakMiB)).Text(0))
	}
	p.line("")
}

// records are how many the variant reads.
func records(s Scaling) string {
	if s.Records == 0 {
		return "" // of an older build
	}
	if s.CacheBytes == 0 {
		return strconv.FormatInt(s.Records, 10)
	}
	return fmt.Sprintf("%d, cache %d MiB", s.Records, s.CacheBytes>>20)
}

// settings are those of Kafka Streams, with everything that was tried.
func (p *page) settings(choices Choices) {
	if len(choices) == 0 {
		p.line("## Settings of Kafka Streams\n\nNo sweep was made. *%s* is %s.", StreamsTuned, unswept)
		return
	}
	p.line("## Settings of Kafka Streams\n\nFound by `make bench-sweep`. *%s* has the fastest; *%s* has them with the smallest heap that "+
		"costs under 5 %%.\n", StreamsTuned, StreamsSmall)
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		c := choices[name]
		p.line("### %s\n\nChosen: %s, heap %s%s.%s\n\n%s", name, c.Tuning, c.Heap, smaller(c), found(c), trials(c))
	}
}

// trials is the table of what was tried; choices that were made by hand have none.
func trials(c streams.Choice) string {
	if len(c.Tunings) == 0 {
		return ""
	}
	return c.Table()
}

// found says when a choice was found; those that were made by hand were not.
func found(c streams.Choice) string {
	if c.Time.IsZero() {
		return ""
	}
	return fmt.Sprintf(" Found on %s, over %d records.", c.Time.Format(time.DateOnly), c.Records)
}

func smaller(c streams.Choice) string {
	if c.SmallHeap == c.Heap {
		return ""
	}
	return ", smallest " + c.SmallHeap
}
