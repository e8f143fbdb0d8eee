package restoretime

import (
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/measure"
)

// String is one restore for people.
func (r Restore) String() string {
	return fmt.Sprintf("%7.0f records/ms  restore %5.2f s  start to running %5.2f s  peak %4.0f MiB  %5.2f s of processor time",
		r.Rate/1000, r.Took.Seconds(), r.Wall.Seconds(), measure.MiB(r.PeakRSS), r.CPU.Seconds())
}

// Summary is the comparison. The ratios are of the runs of one round each.
type Summary struct {
	Onceward Candidate `json:"onceward"`
	// Streams has the first heap, Small the smallest one that does not cost it much.
	Streams Candidate `json:"streams,omitzero"`
	Small   Candidate `json:"streams_small_heap,omitzero"`
	// Speed is the rate of Onceward by that of Streams, Memory its peak by that of Small.
	Speed  measure.Spread `json:"speed_ratio,omitzero"`
	Memory measure.Spread `json:"memory_ratio,omitzero"`
}

// Candidate sums up the runs of one.
type Candidate struct {
	// Rate is in records per second, Took, Wall and CPU in seconds, PeakRSS in MiB.
	Rate    measure.Spread `json:"records_per_second"`
	Took    measure.Spread `json:"took_s"`
	Wall    measure.Spread `json:"wall_s"`
	CPU     measure.Spread `json:"cpu_s"`
	PeakRSS measure.Spread `json:"peak_rss_mib"`
}

func candidate(runs []*Restore) Candidate {
	of := func(value func(*Restore) float64) measure.Spread {
		var values []float64
		for _, r := range runs {
			values = append(values, value(r))
		}
		return measure.SpreadOf(values)
	}
	return Candidate{
		Rate: of(func(r *Restore) float64 { return r.Rate }), PeakRSS: of(func(r *Restore) float64 { return measure.MiB(r.PeakRSS) }),
		Took: of(func(r *Restore) float64 { return r.Took.Seconds() }), Wall: of(func(r *Restore) float64 { return r.Wall.Seconds() }),
		CPU: of(func(r *Restore) float64 { return r.CPU.Seconds() }),
	}
}

// Summary compares the candidates.
func (r Result) Summary() Summary {
	var onceward, streams, small []*Restore
	var speed, memory []float64
	for _, round := range r.Rounds {
		onceward = append(onceward, round.Onceward)
		if round.Streams == nil {
			continue
		}
		streams, small = append(streams, round.Streams), append(small, round.Small)
		speed = append(speed, round.Onceward.Rate/round.Streams.Rate)
		if round.Small.PeakRSS > 0 {
			memory = append(memory, float64(round.Onceward.PeakRSS)/float64(round.Small.PeakRSS))
		}
	}
	return Summary{
		Onceward: candidate(onceward), Streams: candidate(streams), Small: candidate(small),
		Speed: measure.SpreadOf(speed), Memory: measure.SpreadOf(memory),
	}
}

// Write leaves the result in restore.md and restore.json in the directory, which it makes.
func (r Result) Write(dir string) error {
	return measure.Write(dir, "restore", r.Markdown(), struct {
		Summary Summary `json:"summary"`
		Result
	}{r.Summary(), r})
}

// Markdown is the result for people.
func (r Result) Markdown() string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	s, per := r.Summary(), r.Data.perPartition()
	line("# Restore\n")
	line("%s; %s; median (least to most) of %d rounds.\n", r.Time.Format(time.RFC3339), r.Host, len(r.Rounds))
	line("%d changelog records: %d stores of %d partitions with %d records each, %.1f bytes of key and value on average, %.1f %% "+
		"updates (seed %d), written in transactions, not compressed.\n", r.Log.Records, len(stores), r.Data.Partitions, per,
		float64(r.Log.Bytes)/float64(r.Log.Records), 100*(1-float64(r.Log.Entries)/float64(r.Log.Records)), r.Data.Seed)
	line("| | records/s | restore | start to running | processor time | peak RSS |\n|---|---|---|---|---|---|")
	row := func(name string, c Candidate) {
		rate := measure.Spread{Median: c.Rate.Median / 1000, Min: c.Rate.Min / 1000, Max: c.Rate.Max / 1000}
		line("| %s | %s k | %s s | %s s | %s s | %s MiB |", name, rate.Text(0), c.Took.Text(2), c.Wall.Text(2), c.CPU.Text(2),
			c.PeakRSS.Text(0))
	}
	cache := "the default cache"
	if r.CacheBytes > 0 {
		cache = fmt.Sprintf("a cache of %.0f MiB", measure.MiB(r.CacheBytes))
	}
	row(strings.TrimSpace("Onceward, "+cache+" "+r.Limits.String()), s.Onceward)
	if r.Streams == "" {
		return out.String()
	}
	row("Kafka Streams "+r.Streams+", "+r.Tuning.Name+", -Xmx"+r.Heap, s.Streams)
	if r.SmallHeap != r.Heap {
		row("Kafka Streams "+r.Streams+", "+r.Tuning.Name+", -Xmx"+r.SmallHeap, s.Small)
	}
	line("\nSpeed: **%s** times Kafka Streams with -Xmx%s (aim 2.5, least 1.5).", s.Speed.Text(2), r.Heap)
	line("Memory: **%s** of Kafka Streams with -Xmx%s, the smallest heap tried that costs it less than 5 %% (at most 0.5).\n",
		s.Memory.Text(2), r.SmallHeap)
	line("Java: %s. Settings of Kafka Streams that were tried, in records/s:\n", r.Java)
	out.WriteString(r.Table())
	return out.String()
}
