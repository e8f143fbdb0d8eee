package comparison

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/restoretime"
	"github.com/onceward/onceward/bench/workload"
)

// Thorough returns the settings of the whole measurement, which takes about four hours. The caller
// says where it is made, and with whom.
func Thorough() Config {
	return Config{
		Records: 8_000_000, Partitions: 4, Rounds: 5,
		Input:    workload.Input{Seed: 1, Keys: 100_000, Distribution: workload.Uniform, Duplicates: 0.01},
		Latency:  &LatencyConfig{Rate: 10_000, Warmup: 30 * time.Second, Duration: 60 * time.Second, Rounds: 3},
		Recovery: &RecoveryConfig{Rate: 10_000, Restarts: 5, Takeovers: 3, Between: 10 * time.Second},
		Restore: &RestoreConfig{
			Data: restoretime.Data{Records: 4_000_000, Partitions: 4, Updates: 0.05, Seed: 1}, Rounds: 5, SearchRuns: 1,
		},
		Scaling: &ScalingConfig{Records: 8_000_000, Rounds: 3},
	}
}

// ForSweep returns settings of a [Sweep] of these workloads, of all if there are no names, beside
// those of a measurement: a quarter of the records, each setting once. Which one is chosen of two
// that are close to each other is of no consequence; heaps are tried more often (heapRuns). The
// other parts of a measurement have nothing that could be swept, and are refused.
func (c Config) ForSweep(workloads []string) (Config, error) {
	all := append(slices.Clone(compared), flights)
	for _, name := range workloads {
		if !slices.Contains(all, name) {
			return Config{}, fmt.Errorf("a sweep is of workloads, and %q is none; there are %s", name, strings.Join(all, ", "))
		}
	}
	c.Workloads, c.Records, c.Rounds = workloads, c.Records/4, 1
	return c, nil
}

// Brief returns settings that show within minutes that everything works and that every answer is
// right. Its figures say nothing: no JVM is warm before it is through.
func Brief() Config {
	tuned := streams.Choice{Tuning: unswept, Heap: "512m", SmallHeap: "512m"}
	cached := streams.Choice{Tuning: tunings()[len(tunings())-1], Heap: "512m", SmallHeap: "512m"}
	return Config{
		Records: 40_000, Partitions: 4, Rounds: 1, Workloads: slices.Clone(compared),
		Input: workload.Input{Seed: 1, Keys: 1000, Distribution: workload.Zipf, Duplicates: 0.05},
		// With the DSL's count as well as with the cached one.
		Choices: Choices{
			"pass": tuned, "count": tuned, "ledger": cached, "repartition": cached,
			"stream-table": tuned, "stream-stream": tuned, "foreign-key": tuned, "sessions": tuned,
		},
		Only:     []string{Onceward, StreamsTuned, Loop, streamsStatic},
		Latency:  &LatencyConfig{Rate: 500, Warmup: time.Second, Duration: 2 * time.Second, Rounds: 1},
		Recovery: &RecoveryConfig{Rate: 500, Restarts: 1, Between: time.Second},
	}
}
