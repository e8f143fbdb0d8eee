package comparison

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/bench/measure"
)

// Target is a promise about Onceward with what was found.
type Target struct {
	// The figure, and the candidate that it is compared with.
	What    string `json:"what"`
	Against string `json:"against,omitempty"`
	// Limit is what the ratio has to be at least, or, if Most is set, at most. Aim is what one
	// would like; 0 if nothing else.
	Limit float64 `json:"limit"`
	Aim   float64 `json:"aim,omitempty"`
	Most  bool    `json:"most,omitempty"`
	// Ratio is Onceward by the other one, of the runs of one round each. Measured says that there
	// is one.
	Ratio    measure.Spread `json:"ratio"`
	Measured bool           `json:"measured"`
}

// Met says whether the median keeps the promise.
func (t Target) Met() bool {
	if t.Most {
		return t.Measured && t.Ratio.Median <= t.Limit
	}
	return t.Measured && t.Ratio.Median >= t.Limit
}

// Want is the limit for people.
func (t Target) Want() string {
	if t.Most {
		return fmt.Sprintf("at most %g", t.Limit)
	}
	if t.Aim > 0 {
		return fmt.Sprintf("at least %g, aim %g", t.Limit, t.Aim)
	}
	return fmt.Sprintf("at least %g", t.Limit)
}

// Verdict says whether the target is met, or by how much of the limit it is missed.
func (t Target) Verdict() string {
	switch {
	case !t.Measured:
		return "not measured"
	case !t.Met():
		missed := 1 - t.Ratio.Median/t.Limit
		if t.Most {
			missed = t.Ratio.Median/t.Limit - 1
		}
		return fmt.Sprintf("**missed by %.0f %%**", 100*missed)
	case t.Aim > 0 && t.Ratio.Median < t.Aim:
		return "met, below the aim"
	}
	return "met"
}

// Targets are all that were set, those that were not measured as well.
func (r Result) Targets() []Target {
	of := func(what string, limit, aim float64) Target {
		against := r.better(what)
		return Target{What: what + ", records/s", Against: against, Limit: limit, Aim: aim}.measured(r.ratios(what, against, Run.Rate))
	}
	small := StreamsSmall
	if r.values("ledger", small, Run.Rate) == nil {
		small = StreamsTuned
	}
	memory := func(run Run) float64 { return float64(run.PeakRSS) }
	static, recovered := r.recoveryRatios(restart)
	targets := []Target{
		of("ledger", 2.5, 4), of("count", 2.5, 4), of("pass", 4, 0),
		Target{What: "pass, records/s", Against: Loop, Limit: 1.5}.measured(r.ratios("pass", Loop, Run.Rate)),
		of("repartition", 2.5, 0),
		of("stream-table", 2.5, 0), of("stream-stream", 2.5, 0), of("foreign-key", 2.5, 0), of("sessions", 2.5, 0),
		Target{What: "full restore, records/s", Against: StreamsTuned, Limit: 1.5, Aim: 2.5}.measured(r.restoreRatios()),
		Target{What: "restart after kill -9 under load, time", Against: static, Limit: 0.1, Most: true}.measured(recovered),
		r.latencyTarget("p50", func(l Latency) time.Duration { return l.Latency.P50 }),
		r.latencyTarget("p99", func(l Latency) time.Duration { return l.Latency.P99 }),
		Target{What: "ledger, peak of resident memory", Against: small, Limit: 0.5, Most: true}.
			measured(r.ratios("ledger", small, memory)),
	}
	for _, s := range []struct {
		name  string
		limit float64
	}{{scalePartitions, 0.8}, {scaleKeys, 0.7}} {
		t := Target{What: "ledger with " + s.name + ", records/s", Against: Onceward + ", " + scaleBase, Limit: s.limit}
		targets = append(targets, t.measured(r.scalingRatios(s.name, scaleBase)))
	}
	return targets
}

func (t Target) measured(ratios []float64) Target {
	t.Ratio, t.Measured = measure.SpreadOf(ratios), len(ratios) > 0
	return t
}

// values returns a figure of a candidate in a workload, by round; nil if it has not run in every
// one.
func (r Result) values(workload, candidate string, figure func(Run) float64) []float64 {
	for _, c := range r.Comparisons {
		if c.Workload == workload {
			return c.values(candidate, figure)
		}
	}
	return nil
}

func (c Comparison) values(candidate string, figure func(Run) float64) (values []float64) {
	for _, round := range c.Rounds {
		for _, run := range round.Runs {
			if run.Candidate == candidate {
				values = append(values, figure(run))
			}
		}
	}
	if len(values) != len(c.Rounds) {
		return nil
	}
	return values
}

// better returns who was faster: Kafka Streams at its defaults or tuned.
func (r Result) better(workload string) string {
	if measure.SpreadOf(r.values(workload, Streams, Run.Rate)).Median > measure.SpreadOf(r.values(workload, StreamsTuned, Run.Rate)).Median {
		return Streams
	}
	return StreamsTuned
}

// ratios are a figure of Onceward by that of another one, round by round.
func (r Result) ratios(workload, against string, figure func(Run) float64) []float64 {
	return quotients(r.values(workload, Onceward, figure), r.values(workload, against, figure))
}

// quotients divides the one by the other, pair by pair. There are none if a divisor is zero: it was
// not measured.
func quotients(ours, theirs []float64) (out []float64) {
	for i := range min(len(ours), len(theirs)) {
		if theirs[i] == 0 {
			return nil
		}
		out = append(out, ours[i]/theirs[i])
	}
	return out
}

// recoveryRatios compares with the better one of Kafka Streams: at its defaults, or with static
// membership. The runs of the candidates are not of one round, so they are put together in their
// order.
func (r Result) recoveryRatios(what string) (against string, ratios []float64) {
	against = Streams
	static, defaults := r.recovered(streamsStatic, what), r.recovered(Streams, what)
	if len(static) > 0 && (len(defaults) == 0 || median(static) < median(defaults)) {
		against = streamsStatic
	}
	return against, quotients(r.recovered(Onceward, what), r.recovered(against, what))
}

func median(values []float64) float64 { return measure.SpreadOf(values).Median }

func (r Result) recovered(candidate, what string) (seconds []float64) {
	for _, one := range r.Recovery {
		if one.Candidate == candidate && one.What == what {
			seconds = append(seconds, one.All.Seconds())
		}
	}
	return seconds
}

func (r Result) latencyTarget(what string, figure func(Latency) time.Duration) Target {
	of := func(candidate string) (seconds []float64) {
		for _, l := range r.Latency {
			if l.Candidate == candidate {
				seconds = append(seconds, figure(l).Seconds())
			}
		}
		return seconds
	}
	return Target{What: "latency " + what + " at the defaults, ledger", Against: Streams, Limit: 0.2, Most: true}.
		measured(quotients(of(Onceward), of(Streams)))
}

func (r Result) restoreRatios() (ratios []float64) {
	if r.Restore == nil {
		return nil
	}
	for _, round := range r.Restore.Rounds {
		if round.Streams != nil {
			ratios = append(ratios, round.Onceward.Rate/round.Streams.Rate)
		}
	}
	return ratios
}

func (r Result) scalingRatios(of, to string) []float64 {
	rates := func(name string) (rates []float64) {
		for _, s := range r.Scaling {
			for _, run := range s.Runs {
				if s.Name == name {
					rates = append(rates, run.Rate())
				}
			}
		}
		return rates
	}
	return quotients(rates(of), rates(to))
}
