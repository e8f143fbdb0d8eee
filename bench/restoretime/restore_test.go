package restoretime

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/bench/benchtopics"
	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/leaktest"
)

// TestMain lets the test binary be an instance too, and a double of Java.
func TestMain(m *testing.M) {
	RunInstance()
	runJava()
	leaktest.Main(m)
}

// TestData: sizes, share of updates, and no key twice in a chunk, on which the number of changelog
// records depends.
func TestData(t *testing.T) {
	for _, d := range []Data{
		{Records: 160_000, Partitions: 4, Updates: 0.2, Seed: 1},
		{Records: 16, Partitions: 1, Updates: 0.5, Seed: 2},
		{Records: 60_006, Partitions: 3, Updates: 0, Seed: 3},
	} {
		if err := d.validate(); err != nil {
			t.Fatal(err)
		}
		var lanes []*lane
		for p := range d.Partitions {
			lanes = append(lanes, d.lane(p))
		}
		all, inputs, bytes := map[string]bool{}, int64(0), 0
		for n := range int64(chunks) {
			chunk := map[string]bool{}
			for r := range d.records(lanes, n) {
				inputs++
				size := len(r.Key) + len(r.Value)
				bytes += size
				if size < 24 || size > 32 || len(r.Key) != keyBytes {
					t.Fatalf("a record of %d bytes with a key of %d", size, len(r.Key))
				}
				if chunk[string(r.Key)] {
					t.Fatalf("%+v: a key twice in chunk %d", d, n)
				}
				chunk[string(r.Key)], all[string(r.Key)] = true, true
			}
		}
		var want Content
		for p := range d.Partitions {
			want.add(d.expected(p))
		}
		if inputs*2 != d.Records || want.Records != inputs || want.Entries != int64(len(all)) || want.Bytes != int64(bytes) {
			t.Errorf("%+v: %d records, %d keys, %d bytes, and expected are %+v", d, inputs, len(all), bytes, want)
		}
		share := 1 - float64(want.Entries)/float64(want.Records)
		if d.Records > 1000 && math.Abs(share-d.Updates) > 0.01 {
			t.Errorf("%+v: the share of updates is %.3f", d, share)
		}
	}
	for _, d := range []Data{{Records: 16, Partitions: 0}, {Records: 15, Partitions: 1}, {Records: 8, Partitions: 1},
		{Records: 160, Partitions: 1, Updates: 0.6}} {
		if d.validate() == nil {
			t.Errorf("%+v is accepted", d)
		}
	}
}

func TestSummary(t *testing.T) {
	restore := func(rate float64, rss int64) *Restore { return &Restore{Rate: rate, PeakRSS: rss << 20} }
	s := Result{Rounds: []Round{
		{Onceward: restore(20, 100), Streams: restore(10, 900), Small: restore(8, 400)},
		{Onceward: restore(30, 120), Streams: restore(10, 900), Small: restore(9, 200)},
	}}.Summary()
	if want := (measure.Spread{Median: 2.5, Min: 2, Max: 3}); s.Speed != want {
		t.Errorf("speed is %+v, want %+v", s.Speed, want)
	}
	if math.Abs(s.Memory.Median-0.425) > 1e-9 || s.Memory.Max != 0.6 || s.Small.PeakRSS.Max != 400 {
		t.Errorf("memory is %+v of %+v", s.Memory, s.Small.PeakRSS)
	}
}

// TestMeasureOnEmbeddedBroker runs a whole measurement of Onceward alone, and the controls without
// which no figure would count.
func TestMeasureOnEmbeddedBroker(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	var progress bytes.Buffer
	cfg := Config{
		Brokers: broker.ListenAddrs(), Name: "measured", Dir: t.TempDir(), Rounds: 2, SearchRuns: 1, Progress: &progress,
		Data: Data{Records: 16_000, Partitions: 2, Updates: 0.25, Seed: 7},
	}
	r, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if r.Log.Records != 16_000 || r.Log.Entries >= 13_000 || len(r.Rounds) != 2 {
		t.Errorf("measured %+v", r)
	}
	for _, round := range r.Rounds {
		if o := round.Onceward; o.Records != 16_000 || o.Took <= 0 || o.Wall < o.Took || o.Rate <= 0 || len(o.Parts) != 2 {
			t.Errorf("a restore of %+v", o)
		}
	}
	if text := r.Markdown(); !strings.Contains(text, "16000 changelog records") || !strings.Contains(progress.String(), "Onceward") {
		t.Errorf("the report is:\n%s\nand the progress:\n%s", text, &progress)
	}

	cfg.Name, cfg.Dir = "controlled", t.TempDir()
	m := newMeasurement(cfg)
	if m.cluster, err = benchtopics.Connect(cfg.Brokers); err != nil {
		t.Fatal(err)
	}
	defer m.cluster.Close()
	if err := m.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.cfg.Data.Records++
	if _, err := m.onceward(t.Context(), false); !errors.Is(err, errRecords) {
		t.Errorf("with one record more to restore than there are: %v", err)
	}
	m.cfg.Data.Records--
	m.want.Digest++
	if _, err := m.onceward(t.Context(), true); !errors.Is(err, errContents) {
		t.Errorf("with other contents to restore than there are: %v", err)
	}
	m.want.Digest--
	if _, err := m.onceward(t.Context(), true); err != nil {
		t.Error(fmt.Errorf("and without a difference: %w", err))
	}
}
