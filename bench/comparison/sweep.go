package comparison

import (
	"context"
	_ "embed" // what the last sweep has found
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/workload"
)

// Settings of Kafka Streams that a sweep puts together. Each has a reason: what an expert would
// turn first.
var (
	// Larger batches, sent sooner than the 100 ms that Streams lets its producer linger.
	batches = []string{"producer.linger.ms=5", "producer.batch.size=262144", "producer.buffer.memory=134217728"}
	// More records at a time from the broker to the task: 1,000 a poll, 1 MiB a partition and 1,000
	// in the task's queue by default.
	polls = []string{
		"consumer.max.poll.records=20000", "consumer.max.partition.fetch.bytes=8388608", "consumer.fetch.max.bytes=104857600",
		"consumer.receive.buffer.bytes=1048576", "buffered.records.per.partition=20000",
	}
	// Fetches that wait for more: fewer and larger ones.
	fetches = []string{"consumer.fetch.min.bytes=1048576", "consumer.fetch.max.wait.ms=50"}
	// A cache in front of the store that is updated again and again: fewer gets and puts, and one
	// changelog record per key and commit.
	cached = []string{"bench.stores=cached", "statestore.cache.max.bytes=268435456"}
	// The same with a small cache.
	cachedSmall = []string{"bench.stores=cached", "statestore.cache.max.bytes=33554432"}
	// Memory for RocksDB.
	rocks = []string{"rocksdb.config.setter=RocksMemory", "bench.rocksdb.cache=268435456", "bench.rocksdb.buffer=67108864"}
	// Less to send, for more to compute.
	compressed = []string{"producer.compression.type=lz4"}
	// The collector for throughput.
	parallel = []string{"-XX:+UseParallelGC"}
)

// tunings returns what is tried. The heap is the same for all.
func tunings() []streams.Tuning {
	all := func(sets ...[]string) []string { return slices.Concat(sets...) }
	return []streams.Tuning{
		{Name: "defaults"},
		{Name: "2 threads", Threads: 2},
		{Name: "4 threads", Threads: 4},
		{Name: "2 threads, linger 5 ms", Threads: 2, Properties: batches[:1]},
		{Name: "2 threads, large batches", Threads: 2, Properties: batches},
		{Name: "2 threads, large polls", Threads: 2, Properties: polls},
		unswept,
		{Name: "2 threads, large batches and polls, waiting fetches", Threads: 2, Properties: all(batches, polls, fetches)},
		{Name: "2 threads, large batches and polls, lz4", Threads: 2, Properties: all(batches, polls, compressed)},
		{Name: "2 threads, large batches and polls, RocksDB", Threads: 2, Properties: all(batches, polls, rocks)},
		{Name: "2 threads, large batches and polls, 32 MiB cache", Threads: 2, Properties: all(batches, polls, cachedSmall)},
		{Name: "2 threads, large batches and polls, 256 MiB cache", Threads: 2, Properties: all(batches, polls, cached)},
		{Name: "1 thread, large batches and polls, 256 MiB cache, RocksDB", Threads: 1, Properties: all(batches, polls, cached, rocks)},
		{Name: "2 threads, large batches and polls, 256 MiB cache, RocksDB", Threads: 2, Properties: all(batches, polls, cached, rocks)},
		{Name: "4 threads, large batches and polls, 256 MiB cache, RocksDB", Threads: 4, Properties: all(batches, polls, cached, rocks)},
		{Name: "2 threads, large batches and polls, parallel collector", Threads: 2, Java: parallel, Properties: all(batches, polls)},
		{
			Name: "2 threads, large batches and polls, 256 MiB cache, RocksDB, parallel collector", Threads: 2, Java: parallel,
			Properties: all(batches, polls, cached, rocks),
		},
	}
}

// unswept is the tuning of a workload that no sweep was made for: what is best for most.
var unswept = streams.Tuning{
	Name: "2 threads, large batches and polls", Threads: 2, Properties: slices.Concat(batches, polls),
}

// heaps are tried in this order, until one costs too much of the rate.
var heaps = []string{"2g", "1g", "768m", "512m", "384m", "320m", "256m", "192m", "128m"}

// sweepFile is the result of the last sweep: `make bench-sweep`.
//
//go:embed sweep.json
var sweepFile []byte

// Swept is what a sweep has found. Its choices say for themselves when they were found, and over
// how many records: some may be those of an earlier sweep (With).
type Swept struct {
	Time    time.Time `json:"time"`
	Machine string    `json:"machine"`
	Streams string    `json:"streams_version"`
	Java    string    `json:"java_version"`
	Records int64     `json:"records"`
	// Choices are by workload, each with everything that was tried.
	Choices Choices `json:"choices"`
}

// LastSweep is the one that is part of this package.
func LastSweep() (s Swept, err error) {
	if err := json.Unmarshal(sweepFile, &s); err != nil {
		return s, fmt.Errorf("sweep.json: %w", err)
	}
	return Swept{}.With(s), nil
}

// swept returns the choices of the last sweep.
func swept() (Choices, error) {
	s, err := LastSweep()
	return s.Choices, err
}

// choice returns how Kafka Streams is tuned for a workload, and for which one that was found. One
// that was not swept, such as that of the flights, is run as the one that is most like it, or with
// what is best for most, which was found for none.
func (c Choices) choice(w workload.Workload) (of streams.Choice, sweptFor string) {
	like := "ledger"
	if w.Shuffles {
		like = "repartition"
	}
	for _, name := range []string{w.Name, like} {
		if choice, there := c[name]; there {
			return choice, name
		}
	}
	return streams.Choice{Tuning: unswept, Heap: heaps[0], SmallHeap: heaps[0]}, ""
}

// heapFor is the workload for which the smallest heap is looked for: the one whose memory is
// compared. heapRuns is how often each heap is tried at least: runs of one setting are further
// apart than the five percent that are looked for.
const (
	heapFor  = "ledger"
	heapRuns = 3
)

// Sweep finds the settings of Kafka Streams for each of the workloads of cfg, from all that is
// tried here. Rounds is how often each is tried, and the median counts. Every run is checked as
// those of Measure are.
func Sweep(ctx context.Context, cfg Config) (_ Swept, err error) {
	if cfg.Streams == nil {
		return Swept{}, errors.New("a sweep needs Kafka Streams")
	}
	if cfg.Choices == nil {
		cfg.Choices = Choices{} // nothing is chosen yet
	}
	m, err := newMeasurement(ctx, cfg)
	if err != nil {
		return Swept{}, err
	}
	defer m.cluster.Close()
	defer func() { err = m.drop(ctx, err) }()
	s := Swept{
		Time: m.result.Time, Machine: m.result.Machine, Streams: m.result.Streams, Java: m.result.Java, Records: cfg.Records,
		Choices: Choices{},
	}
	all, err := m.workloads()
	if err != nil {
		return Swept{}, err
	}
	for _, w := range all {
		if s.Choices[w.Name], err = m.sweep(ctx, w); err != nil {
			return Swept{}, fmt.Errorf("sweeping workload %s: %w", w.Name, err)
		}
	}
	return s, nil
}

func (m *measurement) sweep(ctx context.Context, w workload.Workload) (c streams.Choice, err error) {
	in, err := m.input(ctx, w, m.cfg.Records, m.cfg.Partitions, m.cfg.Input)
	if err != nil {
		return c, err
	}
	search := streams.Search{
		Tunings: m.cfg.tunings(), Heaps: heaps[:1], Runs: m.cfg.Rounds, Dir: m.cfg.Dir,
		Run: func(ctx context.Context, tuning streams.Tuning, heap string) (float64, error) {
			r, err := m.run(ctx, candidate{name: Streams, kind: kindStreams, tuning: tuning, heap: heap}, in, variant{})
			if err == nil {
				m.say("%-11s  %s  %s, %s", w.Name, r, tuning.Name, heap)
			}
			return r.Rate(), err
		},
		Failed: func(err error) { m.say("%-11s  %v", w.Name, err) },
	}
	if w.Name == heapFor {
		search.Heaps, search.HeapRuns = heaps, max(m.cfg.Rounds, heapRuns)
	}
	began := time.Now().UTC()
	if c, err = search.Do(ctx); err == nil {
		c.Time, c.Records = began, m.cfg.Records
	}
	return c, err
}

// tunings are those that are tried.
func (c Config) tunings() []streams.Tuning {
	if c.Tunings != nil {
		return c.Tunings
	}
	return tunings()
}

// With returns the sweep with the choices of an earlier one for the workloads that it does not
// have; a sweep that has nothing is that one.
func (s Swept) With(earlier Swept) Swept {
	if s.Time.IsZero() {
		s = Swept{Time: earlier.Time, Machine: earlier.Machine, Streams: earlier.Streams, Java: earlier.Java, Records: earlier.Records}
	}
	choices := Choices{}
	for name, c := range earlier.Choices {
		if c.Time.IsZero() { // of an older build, whose choices are all of one sweep
			c.Time, c.Records = earlier.Time, earlier.Records
		}
		choices[name] = c
	}
	maps.Copy(choices, s.Choices)
	s.Choices = choices
	return s
}

// Write leaves the sweep in a file, such as sweep.json of this package.
func (s Swept) Write(file string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}
