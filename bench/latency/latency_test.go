package latency

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/leaktest"
)

// TestMain lets the test binary be an instance too.
func TestMain(m *testing.M) {
	RunInstance()
	leaktest.Main(m)
}

// TestScheduleAgrees: an event is due exactly when Due says, also long after the start.
func TestScheduleAgrees(t *testing.T) {
	for _, rate := range []int{1, 3, 1000, 10_000} {
		s := Schedule{Start: time.Now(), Rate: rate}
		for _, event := range []uint64{0, 1, 2, 999, 1_000_003, 50_000_000} {
			due := s.Due(event)
			if got, ok := s.Event(due.UnixNano()); !ok || got != event {
				t.Errorf("at %d/s, event %d is due when event %d is (%v)", rate, got, event, ok)
			}
			if got, ok := s.Event(due.UnixNano() + 1); ok {
				t.Errorf("at %d/s, event %d is due a nanosecond after event %d", rate, got, event)
			}
			if got := s.DueAt(due); got != event+1 && got != event { // Due rounds down to nanoseconds
				t.Errorf("at %d/s, %d events are due when event %d is", rate, got, event)
			}
			if got := s.DueAt(due.Add(time.Second/time.Duration(rate) - 2)); got != event+1 {
				t.Errorf("at %d/s, %d events are due just before event %d is", rate, got, event+1)
			}
		}
		if event, ok := s.Event(s.Start.UnixNano() - 1); ok {
			t.Errorf("at %d/s, event %d is due before the start", rate, event)
		}
		if got := s.DueAt(s.Start.Add(-time.Nanosecond)); got != 0 {
			t.Errorf("%d events are due before the start", got)
		}
	}
}

func TestPercentilesAreMeasuredValues(t *testing.T) {
	var values []time.Duration
	for i := range 1000 {
		values = append(values, time.Duration(i+1))
	}
	got := Summarize(values)
	want := Summary{Count: 1000, Min: 1, P50: 500, P90: 900, P99: 990, P999: 999, Max: 1000}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Summarize([]time.Duration{7}); got.P50 != 7 || got.P999 != 7 {
		t.Errorf("of one value: %+v", got)
	}
}

// output returns the fetch of outputs that name the events.
func output(s Schedule, events ...uint64) kgo.Fetches {
	var records []*kgo.Record
	for _, event := range events {
		value := make([]byte, 32) // count and balance are not looked at
		binary.BigEndian.PutUint64(value[24:], uint64(s.Due(event).UnixNano()))
		records = append(records, &kgo.Record{Topic: "out", Value: value})
	}
	return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "out", Partitions: []kgo.FetchPartition{{Records: records}}}}}}
}

func newTestReader(t *testing.T) *Reader {
	t.Helper()
	return &Reader{topics: Topics{Partitions: 2}, schedule: Schedule{Start: time.Now(), Rate: 1000}}
}

// TestReaderFindsLossAndDoubles: the controls without which no figure would count.
func TestReaderFindsLossAndDoubles(t *testing.T) {
	r := newTestReader(t)
	if err := r.note(output(r.schedule, 0, 1, 3), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Latencies(0, 4); err == nil {
		t.Error("event 2 is missing, and nothing was said")
	}
	if err := r.note(output(r.schedule, 2), 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	got, err := r.Latencies(0, 4)
	if err != nil {
		t.Fatal(err)
	}
	// From the due times, which are a millisecond apart.
	want := []time.Duration{7 * time.Millisecond, 9 * time.Millisecond, 10 * time.Millisecond, 18 * time.Millisecond}
	if !slices.Equal(got, want) {
		t.Errorf("latencies %v, want %v", got, want)
	}
	if err := r.note(output(r.schedule, 1), 30*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Latencies(0, 4); err == nil {
		t.Error("event 1 came twice, and nothing was said")
	}
	if err := r.note(kgo.Fetches{{Topics: []kgo.FetchTopic{{Partitions: []kgo.FetchPartition{{
		Records: []*kgo.Record{{Value: []byte("x")}},
	}}}}}}, 0); err == nil {
		t.Error("a record that is no output was taken for one")
	}
}

// TestPauses: the longest silence of each lane, ends of the window included.
func TestPauses(t *testing.T) {
	r := newTestReader(t)
	// Even events are lane 0, odd ones lane 1.
	for _, poll := range []struct {
		at        time.Duration
		partition int32
		events    []uint64
	}{{2, 0, []uint64{8}}, {10, 0, []uint64{0, 1}}, {20, 1, []uint64{2, 3}}, {55, 1, []uint64{4}}, {60, 1, []uint64{6}}, {80, 0, []uint64{5}}} {
		fetches := output(r.schedule, poll.events...)
		for _, rec := range fetches.Records() {
			rec.Partition = poll.partition
		}
		if err := r.note(fetches, poll.at*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	from, to := r.schedule.Start.Add(5*time.Millisecond), r.schedule.Start.Add(70*time.Millisecond)
	if got := r.Pauses(from, to); got[0] != 35*time.Millisecond || got[1] != 50*time.Millisecond {
		t.Errorf("pauses %v, want 35ms and 50ms", got)
	}
	if got := r.Silences(from, to); got[0] != 60*time.Millisecond || got[1] != 35*time.Millisecond {
		t.Errorf("silences of the partitions %v, want 60ms and 35ms", got)
	}
	if got := r.Pauses(to, to.Add(time.Hour)); got[0] != time.Hour || got[1] != time.Hour-10*time.Millisecond {
		t.Errorf("pauses %v, want an hour and 10ms less", got)
	}
}

// TestReaderFindsWrongSums: an output that is there says what the state has come to.
func TestReaderFindsWrongSums(t *testing.T) {
	r := newTestReader(t)
	const account = 7
	post := func(nth int, count, balance uint64) {
		t.Helper()
		fetches := output(r.schedule, account+uint64(nth)*accounts)
		value := fetches.Records()[0].Value
		binary.BigEndian.PutUint64(value, count)
		binary.BigEndian.PutUint64(value[8:], balance)
		if err := r.note(fetches, time.Duration(nth+1)*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	post(0, 1, 7)
	post(1, 2, 14)
	if got := r.Anomalies(account).Wrong; got != 0 {
		t.Errorf("%d wrong sums, want none", got)
	}
	post(2, 4, 28) // an event was added up twice
	post(3, 5, 35)
	post(4, 6, 35) // the count alone
	if got := r.Anomalies(account + 1); got != (Anomalies{Lost: account, Wrong: 2}) {
		t.Errorf("found %+v, want 2 wrong sums and the events before lost", got)
	}
	post(4, 7, 42)
	if got := r.Anomalies(0); got != (Anomalies{Doubled: 1, Wrong: 2}) {
		t.Errorf("found %+v, want 2 wrong sums and one event doubled", got)
	}
}

// TestMeasureOnEmbeddedBroker runs a whole measurement, with the application as a process of its
// own.
func TestMeasureOnEmbeddedBroker(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	dir := t.TempDir()
	r, err := Measure(t.Context(), Config{
		Brokers: broker.ListenAddrs(), Name: "measured", Partitions: 2, Rate: 500, Warmup: time.Second, Duration: time.Second,
		Dir: dir, CPUProfile: filepath.Join(dir, "app.pprof"), Histogram: filepath.Join(dir, "latency.hgrm"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Latency.Count != 500 || r.Latency.Min <= 0 || r.Produce.Count < 1000 || r.Commits <= 0 || r.Cores <= 0 {
		t.Errorf("measured %+v", r)
	}
	info, err := os.Stat(filepath.Join(dir, "app.pprof"))
	if err != nil || info.Size() == 0 {
		t.Errorf("there is no profile: %v", err)
	}
	histogram, err := os.ReadFile(filepath.Join(dir, "latency.hgrm"))
	if err != nil || !strings.Contains(string(histogram), "Total count    =          500") {
		t.Errorf("the histogram, %v:\n%s", err, histogram)
	}
}

// TestUnusable: what does not fit is refused before anything is sent.
func TestUnusable(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "used-in"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("used-in"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte("old")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	good := Config{
		Brokers: broker.ListenAddrs(), Name: "new", Partitions: 2, Rate: 1, Warmup: time.Second, Duration: time.Second, Dir: t.TempDir(),
	}
	for name, spoil := range map[string]func(c *Config){
		"half a second":                      func(c *Config) { c.Warmup += 500 * time.Millisecond },
		"no time":                            func(c *Config) { c.Duration = 0 },
		"no rate":                            func(c *Config) { c.Rate = 0 },
		"no partitions":                      func(c *Config) { c.Partitions = 0 },
		"outputs without a clock":            func(c *Config) { c.Workload = "count" },
		"a profile of somebody else":         func(c *Config) { c.External, c.CPUProfile = true, "cpu" },
		"another number of partitions":       func(c *Config) { c.Name, c.Partitions = "used", 3 },
		"an input that has records":          func(c *Config) { c.Name = "used" },
		"an output that has records":         func(c *Config) { c.Out = "used-in" },
		"an output of an external that does": func(c *Config) { c.External, c.Out = true, "used-in" },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := Measure(t.Context(), cfg); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v, want %v", name, err, ErrUnusable)
		}
	}
}
