package streams

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/measure"
)

// heapLossMax is what a heap may cost of the rate to be taken for enough.
const heapLossMax = 0.05

// Trial is a setting that was tried.
type Trial struct {
	Tuning Tuning `json:"tuning"`
	Heap   string `json:"heap"`
	// Rates are in records per second.
	Rates  []float64 `json:"records_per_second"`
	Median float64   `json:"median_records_per_second"`
	// Failed is why it did not get through.
	Failed string `json:"failed,omitempty"`
}

// Choice is how Kafka Streams is run, and why.
type Choice struct {
	// Time is when it was found, and Records over how many records each trial went, if who keeps
	// choices of several searches has said so.
	Time    time.Time `json:"time,omitzero"`
	Records int64     `json:"records,omitempty"`
	// Tunings and Heaps are the trials.
	Tunings []Trial `json:"tunings,omitempty"`
	Heaps   []Trial `json:"heaps,omitempty"`
	// Tuning is the fastest one with Heap. SmallHeap is the smallest heap before the first that
	// costs it five percent or more, Heap itself if none was looked for or the next smaller one
	// costs as much.
	Tuning    Tuning `json:"tuning,omitzero"`
	Heap      string `json:"heap,omitempty"`
	SmallHeap string `json:"small_heap,omitempty"`
}

// Search finds the fastest of some settings, and then the smallest heap that is enough for it.
type Search struct {
	Tunings []Tuning
	// Heaps are in descending order. Tunings are compared with the first one.
	Heaps []string
	// Runs is how often each setting is tried. HeapRuns is how often each heap is tried, including
	// the first one for the fastest setting again: the winning rate is the luckiest of all, and no
	// measure of the cost of a heap. 0 is Runs.
	Runs, HeapRuns int
	// Run tries a setting and returns records per second.
	Run func(ctx context.Context, tuning Tuning, heap string) (rate float64, err error)
	// Dir is the directory of Run's files. The kept part of a failure is shown to others, and has a
	// dot in its place.
	Dir string
	// Failed is told of a setting that did not get through, which is no failure of the search.
	Failed func(err error)
}

// Do tries everything. It fails if ctx ends, and if no setting gets through.
func (s Search) Do(ctx context.Context) (Choice, error) {
	var c Choice
	best := Trial{}
	for _, tuning := range s.Tunings {
		t, err := s.try(ctx, tuning, s.Heaps[0], s.Runs)
		if err != nil {
			return Choice{}, err
		}
		c.Tunings = append(c.Tunings, t)
		if t.Median > best.Median {
			best = t
		}
	}
	if best.Median == 0 {
		return Choice{}, fmt.Errorf("no setting of Kafka Streams has got through; the last one: %s", c.Tunings[len(c.Tunings)-1].Failed)
	}
	c.Tuning, c.Heap, c.SmallHeap = best.Tuning, s.Heaps[0], s.Heaps[0]
	if len(s.Heaps) == 1 {
		return c, nil
	}
	for i, heap := range s.Heaps {
		t, err := s.try(ctx, c.Tuning, heap, cmp.Or(s.HeapRuns, s.Runs))
		if err != nil {
			return Choice{}, err
		}
		c.Heaps = append(c.Heaps, t)
		if t.Failed != "" || i > 0 && t.Median <= (1-heapLossMax)*c.Heaps[0].Median {
			break
		}
		c.SmallHeap = heap
	}
	return c, nil
}

func (s Search) try(ctx context.Context, tuning Tuning, heap string, runs int) (Trial, error) {
	t := Trial{Tuning: tuning, Heap: heap}
	for range runs {
		rate, err := s.Run(ctx, tuning, heap)
		if ctx.Err() != nil {
			return t, context.Cause(ctx)
		}
		if err != nil {
			s.Failed(err)
			t.Failed = err.Error()
			if s.Dir != "" {
				t.Failed = strings.ReplaceAll(t.Failed, s.Dir, ".")
			}
			return t, nil
		}
		t.Rates = append(t.Rates, rate)
	}
	t.Median = measure.SpreadOf(t.Rates).Median
	return t, nil
}

// Table is the trials in Markdown, in their order.
func (c Choice) Table() string {
	out := "| setting | heap | median records/s | runs |\n|---|---|---|---|\n"
	for _, trials := range [][]Trial{c.Tunings, c.Heaps} {
		for _, t := range trials {
			runs := "did not get through"
			if t.Failed == "" {
				runs = fmt.Sprintf("%.0f", t.Rates)
			}
			out += fmt.Sprintf("| %s | %s | %.0f | %s |\n", t.Tuning, t.Heap, t.Median, runs)
		}
	}
	return out
}
