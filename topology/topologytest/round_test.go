package topologytest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// must fails the test with the error of a step.
func must(tb testing.TB, step func() error) {
	tb.Helper()
	if err := step(); err != nil {
		tb.Fatal(err)
	}
}

// commitAll commits all that follows from what was piped.
func commitAll(tb testing.TB, d *topologytest.Driver) {
	tb.Helper()
	for d.Uncommitted() > 0 {
		must(tb, d.Commit)
	}
}

// letters describes the dead letters since the last time, sorted.
func letters(tb testing.TB, d *topologytest.Driver) string {
	tb.Helper()
	all, err := d.DeadLetters()
	if err != nil {
		tb.Fatal(err)
	}
	var s []string
	for _, l := range all {
		s = append(s, fmt.Sprintf("%s[%d]@%d %s: %s after %d", l.Info.Origin.Topic, l.Info.Origin.Partition, l.Info.Origin.Offset,
			l.Info.Node, l.Info.Class, l.Info.Attempts))
	}
	slices.Sort(s)
	return strings.Join(s, ", ")
}

// TestCommitByHand: what is not committed shows nowhere but in the stores, and another subtopology
// does not read it either.
func TestCommitByHand(t *testing.T) {
	d := shop(t, topologytest.CommitByHand())
	wantUncommitted := func(want int) {
		t.Helper()
		if got := d.Uncommitted(); got != want {
			t.Errorf("%d units of work are not committed, want %d", got, want)
		}
	}
	pipe(t, d, "anna", 1)
	pipe(t, d, "", 2)
	wantUncommitted(2)
	if raw, err := d.OutputRaw("shop-letters-repartition"); err != nil || len(raw) != 0 {
		t.Errorf("the repartition topic has %v, %v", raw, err)
	}
	if got := letters(t, d) + fmt.Sprint(d.Counts()); got != "[]" {
		t.Errorf("before the commit there is %s", got)
	}
	must(t, d.Commit)
	if got := letters(t, d) + fmt.Sprint(d.Counts()); got != "orders[0]@1 by-letter: validation after 1"+
		"[{by-letter dead-letter-validation 1}]" {
		t.Errorf("behind the commit there is %s", got)
	}
	wantUncommitted(1)
	wantOutput(t, d, "")
	store, err := topologytest.Store(d, totalsOf, 0)
	if err != nil {
		t.Fatal(err)
	}
	if sum, ok, err := store.Get("a"); sum != 1 || !ok || err != nil {
		t.Errorf("the store has %d, %v, %v", sum, ok, err)
	}
	must(t, d.Commit)
	wantOutput(t, d, "a=1")
	wantUncommitted(0)
	must(t, d.Commit)
	wantOutput(t, d, "")
	pipe(t, d, "anna", 2)
	must(t, d.Restart) // commits
	must(t, d.Restart)
	wantOutput(t, d, "a=3")
	wantUncommitted(0)
}

// undoing are the ways to undo what is not committed.
var undoing = map[string]func(*topologytest.Driver) error{
	"crash": (*topologytest.Driver).Crash, "abort": (*topologytest.Driver).Abort,
}

// TestUndone: what is not committed is gone, with what a test has written, and comes again once;
// what is committed stays.
func TestUndone(t *testing.T) {
	for name, undo := range undoing {
		t.Run(name, func(t *testing.T) {
			d := shop(t, topologytest.CommitByHand())
			pipe(t, d, "anna", 1)
			commitAll(t, d)
			wantOutput(t, d, "a=1")
			pipe(t, d, "anna", 2)
			must(t, d.Commit) // the second task has processed it, and has not committed it
			pipe(t, d, "bob", 4)
			pipe(t, d, "", 5)
			store, err := topologytest.Store(d, totalsOf, 0)
			if err != nil {
				t.Fatal(err)
			}
			must(t, func() error { return store.Put("x", 1) })
			for range 3 {
				must(t, func() error { return undo(d) })
				if got := letters(t, d) + fmt.Sprint(d.Counts(), d.Uncommitted()); got != "[] 3" {
					t.Fatalf("not committed is %s", got)
				}
				if sum, _, err := store.Get("a"); sum != 3 || err != nil {
					t.Fatalf("the store has a=%d, %v", sum, err)
				}
				if _, ok, err := store.Get("x"); ok || err != nil {
					t.Fatalf("what the test has written is still there, or %v", err)
				}
			}
			wantOutput(t, d, "")
			commitAll(t, d)
			wantOutput(t, d, "a=3 b=4")
			if got := letters(t, d) + fmt.Sprint(d.Counts()); got != "orders[0]@3 by-letter: validation after 1"+
				"[{by-letter dead-letter-validation 1}]" {
				t.Errorf("there is %s", got)
			}
			must(t, func() error { return undo(d) })
			commitAll(t, d)
			wantOutput(t, d, "")
			if got := fmt.Sprint(letters(t, d), d.Count("by-letter", "dead-letter-validation")); got != "1" {
				t.Errorf("what was committed comes again: %s", got)
			}
		})
	}
}

// moving is where the clock of tests stands that undo.
func moving(s int) topologytest.PipeOption {
	return topologytest.At(noon.Add(time.Duration(s) * time.Second))
}

// TestUndoneStreamTime: it goes back, so that what fires with it fires again.
func TestUndoneStreamTime(t *testing.T) {
	for name, undo := range undoing {
		t.Run(name, func(t *testing.T) {
			d := ticking(t, quiet, topologytest.Clock(noon), topologytest.CommitByHand())
			pipe(t, d, "a", 1, moving(30))
			must(t, d.Commit)
			pipe(t, d, "a", 1, moving(60))
			pipe(t, d, "a", 1, moving(200))
			must(t, func() error { return undo(d) })
			commitAll(t, d)
			wantOutput(t, d, "minute 12:01:00=2 minute 12:03:00=3")
			must(t, func() error { return undo(d) })
			pipe(t, d, "a", 1, moving(239))
			commitAll(t, d)
			wantOutput(t, d, "")
		})
	}
}

// TestCrashSchedules: those of the wall clock begin anew, and a firing that is undone does not come
// again.
func TestCrashSchedules(t *testing.T) {
	d := ticking(t, quiet, topologytest.Clock(noon), topologytest.CommitByHand())
	pipe(t, d, "a", 1)
	advance(t, d, 15*time.Second)
	must(t, d.Crash)
	commitAll(t, d)
	wantOutput(t, d, "")
	advance(t, d, 9*time.Second)
	commitAll(t, d)
	wantOutput(t, d, "")
	advance(t, d, time.Second)
	commitAll(t, d)
	wantOutput(t, d, "ten 12:00:25=1")
	if n := d.Count("count", "fired"); n != 1 {
		t.Errorf("fired %d times", n)
	}
}

// TestAbortKeepsOrder: punctuations come again between the records between which they came, with
// the time that they had, and the schedule goes on.
func TestAbortKeepsOrder(t *testing.T) {
	d := ticking(t, quiet, topologytest.Clock(noon), topologytest.CommitByHand())
	pipe(t, d, "a", 1)
	advance(t, d, 15*time.Second)
	pipe(t, d, "a", 1)
	advance(t, d, 8*time.Second)
	for range 2 {
		must(t, d.Abort)
	}
	commitAll(t, d)
	wantOutput(t, d, "ten 12:00:10=1 ten 12:00:20=2")
	must(t, d.Abort)
	advance(t, d, 7*time.Second)
	commitAll(t, d)
	wantOutput(t, d, "ten 12:00:30=2")
}

// trying is a topology whose records fail until the attempt that their value says. tried notes the
// attempts.
func trying(t *testing.T, tried *[]int, opts ...topologytest.Option) *topologytest.Driver {
	t.Helper()
	b := topology.NewBuilder("trying", topology.DeadLetters("dead"))
	topology.Process(topology.From(b, orders), "try", totalsOf,
		func(c *topology.Context, _ state.KeyValue[string, int64], r order, emit topology.Emit[string, int64]) error {
			*tried = append(*tried, c.Attempt())
			if int64(c.Attempt()) < r.Value {
				return topology.Fail(topology.Transient, schemas.Reason("not yet"))
			}
			return emit(c, r)
		}).Into(totals)
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(built, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestUndoneAttempts: a retry in place commits what was done before, and how often the record was
// tried; a crash goes on from there. An abort does not: the record was done, and begins anew.
func TestUndoneAttempts(t *testing.T) {
	var tried []int
	d := trying(t, &tried, topologytest.CommitByHand(), topologytest.Clock(noon))
	wantTried := func(want string) {
		t.Helper()
		if got := fmt.Sprint(tried); got != want {
			t.Errorf("the attempts are %s, want %s", got, want)
		}
		tried = nil
	}
	pipe(t, d, "first", 1)
	pipe(t, d, "a", 3)
	wantTried("[1 1 2 3]")
	wantOutput(t, d, "first=1")
	if n := d.Uncommitted(); n != 1 {
		t.Errorf("%d units of work are not committed", n)
	}
	must(t, d.Crash)
	wantTried("[3]")
	must(t, d.Crash)
	wantTried("[3]")
	must(t, d.Abort)
	wantTried("[1 2 3]")
	must(t, d.Commit)
	must(t, d.Crash)
	wantTried("[]")
	wantOutput(t, d, "a=3")

	before := d.Now()
	pipe(t, d, "b", 100)
	wantTried("[1 2 3 4 5 6 7 8 9 10]")
	must(t, d.Crash)
	wantTried("[10]")
	must(t, d.Commit)
	all, err := d.DeadLetters()
	if err != nil || len(all) != 1 || all[0].Info.Attempts != 10 || !all[0].Info.FirstFailure.Equal(before) {
		t.Errorf("the dead letters are %+v, %v", all, err)
	}
	pipe(t, d, "c", 1) // the attempts were those of another record
	wantTried("[1]")
}

// TestUndoneParking: a record that waits for its time waits again when what has become of it is
// undone, and is processed once.
func TestUndoneParking(t *testing.T) {
	park := topology.Policy{Action: topology.Park, Backoff: time.Second, BackoffMax: time.Second}
	delay := topology.Policy{Action: topology.Delay, Attempts: 5, Then: topology.DeadLetter}
	for name, undo := range undoing {
		for kind, c := range map[string]struct {
			policy topology.Policy
			option topology.SourceOption
		}{
			"parked": {park, topology.ParkKeys()}, "delayed": {delay, topology.RetryTopics(time.Second)},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				down := true
				b := topology.NewBuilder("waiting", topology.DeadLetters("dead"))
				topology.From(b, orders, c.option).Peek("ask", func(order) error {
					if down {
						return topology.Fail(topology.Transient, schemas.Reason("it is down"))
					}
					return nil
				}, topology.OnError(topology.Transient, c.policy)).Into(totals)
				built, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				d, err := topologytest.New(built, topologytest.CommitByHand(), topologytest.Clock(noon))
				if err != nil {
					t.Fatal(err)
				}
				pipe(t, d, "a", 1)
				down = false
				must(t, func() error { return undo(d) }) // it has not failed
				commitAll(t, d)
				wantOutput(t, d, "a=1")
				down = true
				pipe(t, d, "a", 2)
				commitAll(t, d)
				down = false
				must(t, func() error { return undo(d) })
				wantOutput(t, d, "")
				advance(t, d, time.Second)
				for range 2 {
					must(t, func() error { return undo(d) })
					if n := d.Uncommitted(); n != 1 {
						t.Errorf("%d units of work are not committed, want that of the record", n)
					}
				}
				pipe(t, d, "a", 3)
				commitAll(t, d)
				wantOutput(t, d, "a=2 a=3")
			})
		}
	}
}

// TestUndoneStop: a crash starts a stopped task again, an abort does not, and a restart behind it
// does what the abort has undone.
func TestUndoneStop(t *testing.T) {
	for name, undo := range undoing {
		d := shop(t, topologytest.CommitByHand())
		pipe(t, d, "anna", 1)
		pipe(t, d, "stop", 1)
		pipe(t, d, "anna", 2)
		if err := d.Commit(); err == nil || !strings.Contains(err.Error(), "told to stop") {
			t.Fatalf("%s: the commit returns %v", name, err)
		}
		if err := undo(d); err == nil || !strings.Contains(err.Error(), "told to stop") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if want, got := map[string]int{"crash": 1, "abort": 0}[name], d.Uncommitted(); got != want {
			t.Errorf("%s: %d units of work are not committed, want %d", name, got, want)
		}
		if err := d.Restart(); err == nil || d.Uncommitted() != map[string]int{"crash": 0, "abort": 1}[name] {
			t.Errorf("%s: the restart returns %v, with %d units of work behind it", name, err, d.Uncommitted())
		}
		if err := d.Commit(); err == nil {
			t.Errorf("%s: the task is not stopped any more", name)
		}
		wantOutput(t, d, "a=1")
	}
}

// TestUndoneAnywhere: with commits, crashes, aborts and restarts at any places, what comes out is
// what comes of the records alone.
func TestUndoneAnywhere(t *testing.T) {
	worlds := map[string]func(opts ...topologytest.Option) *topologytest.Driver{
		"shop":    func(opts ...topologytest.Option) *topologytest.Driver { return shop(t, opts...) },
		"ticking": func(opts ...topologytest.Option) *topologytest.Driver { return ticking(t, quiet, opts...) },
	}
	for name, world := range worlds {
		undone := 0
		for seed := range uint64(200) {
			random := rand.New(rand.NewPCG(seed, 1))
			clean, d := world(topologytest.Clock(noon)), world(topologytest.Clock(noon), topologytest.CommitByHand())
			for range 30 {
				key := []string{"anna", "bob", "", "eva"}[random.IntN(4)]
				value := int64(random.IntN(8) - 3)
				at := moving(random.IntN(600))
				pipe(t, clean, key, value, at)
				pipe(t, d, key, value, at)
				switch random.IntN(8) {
				case 0:
					must(t, d.Commit)
				case 1:
					undone += d.Uncommitted()
					must(t, d.Crash)
				case 2:
					undone += d.Uncommitted()
					must(t, d.Abort)
				case 3:
					must(t, d.Restart)
				}
			}
			commitAll(t, d)
			got := []string{output(t, d), letters(t, d), fmt.Sprint(d.Counts())}
			want := []string{output(t, clean), letters(t, clean), fmt.Sprint(clean.Counts())}
			if !slices.Equal(got, want) {
				t.Fatalf("%s, seed %d:\n%s\nwant:\n%s", name, seed, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if undone == 0 {
			t.Errorf("%s: nothing was undone", name)
		}
	}
}

// firsts emits the first record of each key. Where its memory is kept makes the difference.
func firsts(t *testing.T, outside, inGraph bool) *topologytest.Driver {
	t.Helper()
	b := topology.NewBuilder("firsts")
	n := topology.Stateful(topology.From(b, orders), "first", totalsOf)
	out := topology.Outlet[string, int64](n, "out")
	ever := map[string]bool{}
	n.Process(func(s *topology.Setup) (topology.Handler[string, int64], error) {
		store, emit, seen := totalsOf.In(s), out.In(s), map[string]bool{}
		return func(c *topology.Context, r order) error {
			_, stored, err := store.Get(r.Key)
			if err != nil || stored || outside && ever[r.Key] || inGraph && seen[r.Key] {
				return err
			}
			ever[r.Key], seen[r.Key] = true, true
			return errors.Join(store.Put(r.Key, r.Value), emit(c, r))
		}, nil
	})
	out.Stream().Into(totals)
	built, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(built, topologytest.CommitByHand())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestKeptEffects is the negative control: a handler that keeps an effect in a Go variable loses
// the record, with a crash if the variable is outside of what the graph has made, and with an abort
// in any case. A restart in their place finds neither.
func TestKeptEffects(t *testing.T) {
	const whole, lost = "a=1 b=2", "b=2"
	for name, c := range map[string]struct {
		outside, inGraph      bool
		restart, crash, abort string
	}{
		"in the store": {false, false, whole, whole, whole},
		"in the graph": {false, true, whole, whole, lost},
		"outside":      {true, false, whole, lost, lost},
	} {
		for way, step := range map[string]struct {
			do   func(*topologytest.Driver) error
			want string
		}{
			"restart": {(*topologytest.Driver).Restart, c.restart},
			"crash":   {(*topologytest.Driver).Crash, c.crash},
			"abort":   {(*topologytest.Driver).Abort, c.abort},
		} {
			d := firsts(t, c.outside, c.inGraph)
			pipe(t, d, "a", 1)
			must(t, func() error { return step.do(d) })
			pipe(t, d, "a", 3)
			pipe(t, d, "b", 2)
			commitAll(t, d)
			if got := output(t, d); got != step.want {
				t.Errorf("kept %s, with a %s: output %s, want %s", name, way, got, step.want)
			}
		}
	}
}

// TestUndoNeedsCommitByHand: without it everything is committed, and nothing can be undone.
func TestUndoNeedsCommitByHand(t *testing.T) {
	d := shop(t)
	pipe(t, d, "a", 1)
	for name, step := range map[string]func() error{"Commit": d.Commit, "Crash": d.Crash, "Abort": d.Abort} {
		if err := step(); err == nil || err.Error() !=
			"topologytest: "+name+": each unit of work is committed at once without the option CommitByHand" {
			t.Errorf("%s returns %v", name, err)
		}
	}
	if n := d.Uncommitted(); n != 0 {
		t.Errorf("%d units of work are not committed", n)
	}
	wantOutput(t, d, "a=1")
}

// TestKeepOriginThroughCrash is requirement G3: what a repartition topic keeps of where records
// come from is there through crashes and aborts, as with a runtime: positions in the input and in
// the topic differ.
func TestKeepOriginThroughCrash(t *testing.T) {
	for name, opts := range map[string][]topology.RepartitionOption{"kept": {topology.KeepOrigin()}, "lost": nil} {
		t.Run(name, func(t *testing.T) {
			b := topology.NewBuilder("shop", topology.DeadLetters("dead"))
			positive := topology.From(b, orders).Filter("positive", func(r order) (bool, error) { return r.Value > 0, nil })
			topology.RepartitionWith(positive, "again", schemas.String(), schemas.Int64(), opts...).Peek("judge", func(order) error {
				return topology.Fail(topology.Validation, schemas.Reason("not like this"))
			})
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			d, err := topologytest.New(top, topologytest.CommitByHand())
			if err != nil {
				t.Fatal(err)
			}
			for _, value := range []int64{-1, 1, 2} {
				pipe(t, d, "k", value)
			}
			for _, undo := range []func() error{d.Crash, d.Commit, d.Abort, d.Crash, d.Commit, d.Restart} {
				if err := undo(); err != nil {
					t.Fatal(err)
				}
			}
			letters, err := d.DeadLetters()
			if err != nil || len(letters) != 2 {
				t.Fatalf("there are %d letters, %v", len(letters), err)
			}
			for i, l := range letters {
				want := graph.DeadLetterSource{Topic: "orders", Offset: int64(i) + 1}
				if opts == nil {
					want = graph.DeadLetterSource{}
				}
				if l.Info.Source != want || l.Info.Origin.Topic != "shop-again-repartition" || l.Info.Origin.Offset != int64(i) {
					t.Errorf("the letter says %+v", l.Info)
				}
			}
		})
	}
}
