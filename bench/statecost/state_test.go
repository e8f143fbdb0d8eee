package statecost

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// TestMain lets the test binary be a process that works on a database.
func TestMain(m *testing.M) {
	RunInstance()
	leaktest.Main(m)
}

func TestSource(t *testing.T) {
	const n, keys = 20_000, Keys(10_000)
	uniform := Workload{Distribution: Uniform, Duplicates: 0.2, Round: 1, Seed: 3}
	zipf := Workload{Distribution: Zipf, Exponent: 1.2, Duplicates: 0.2, Round: 1, Seed: 3}
	for _, w := range []Workload{uniform, zipf} {
		src, duplicates, first := newSource(w, keys), 0, 0
		for i := range int64(n) {
			r := src.record(i)
			if r.account < 0 || r.account >= keys.accounts() || r.duplicate != (r.contribution < posted) || r.amount == 0 {
				t.Fatalf("%v: record %d is %+v", w, i, r)
			}
			if r.duplicate {
				duplicates++
			}
			if r.account == 0 {
				first++
			}
		}
		if share := float64(duplicates) / n; math.Abs(share-0.2) > 0.02 {
			t.Errorf("%v: the share of duplicates is %.3f", w, share)
		}
		// Uniformly it is four of them; by Zipf's law every fifth or so.
		if hot := first > n/20; hot != (w.Distribution == Zipf) {
			t.Errorf("%v: the first account has %d of %d records", w, first, n)
		}
		if a, b := src.record(77), newSource(w, keys).record(77); a != b {
			t.Errorf("%v: record 77 is %+v and %+v", w, a, b)
		}
	}
	for i := range int64(1000) {
		if size := len(value(i, 1, 2)); size < valueBytesMin || size > valueBytesMax {
			t.Fatalf("a value of %d bytes", size)
		}
	}
}

// TestBookFindsWrongState: the controls without which no figure would count.
func TestBookFindsWrongState(t *testing.T) {
	const keys = Keys(100)
	db := memstore.New()
	task, err := state.NewTask(db, state.KeyValues(balances, contributions))
	if err != nil {
		t.Fatal(err)
	}
	defer task.Close()
	b := newBook(task)
	for n := range keys.accounts() {
		for _, store := range []state.Bytes{b.balances, b.contributions} {
			if err := store.Put(appendKey(nil, n), value(n, 0, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	good := record{account: 1, contribution: posted, amount: 5}
	again := record{account: 1, contribution: 7, amount: 5, duplicate: true}
	if err := errors.Join(b.post(good), b.post(again), b.audit(keys)); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]record{
		"a contribution twice":         good,
		"a duplicate of none":          {account: 1, contribution: posted + 1, duplicate: true},
		"an account that is not there": {account: 50, contribution: posted + 2},
	} {
		if err := b.post(r); !errors.Is(err, errState) {
			t.Errorf("%s: %v", name, err)
		}
		task.Revert()
	}
	b.amount++
	if err := b.audit(keys); !errors.Is(err, errState) {
		t.Errorf("an amount is missing: %v", err)
	}
}

// TestLookFindsWrongPositions: what an open after a kill is judged by.
func TestLookFindsWrongPositions(t *testing.T) {
	s := settings{Keys: 100, Workload: Workload{Distribution: Uniform, Round: 10, Seed: 1}}
	db := memstore.New()
	task, err := state.NewTask(db, state.KeyValues(balances, contributions))
	if err != nil {
		t.Fatal(err)
	}
	defer task.Close()
	err = db.Apply(db.Positions(), next(db.Positions(), 0), func(yield func(state.Write) bool) {
		for n := range s.Keys.accounts() {
			if !yield(state.Write{Store: state.IDOf(balances), Key: appendKey(nil, n), Value: value(n, 0, 0)}) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := newBook(task).round(newSource(s.Workload, s.Keys).round(0, 100)); err != nil {
		t.Fatal(err)
	}
	if err := s.look(task); err != nil || applied(task.Positions()) != 10 {
		t.Errorf("after %d records: %v", applied(task.Positions()), err)
	}
	for _, off := range []int64{1, -2} { // one too many, then one too few
		base := db.Positions()
		if err := db.Apply(base, next(base, off), func(func(state.Write) bool) {}); err != nil {
			t.Fatal(err)
		}
		if err := s.look(task); !errors.Is(err, errState) {
			t.Errorf("positions of %d records after 10: %v", applied(task.Positions()), err)
		}
	}
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// TestMeasure runs a whole measurement, small.
func TestMeasure(t *testing.T) {
	var progress bytes.Buffer
	cfg := Config{
		Dir: t.TempDir(), Sizes: []Keys{10_000, 30_000}, Warmup: 1000, Records: 5000, Repeats: 2, CacheBytes: 8 << 20,
		Workloads: []Workload{
			{Distribution: Uniform, Duplicates: 0.1, Round: 1000, Seed: 1},
			{Distribution: Zipf, Exponent: 1.1, Duplicates: 0.1, Round: 1000, Seed: 1},
		},
		ReopenKeys: 10_000, Reopens: 1, Quiet: 100 * time.Millisecond, Progress: &progress,
	}
	r, err := Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Curves) != 4 || len(r.Growth) != 2 || len(r.Reopens) != 1 {
		t.Fatalf("measured %+v", r)
	}
	for _, c := range r.Curves {
		if len(c.Runs) != 2 {
			t.Fatalf("%d keys, %v: %d runs", c.Keys, c.Workload, len(c.Runs))
		}
		for _, run := range c.Runs {
			sum := run.Process + run.Apply + run.Flush
			if run.Records != 5000 || run.Process <= 0 || run.Apply <= 0 || math.Abs(run.Record-sum) > 1 || run.RoundMax < run.RoundP50 {
				t.Errorf("%d keys, %v: %+v", c.Keys, c.Workload, run)
			}
			if runtime.GOOS == "linux" && run.PeakRSS < 8<<20 {
				t.Errorf("%d keys, %v: a peak of %d bytes", c.Keys, c.Workload, run.PeakRSS)
			}
		}
	}
	if o := r.Reopens[0]; o.Applied < 5000 || o.Took <= 0 || o.Took > o.Wall {
		t.Errorf("reopened %+v", o)
	}
	if s := r.Summaries(); s[0].Slowdown.Median != 1 || s[2].Keys != 30_000 || s[2].Slowdown.Median <= 0 {
		t.Errorf("the summary is %+v", s)
	}
	if err := r.Write(cfg.Dir); err != nil {
		t.Error(err)
	}
	var written struct {
		Summaries []Summary
		Result
	}
	if err := readJSON(cfg.Dir+"/state.json", &written); err != nil || len(written.Summaries) != 4 || len(written.Curves) != 4 {
		t.Errorf("written are %+v, %v", written, err)
	}
	text := r.Markdown()
	if !strings.Contains(text, "| 30000 | zipf, exponent 1.1 |") || !strings.Contains(text, "Reopen after kill -9") {
		t.Errorf("the report is\n%s", text)
	}

	for _, change := range []func(*Config){
		func(c *Config) { c.Sizes = []Keys{30_000, 10_000} },
		func(c *Config) { c.ReopenKeys = 20_000 },
		func(c *Config) { c.Records = 0 },
		func(c *Config) { c.Workloads = []Workload{{Distribution: Zipf, Exponent: 1, Round: 1}} },
	} {
		wrong := cfg
		change(&wrong)
		if _, err := Measure(t.Context(), wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}
