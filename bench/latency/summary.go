package latency

import (
	"fmt"
	"math"
	"time"
)

// Summary is a distribution. Percentiles are those of the nearest rank: values that were measured,
// not interpolated ones.
type Summary struct {
	Count int           `json:"count"`
	Min   time.Duration `json:"min_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p99_9_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Summarize returns the distribution of sorted values. There must be at least one.
func Summarize(sorted []time.Duration) Summary {
	return Summary{
		Count: len(sorted), Min: sorted[0], P50: percentile(sorted, 0.50), P90: percentile(sorted, 0.90), P99: percentile(sorted, 0.99),
		P999: percentile(sorted, 0.999), Max: sorted[len(sorted)-1],
	}
}

func percentile(sorted []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// String gives the percentiles in milliseconds.
func (s Summary) String() string {
	return fmt.Sprintf("p50 %.1f  p90 %.1f  p99 %.1f  p99.9 %.1f  max %.1f ms",
		ms(s.P50), ms(s.P90), ms(s.P99), ms(s.P999), ms(s.Max))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
