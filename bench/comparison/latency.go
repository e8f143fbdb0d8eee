package comparison

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/latency"
)

// LatencyConfig is how latency is measured: on the workload ledger, with all candidates at the
// defaults.
type LatencyConfig struct {
	// Rate is events per second.
	Rate int
	// Events of Warmup do not count.
	Warmup, Duration time.Duration
	// Rounds is how often the candidates take turns.
	Rounds int
}

// Latency is one run at a steady rate.
type Latency struct {
	Candidate string          `json:"candidate"`
	Rate      int             `json:"events_per_second"`
	Latency   latency.Summary `json:"latency"`
	Load      string          `json:"load"`
}

// latencyCandidates are the candidates with default settings.
func (m *measurement) latencyCandidates() []candidate {
	all := []candidate{onceward}
	if m.cfg.Streams != nil {
		all = append(all, candidate{name: Streams, kind: kindStreams, tuning: streams.Tuning{Name: "defaults"}})
	}
	return m.chosen(all)
}

// latencies measures the candidates in turns.
func (m *measurement) latencies(ctx context.Context) error {
	cfg := m.cfg.Latency
	if cfg == nil {
		return nil
	}
	all := m.latencyCandidates()
	for n := range cfg.Rounds {
		first := n % len(all)
		for _, c := range slices.Concat(all[first:], all[:first]) {
			l, err := m.latency(ctx, c)
			if err != nil {
				return fmt.Errorf("%s, latency: %w", c.name, err)
			}
			m.say("latency      round %d  %-13s  %s", n+1, c.name, l.Latency)
			m.result.Latency = append(m.result.Latency, l)
		}
	}
	return nil
}

// latency loads a candidate at the rate. Every event has to come, and to come once.
func (m *measurement) latency(ctx context.Context, c candidate) (l Latency, err error) {
	cfg := m.cfg.Latency
	l = Latency{Candidate: c.name, Rate: cfg.Rate, Load: latency.LoadAverage()}
	f, err := m.newFleet(ctx, c, 1, cfg.Rate)
	if err != nil {
		return l, err
	}
	defer func() { err = f.close(ctx, err) }()
	// The warm-up begins when everything flows: a JVM that has just started is not what is
	// measured.
	from := f.load.Schedule.DueAt(time.Now().Add(cfg.Warmup))
	to := from + uint64(cfg.Rate)*uint64(cfg.Duration/time.Second)
	if err := f.load.Await(ctx, to); err != nil {
		return l, err
	}
	sorted, err := f.load.Reader.Latencies(from, to)
	if err != nil {
		return l, err
	}
	l.Latency = latency.Summarize(sorted)
	return l, f.drain(ctx)
}
