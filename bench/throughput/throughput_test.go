package throughput

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/workload"
	"github.com/onceward/onceward/e2e/leaktest"
)

// TestMain lets the test binary run a workload in a process of its own, too.
func TestMain(m *testing.M) {
	RunInstance()
	leaktest.Main(m)
}

const testRecords = 4000

// flights is the file of the project.
const flights = "../../e2e/flights/testdata/flights.csv.gz"

func newBroker(t *testing.T) []string {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	return broker.ListenAddrs()
}

func fill(t *testing.T, brokers []string, name string) FillConfig {
	t.Helper()
	cfg := FillConfig{
		Brokers: brokers, Workload: name, Topic: name + "-in", Partitions: 3, Records: testRecords,
		Input: workload.Input{Seed: 1, Keys: 500, Distribution: workload.Zipf, Duplicates: 0.02, Flights: flights},
	}
	if strings.HasPrefix(name, "nexmark-") {
		cfg.Interval = 10 * time.Millisecond // windows close
	}
	filled, err := Fill(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if filled.Records != testRecords || filled.Bytes < testRecords*100 {
		t.Errorf("filled %+v", filled)
	}
	return cfg
}

func configOf(t *testing.T, in FillConfig) RunConfig {
	t.Helper()
	return RunConfig{
		Brokers: in.Brokers, Application: in.Workload, Workload: in.Workload, In: in.Topic, Out: in.Workload + "-out", Until: in.Records,
		StateDir: filepath.Join(t.TempDir(), "state"), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func mustRun(t *testing.T, cfg RunConfig) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	r, err := Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// produce writes a record behind the others.
func produce(t *testing.T, brokers []string, r *kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestRun runs every workload with every profile, and sees that a record too many in its output is
// found.
func TestRun(t *testing.T) {
	for _, w := range workload.All() {
		t.Run(w.Name, func(t *testing.T) {
			cfg := configOf(t, fill(t, newBroker(t), w.Name))
			dir := t.TempDir()
			cfg.Profiles = Profiles{
				CPU: filepath.Join(dir, "cpu"), Memory: filepath.Join(dir, "memory"), Trace: filepath.Join(dir, "trace"),
			}
			r := mustRun(t, cfg)
			if r.Records != testRecords || r.Transactions < 1 || r.Steady.Records > testRecords || r.Partitions != 3 ||
				r.Workers < 1 || r.Bytes < testRecords*100 || r.CPUSeconds <= 0 || r.Seconds < r.Steady.Seconds ||
				r.Seconds < r.ToFirstCommit {
				t.Errorf("measured %+v", r)
			}
			// nexmark-q5 has up to five outputs for a record, one for each window. A row of the right
			// side of foreign-key changes the results of several rows.
			if c := r.Check; c == nil || c.Inputs != testRecords || c.Outputs < 1 || c.Outputs > 5*testRecords ||
				(w.Store != "") != (c.Rows > 0) {
				t.Errorf("checked %+v", c)
			}
			if !strings.Contains(r.String(), w.Name) {
				t.Errorf("the text is %q", r)
			}
			for _, name := range []string{"cpu", "memory", "trace"} {
				if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
					t.Errorf("the profile %s: %v", name, err)
				}
			}
			account := workload.AccountOf(1)
			produce(t, cfg.Brokers, &kgo.Record{Topic: cfg.Out, Partition: 1, Key: account[:], Value: make([]byte, 32)})
			check := CheckConfig{Brokers: cfg.Brokers, Workload: w.Name, In: cfg.In, Out: cfg.Out}
			if _, err := Check(t.Context(), check); !errors.Is(err, ErrWrong) {
				t.Errorf("with a record too many in the output: %v, want %v", err, ErrWrong)
			}
		})
	}
}

// TestRunGoesOn: a second run goes on where the first one has stopped, and what is checked are the
// outputs and the state of both.
func TestRunGoesOn(t *testing.T) {
	cfg := configOf(t, fill(t, newBroker(t), "ledger"))
	cfg.Until = testRecords / 2
	first := mustRun(t, cfg)
	if first.Check.Inputs < cfg.Until {
		t.Errorf("first: %+v", first.Check)
	}
	cfg.Until = testRecords
	if first.Check.Inputs == testRecords { // it was faster than the watching: nothing is left
		if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrUnusable) {
			t.Errorf("a run with nothing to do: %v", err)
		}
		return
	}
	second := mustRun(t, cfg)
	if second.Check.Inputs != testRecords || second.Records > testRecords-first.Records {
		t.Errorf("second: %+v", second.Check)
	}
}

// TestCheckSeesWrongState: the outputs are right, and the state is that of another application,
// which has seen less.
func TestCheckSeesWrongState(t *testing.T) {
	for _, name := range []string{"count", "ledger"} {
		cfg := configOf(t, fill(t, newBroker(t), name))
		mustRun(t, cfg)
		less := fill2(t, cfg, name)
		check := CheckConfig{
			Brokers: cfg.Brokers, Workload: name, In: cfg.In, Out: cfg.Out, Until: testRecords, StateDir: less.StateDir,
			Application: less.Application,
		}
		if _, err := Check(t.Context(), check); !errors.Is(err, ErrWrong) {
			t.Errorf("%s: with other state: %v, want %v", name, err, ErrWrong)
		}
		check.StateDir, check.Application = cfg.StateDir, cfg.Application
		if _, err := Check(t.Context(), check); err != nil {
			t.Errorf("%s: with its own state: %v", name, err)
		}
	}
}

// fill2 runs an application of another input on the same cluster.
func fill2(t *testing.T, first RunConfig, name string) RunConfig {
	t.Helper()
	in := FillConfig{
		Brokers: first.Brokers, Workload: name, Topic: "other-in", Partitions: 3, Records: testRecords - 1,
		Input: workload.Input{Seed: 1, Keys: 500, Distribution: workload.Zipf, Duplicates: 0.02},
	}
	if _, err := Fill(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	cfg := configOf(t, in)
	cfg.Application, cfg.Out = "other", "other-out"
	mustRun(t, cfg)
	return cfg
}

func TestUnusable(t *testing.T) {
	brokers := newBroker(t)
	in, other := fill(t, brokers, "repartition"), fill(t, brokers, "count")
	good := configOf(t, in)
	for name, spoil := range map[string]func(c *RunConfig){
		"a workload that is not there":     func(c *RunConfig) { c.Workload = "nothing" },
		"an input that is not there":       func(c *RunConfig) { c.In = "nothing" },
		"more records than there are":      func(c *RunConfig) { c.Until++ },
		"no records":                       func(c *RunConfig) { c.Until = 0 },
		"half of a shuffled input":         func(c *RunConfig) { c.Until /= 2 },
		"a name that cannot be one":        func(c *RunConfig) { c.Application = "a b" },
		"an output that has records":       func(c *RunConfig) { c.Out = other.Topic },
		"the input as output":              func(c *RunConfig) { c.Out = c.In },
		"a profile that cannot be written": func(c *RunConfig) { c.Profiles.CPU = t.TempDir() },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := Run(t.Context(), cfg); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v, want %v", name, err, ErrUnusable)
		}
	}
	for name, spoil := range map[string]func(c *FillConfig){
		"a topic with records":             func(*FillConfig) {},
		"another number of partitions":     func(c *FillConfig) { c.Partitions++ },
		"no records":                       func(c *FillConfig) { c.Topic, c.Records = "new", 0 },
		"a negative interval":              func(c *FillConfig) { c.Topic, c.Interval = "new", -1 },
		"a workload that is not there":     func(c *FillConfig) { c.Workload = "nothing" },
		"no keys":                          func(c *FillConfig) { c.Topic, c.Input.Keys = "new", 0 },
		"flights without the file of them": func(c *FillConfig) { c.Topic, c.Workload, c.Input.Flights = "new", "flights", "" },
	} {
		cfg := in
		spoil(&cfg)
		if _, err := Fill(t.Context(), cfg); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v, want %v", name, err, ErrUnusable)
		}
	}
	check := CheckConfig{Brokers: brokers, Workload: "repartition", In: in.Topic, Out: "empty-out"}
	if err := create(t.Context(), brokers, 3, "empty-out"); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), check); !errors.Is(err, ErrWrong) {
		t.Errorf("nothing was written: %v, want %v", err, ErrWrong)
	}
	check.Workload = "pass"
	if _, err := Check(t.Context(), check); !errors.Is(err, ErrWrong) {
		t.Errorf("nothing was copied: %v, want %v", err, ErrWrong)
	}
	for _, until := range []int64{-1, testRecords + 1} {
		check.Until = until
		if _, err := Check(t.Context(), check); !errors.Is(err, ErrUnusable) {
			t.Errorf("the outputs of %d records: %v, want %v", until, err, ErrUnusable)
		}
	}
}

// TestWatchEnds: an application that ends by itself ends the watching.
func TestWatchEnds(t *testing.T) {
	in := fill(t, newBroker(t), "pass")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := Watch(ctx, WatchConfig{
		Brokers: in.Brokers, Application: "nobody", In: in.Topic, Until: 1,
		Usage: func() (Usage, error) { cancel(errEnded); return Usage{}, nil }, // it is watched when this is asked
	})
	if !errors.Is(err, errEnded) {
		t.Errorf("the watching has ended with %v, want %v", err, errEnded)
	}
}

// TestRunProcess: the result of a process is that of the run, and so is its failure.
func TestRunProcess(t *testing.T) {
	cfg := configOf(t, fill(t, newBroker(t), "pass"))
	log := filepath.Join(t.TempDir(), "log")
	r, err := RunProcess(t.Context(), cfg, log)
	if err != nil || r.Records != testRecords || r.Check == nil || r.Check.Outputs != testRecords || r.RSSPeak < 0 {
		t.Errorf("measured %+v, %v", r, err)
	}
	cfg.In = "nothing"
	if _, err := RunProcess(t.Context(), cfg, log); err == nil || !strings.Contains(err.Error(), "there is no topic nothing") {
		t.Errorf("a run that cannot be: %v", err)
	}
}

// TestSettledEnds: the reader waits for the records of an open transaction. Between the answer to a
// commit and its markers, a committed transaction looks open, and a reader of stable records would
// miss its records.
func TestSettledEnds(t *testing.T) {
	brokers := newBroker(t)
	if err := create(t.Context(), brokers, 1, "settled"); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID("open"), kgo.DefaultProduceTopic("settled"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	c, err := connect(brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if ends, err := c.ends(t.Context(), "settled"); err != nil || ends[0] != 0 {
		t.Fatalf("what is stable ends at %v, %v", ends, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*lookInterval)
	defer cancel()
	if ends, err := c.settledEnds(ctx, "settled"); err == nil {
		t.Errorf("with a transaction open, the ends are %v", ends)
	}
	ended := make(chan error, 1)
	go func() { ended <- cl.EndTransaction(t.Context(), kgo.TryCommit) }()
	behind, err := c.dataEnds(t.Context(), brokers, "settled")
	if err != nil || len(behind) != 1 || behind[0] != 1 {
		t.Errorf("the data end at %v, %v, want 1", behind, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestDataEnds: markers and what was deleted are no data, and a partition that ends with many
// markers is read further back.
func TestDataEnds(t *testing.T) {
	brokers := newBroker(t)
	if err := create(t.Context(), brokers, 4, "ends"); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.TransactionalID("ends"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	// transact writes a record into each of the partitions, in a transaction of its own. An offset
	// later there is a marker.
	transact := func(end kgo.TransactionEndTry, partitions ...int32) {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, p := range partitions {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "ends", Partition: p}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := cl.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	transact(kgo.TryCommit, 0, 1, 2)
	for range tailOffsets/2 + 1 {
		transact(kgo.TryAbort, 2)
	}
	c, err := connect(brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	deleted := kadm.Offsets{}
	deleted.AddOffset("ends", 1, 2, -1)
	responses, err := c.adm.DeleteRecords(t.Context(), deleted)
	if err = errors.Join(err, responses.Error()); err != nil {
		t.Fatal(err)
	}
	got, err := c.dataEnds(t.Context(), brokers, "ends")
	if want := []int64{1, 0, 1, 0}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the data end at %v, %v, want %v", got, err, want)
	}
	// Records that are deleted during the read do not come, and are not waited for.
	behind, read := make([]int64, 4), []int32(nil)
	for len(read) == 0 && err == nil { // a busy machine may need more time for the one that comes
		read, err = lastRecords(t.Context(), brokers, "ends", map[int32]int64{0: 0, 1: 0}, []int64{2, 2, 0, 0}, behind)
	}
	if err != nil || !slices.Equal(read, []int32{0}) || behind[0] != 1 {
		t.Errorf("read are %v to %v, %v", read, behind, err)
	}
}

// TestReach: offsets have reached the ends if none is below its end. A partition without an offset
// has nothing before its end, and one whose records were deleted since ends earlier.
func TestReach(t *testing.T) {
	for _, tc := range []struct {
		offsets, ends []int64
		want          bool
	}{
		{nil, []int64{0, 0}, true}, {nil, []int64{0, 1}, false}, {[]int64{3, 5}, []int64{3, 5}, true}, {[]int64{3, 5}, []int64{3, 6}, false},
		{[]int64{3, 5}, []int64{0, 5}, true}, {[]int64{3, 5}, []int64{0, 6}, false},
	} {
		if got := reach(tc.offsets, tc.ends); got != tc.want {
			t.Errorf("from %v to %v: %v, want %v", tc.offsets, tc.ends, got, tc.want)
		}
	}
}
