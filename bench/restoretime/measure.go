package restoretime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/bench/benchtopics"
	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/latency"
	"github.com/onceward/onceward/bench/measure"
)

// Config is one measurement. Topics and a group named after Name are created, and deleted in the
// end.
type Config struct {
	Brokers []string
	// Name is the application, and the start of its topics' names.
	Name string
	Data Data
	// Dir takes state and logs.
	Dir string
	// Rounds is how often the candidates take turns, SearchRuns how often each setting of Kafka
	// Streams is tried.
	Rounds, SearchRuns int
	// CacheBytes is Onceward's, 0 for its default.
	CacheBytes int64
	// Streams is nil for a measurement of Onceward alone.
	Streams *streams.Installation
	// Tunings and Heaps are tried; nil is a choice of this package's. The first heap is the one
	// with which tunings are compared.
	Tunings []streams.Tuning
	Heaps   []string
	// Progress is told what is done; nil discards it.
	Progress io.Writer
}

// heaps are tried in this order, until one costs too much of the rate.
var heaps = []string{"2g", "1g", "512m", "384m", "256m", "192m", "128m", "96m", "64m", "48m"}

// runTimeout is far beyond a good restore, and ends one that a heap which is too small keeps from
// ending.
const runTimeout = 3 * time.Minute

var errRunTimeout = fmt.Errorf("no report within %s", runTimeout)

// Round is what the candidates did in one turn. The peers are nil in a measurement of Onceward
// alone.
type Round struct {
	Onceward *Restore `json:"onceward"`
	// Streams had the first heap, Small the smallest one that does not cost it much. They are one
	// if no heap was smaller.
	Streams *Restore `json:"streams,omitempty"`
	Small   *Restore `json:"streams_small_heap,omitempty"`
	Load    string   `json:"load"`
}

// Result is what a measurement has found.
type Result struct {
	Time    time.Time `json:"time"`
	Host    string    `json:"host"`
	Streams string    `json:"streams_version,omitempty"`
	Java    string    `json:"java_version,omitempty"`
	Data    Data      `json:"data"`
	// Log is what the changelogs of both stores hold.
	Log    Content        `json:"changelogs"`
	Limits measure.Limits `json:"limits,omitempty"`
	// CacheBytes is Onceward's, 0 for its default.
	CacheBytes int64 `json:"cache_bytes"`
	// Choice is how Kafka Streams was run.
	streams.Choice
	Rounds []Round `json:"rounds"`
}

// measurement is one run of Measure.
type measurement struct {
	cfg     Config
	cluster *benchtopics.Cluster
	streams streams.Installation
	result  Result
	// want is what each store has to hold after a restore.
	want Content
}

// Measure fills changelogs and compares the candidates. See the package comment for the order of
// things.
func Measure(ctx context.Context, cfg Config) (_ Result, err error) {
	if err := cfg.Data.validate(); err != nil {
		return Result{}, err
	}
	if cfg.Rounds < 1 || cfg.SearchRuns < 1 {
		return Result{}, fmt.Errorf("%d rounds and %d runs of each setting: at least one of each", cfg.Rounds, cfg.SearchRuns)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return Result{}, err
	}
	m := newMeasurement(cfg)
	if m.cluster, err = benchtopics.Connect(cfg.Brokers); err != nil {
		return Result{}, err
	}
	defer m.cluster.Close()
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx), m.cluster, cfg.Name)) }()
	for _, step := range []func(context.Context) error{m.prepare, m.warmUp, m.search, m.compare} {
		if err := step(ctx); err != nil {
			return Result{}, fmt.Errorf("measuring the restore of %s: %w", cfg.Name, err)
		}
	}
	return m.result, nil
}

func newMeasurement(cfg Config) *measurement {
	m := &measurement{cfg: cfg}
	if m.cfg.Tunings == nil {
		m.cfg.Tunings = tunings()
	}
	if m.cfg.Heaps == nil {
		m.cfg.Heaps = heaps
	}
	if m.cfg.Progress == nil {
		m.cfg.Progress = io.Discard
	}
	m.result = Result{
		Time: time.Now().UTC(), Host: latency.Host(), Data: m.cfg.Data, CacheBytes: m.cfg.CacheBytes, Limits: measure.LimitsNow(),
	}
	return m
}

func (m *measurement) say(format string, args ...any) {
	_, _ = fmt.Fprintf(m.cfg.Progress, format+"\n", args...) // who cannot be told misses nothing that is not in the result
}

// prepare fills the changelogs and makes sure of what is in them.
func (m *measurement) prepare(ctx context.Context) error {
	d := m.cfg.Data
	if err := createTopics(ctx, m.cluster, m.cfg.Name, d.Partitions); err != nil {
		return err
	}
	began := time.Now()
	if err := m.fill(ctx); err != nil {
		return err
	}
	for p := range d.Partitions {
		want := d.expected(p)
		m.want.add(want)
		for _, store := range stores {
			topic := changelog(m.cfg.Name, store)
			got, err := read(ctx, m.cluster, m.cfg.Brokers, topic, p)
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("%s[%d] holds %+v, and %+v was generated", topic, p, got, want)
			}
			m.result.Log.add(got)
		}
	}
	log := m.result.Log
	m.say("filled in %s: %d records, %d entries, %.1f bytes a record", time.Since(began).Round(time.Millisecond), log.Records, log.Entries,
		float64(log.Bytes)/float64(log.Records))
	return nil
}

// warmUp lets each candidate restore once and compares what its stores hold.
func (m *measurement) warmUp(ctx context.Context) error {
	if _, err := m.onceward(ctx, true); err != nil {
		return err
	}
	if m.cfg.Streams == nil {
		return nil
	}
	m.result.Streams = streams.Version
	var err error
	if m.result.Java, err = m.cfg.Streams.JavaVersion(ctx); err != nil {
		return err
	}
	if m.streams, err = m.cfg.Streams.Compile(ctx, m.cfg.Dir); err != nil {
		return err
	}
	_, err = m.peer(ctx, peer{m.cfg.Tunings[0], m.cfg.Heaps[0]}, true)
	return err
}

// onceward is one restore by Onceward.
func (m *measurement) onceward(ctx context.Context, read bool) (*Restore, error) {
	r, rep, err := m.restore(ctx, read)
	if err != nil {
		return nil, fmt.Errorf("Onceward: %w", err)
	}
	m.say("%-48s %s", "Onceward", r)
	return &r, m.check("Onceward", rep, read)
}

// peer is one restore by Kafka Streams.
func (m *measurement) peer(ctx context.Context, p peer, read bool) (*Restore, error) {
	r, rep, err := m.restorePeer(ctx, p, read)
	if err != nil {
		return nil, fmt.Errorf("Kafka Streams, %s, heap %s: %w", p.Name, p.Heap, err)
	}
	m.say("%-48s %s", "Kafka Streams, "+p.Name+", "+p.Heap, r)
	return &r, m.check("Kafka Streams", rep, read)
}

var errContents = errors.New("a store holds something else than its changelog")

// check compares what the stores hold after a restore.
func (m *measurement) check(who string, rep report, read bool) error {
	if !read {
		return nil
	}
	if len(rep.Contents) != len(stores) {
		return fmt.Errorf("%s: %w: %d stores are reported", who, errContents, len(rep.Contents))
	}
	for _, s := range rep.Contents {
		if s.Entries != m.want.Entries || s.Digest != strconv.FormatUint(m.want.Digest, 16) {
			return fmt.Errorf("%s: %w: store %s has %d entries with digest %s, and should have %d with %x", who, errContents, s.Store,
				s.Entries, s.Digest, m.want.Entries, m.want.Digest)
		}
	}
	return nil
}

// search chooses how Kafka Streams is run.
func (m *measurement) search(ctx context.Context) (err error) {
	if m.cfg.Streams == nil {
		return nil
	}
	m.result.Choice, err = streams.Search{
		Tunings: m.cfg.Tunings, Heaps: m.cfg.Heaps, Runs: m.cfg.SearchRuns, Dir: m.cfg.Dir,
		Run: func(ctx context.Context, tuning streams.Tuning, heap string) (float64, error) {
			r, err := m.peer(ctx, peer{tuning, heap}, false)
			if err != nil {
				return 0, err
			}
			return r.Rate, nil
		},
		Failed: func(err error) { m.say("%v", err) },
	}.Do(ctx)
	return err
}

// compare lets the candidates take turns. The first one changes from round to round.
func (m *measurement) compare(ctx context.Context) error {
	for n := range m.cfg.Rounds {
		round := Round{Load: latency.LoadAverage()}
		turns := []func() error{func() (err error) {
			round.Onceward, err = m.onceward(ctx, false)
			return err
		}}
		if m.cfg.Streams != nil {
			turns = append(turns, func() (err error) {
				round.Streams, err = m.peer(ctx, peer{m.result.Tuning, m.result.Heap}, false)
				return err
			})
		}
		if m.cfg.Streams != nil && m.result.SmallHeap != m.result.Heap {
			turns = append(turns, func() (err error) {
				round.Small, err = m.peer(ctx, peer{m.result.Tuning, m.result.SmallHeap}, false)
				return err
			})
		}
		first := n % len(turns)
		for _, turn := range slices.Concat(turns[first:], turns[:first]) {
			if err := turn(); err != nil {
				return err
			}
		}
		if round.Small == nil {
			round.Small = round.Streams
		}
		m.result.Rounds = append(m.result.Rounds, round)
	}
	return nil
}
