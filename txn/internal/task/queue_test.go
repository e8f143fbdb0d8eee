package task

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
)

// epoch is where the clock of these tests starts.
var epoch = time.Unix(1_700_000_000, 0)

// record returns a record whose timestamp is that many seconds after the epoch of the tests.
func record(offset int64, seconds int) *broker.Record {
	return &broker.Record{Offset: offset, Timestamp: epoch.Add(time.Duration(seconds) * time.Second)}
}

func seconds(r *broker.Record) int { return int(r.Timestamp.Sub(epoch) / time.Second) }

// give enqueues and pulls one record.
func give(tb testing.TB, q *queue, input int, r *broker.Record) {
	tb.Helper()
	if _, ok := q.enqueue(input, []*broker.Record{r}); !ok {
		tb.Fatal("the queue is closed")
	}
	q.pull()
}

// drain takes what the queue gives, as input:seconds.
func drain(q *queue, now time.Time) []string {
	var taken []string
	for e, _, ok := q.next(now); ok; e, _, ok = q.next(now) {
		taken = append(taken, fmt.Sprintf("%d:%d", e.Input, seconds(e.Record)))
	}
	return taken
}

// merge is the order that the queue promises when it sees everything: the least of the first
// records, ties by input.
func merge(inputs [][]int) []string {
	heads := make([]int, len(inputs))
	var order []string
	for {
		best := -1
		for i := range inputs {
			if heads[i] < len(inputs[i]) && (best < 0 || inputs[i][heads[i]] < inputs[best][heads[best]]) {
				best = i
			}
		}
		if best < 0 {
			return order
		}
		order = append(order, fmt.Sprintf("%d:%d", best, inputs[best][heads[best]]))
		heads[best]++
	}
}

// TestOrder: whatever the timestamps and the order of arrival, records are taken in the order of
// their timestamps as long as no input waits longer than the bound. Every case of three inputs with
// two records each and two timestamps is tried. Without a wait, the control, most arrivals break
// the order.
func TestOrder(t *testing.T) {
	const inputs, each, times = 3, 2, 2
	arrivals := permutations([]int{0, 0, 1, 1, 2, 2})
	cases, broken := 0, 0
	for code := range power(times, inputs*each) {
		stamps := make([][]int, inputs)
		for i, rest := 0, code; i < inputs*each; i, rest = i+1, rest/times {
			stamps[i/each] = append(stamps[i/each], rest%times)
		}
		want := merge(stamps)
		for _, arrival := range arrivals {
			cases++
			if got := arrive(t, stamps, arrival, time.Second); !slices.Equal(got, want) {
				t.Fatalf("timestamps %v, arriving as %v, are taken as %v, want %v", stamps, arrival, got, want)
			}
			if !slices.Equal(arrive(t, stamps, arrival, 0), want) {
				broken++
			}
		}
	}
	if cases != 64*90 || broken < cases/2 {
		t.Errorf("%d cases, of which %d lose the order without a wait", cases, broken)
	}
}

// arrive gives records with these timestamps in this order of inputs, and takes all it can after
// each.
func arrive(tb testing.TB, stamps [][]int, arrival []int, waitMax time.Duration) []string {
	q := newQueue(make([]state.Input, len(stamps)), waitMax)
	for i := range stamps {
		q.setEnd(i, int64(len(stamps[i])))
	}
	next := make([]int64, len(stamps))
	var taken []string
	for _, i := range arrival {
		give(tb, q, i, record(next[i], stamps[i][next[i]]))
		next[i]++
		taken = append(taken, drain(q, epoch)...)
	}
	return taken
}

// permutations returns the distinct orders of sorted values.
func permutations(values []int) [][]int {
	if len(values) == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for i, v := range values {
		if i > 0 && values[i-1] == v {
			continue
		}
		for _, rest := range permutations(slices.Delete(slices.Clone(values), i, i+1)) {
			all = append(all, append([]int{v}, rest...))
		}
	}
	return all
}

func power(base, n int) int {
	p := 1
	for range n {
		p *= base
	}
	return p
}

// TestWaitIsBounded walks through every sequence of six events over two inputs, from ends that are
// unknown. It checks what the queue promises: the queue refuses a record only while an input
// without one may have an older one, and never for longer than the bound.
func TestWaitIsBounded(t *testing.T) {
	const waitMax, events, kinds = 2 * time.Second, 6, 6
	refusals, forced := 0, 0
	for code := range power(kinds, events) {
		w := walk{q: newQueue(make([]state.Input, 2), waitMax), now: epoch}
		for rest := code; w.bad == "" && len(w.done) < events; rest /= kinds {
			w.event(t, rest%kinds, waitMax)
		}
		if w.bad != "" {
			t.Fatalf("%s after %s", w.bad, strings.Join(w.done, ", "))
		}
		refusals, forced = refusals+w.refusals, forced+w.forced
	}
	if refusals == 0 || forced == 0 {
		t.Errorf("records were refused %d times, and taken after a wait in vain %d times", refusals, forced)
	}
}

// walk is one sequence of events, and what the queue may do in it.
type walk struct {
	q    *queue
	now  time.Time
	done []string
	bad  string
	// queued and given are the records that wait, and those that were handed over; end is -1 while
	// it is not known.
	queued, given [2]int
	end           [2]int
	ends          [2]bool
	// refusedAt is when the first record in a row was refused, zero if the last one was not.
	refusedAt        time.Time
	refusals, forced int
}

func (w *walk) event(tb testing.TB, kind int, waitMax time.Duration) {
	switch kind {
	case 0, 1:
		w.done = append(w.done, fmt.Sprintf("record of %d", kind))
		give(tb, w.q, kind, record(int64(w.given[kind]), w.given[kind]))
		w.given[kind]++
		w.queued[kind]++
	case 2, 3:
		i := kind - 2
		w.end[i], w.ends[i] = max(w.end[i], w.given[i]+len(w.done)%2), true
		w.done = append(w.done, fmt.Sprintf("end %d of %d", w.end[i], i))
		w.q.setEnd(i, int64(w.end[i]))
		w.q.pull()
	case 4:
		w.done = append(w.done, "a second")
		w.now = w.now.Add(time.Second)
	case 5:
		w.done = append(w.done, "next")
		w.next(waitMax)
	}
}

// next asks for a record and judges the answer.
func (w *walk) next(waitMax time.Duration) {
	lags := func(i int) bool { return w.queued[i] == 0 && (!w.ends[i] || w.given[i] < w.end[i]) }
	e, _, ok := w.q.next(w.now)
	switch {
	case ok:
		w.queued[e.Input]--
		if lags(1 - e.Input) {
			w.forced++
		}
		w.refusedAt = time.Time{}
		if !w.q.waitsUntil().IsZero() {
			w.bad = "a wait goes on behind a record that is taken"
		}
	case w.queued[0]+w.queued[1] == 0:
	default:
		w.refusals++
		if w.refusedAt.IsZero() {
			w.refusedAt = w.now
		}
		switch {
		case !lags(0) && !lags(1):
			w.bad = "a record is refused although no input lags"
		case w.now.Sub(w.refusedAt) >= waitMax:
			w.bad = "a record is refused longer than the bound"
		case !w.q.waitsUntil().Equal(w.refusedAt.Add(waitMax)):
			w.bad = fmt.Sprintf("the wait ends at %s", w.q.waitsUntil().Sub(epoch))
		}
	}
}

// TestWaiting goes through one wait after another, step by step.
func TestWaiting(t *testing.T) {
	q := newQueue([]state.Input{{Offset: 10}, {Offset: 20}}, time.Second)
	now := epoch
	step := func(what string, after time.Duration, want ...string) {
		t.Helper()
		now = now.Add(after)
		q.pull()
		if got := drain(q, now); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	step("empty", 0)
	if !q.waitsUntil().IsZero() {
		t.Error("an empty queue waits")
	}
	give(t, q, 0, record(10, 5))
	step("the end of the other is not known", 0)
	q.setEnd(1, 20)
	step("it is where the task starts", 0, "0:5")
	give(t, q, 0, record(11, 6))
	q.setEnd(1, 22)
	step("it has moved", 0)
	step("nearly too long", time.Second-1)
	if got := q.waitsUntil().Sub(now); got != 1 {
		t.Errorf("the wait ends after %s", got)
	}
	step("too long", 1, "0:6")
	give(t, q, 0, record(12, 7))
	step("not again for the same", 0, "0:7")
	give(t, q, 1, record(20, 1))
	give(t, q, 0, record(13, 8))
	step("it has shown a record, and lacks another", 0, "1:1")
	give(t, q, 1, record(21, 8))
	q.setEnd(0, 14)
	step("ties go by input", 0, "0:8", "1:8")
	give(t, q, 0, record(14, 9))
	step("both are at their end", 0, "0:9")
	q.setEnd(1, 30)
	q.setEnd(1, 22)
	give(t, q, 0, record(15, 3))
	step("a new wait, and an old end changes nothing", 0)
	give(t, q, 1, record(29, 2))
	step("offsets have gaps", 0, "1:2", "0:3")
}

// TestAgainDoesNotWait: what an abort has put back comes at once and in its order, also in the
// middle of a wait.
func TestAgainDoesNotWait(t *testing.T) {
	q := newQueue(make([]state.Input, 2), time.Second)
	give(t, q, 0, record(7, 1))
	if got := drain(q, epoch); got != nil {
		t.Errorf("taken: %v", got)
	}
	q.putBack([]Entry{{Input: 1, Record: record(3, 9)}, {Input: 0, Record: record(5, 4)}, {Input: 0, Record: record(6, 2)}})
	if got := drain(q, epoch.Add(time.Second-1)); fmt.Sprint(got) != "[1:9 0:4 0:2]" {
		t.Errorf("taken: %v", got)
	}
	if got := drain(q, epoch.Add(time.Second)); fmt.Sprint(got) != "[0:1]" {
		t.Errorf("taken: %v", got)
	}
}

// TestSetEndCrossesOver: the dispatcher hands records and ends in while the worker takes. The race
// detector is the judge, and the order, which is that of the arrival.
func TestSetEndCrossesOver(t *testing.T) {
	const n = 200
	task := New(Spec{Inputs: []state.Input{{Topic: "a"}, {Topic: "b"}}, OrderWaitMax: time.Hour})
	var dispatcher sync.WaitGroup
	dispatcher.Go(func() {
		for i := range int64(n) {
			for input := range 2 {
				task.Enqueue(input, []*broker.Record{record(i, int(i))})
				task.SetEnd(input, i+1)
			}
		}
	})
	var taken []string
	for deadline := time.Now().Add(time.Minute); len(taken) < 2*n && time.Now().Before(deadline); runtime.Gosched() {
		task.Pull()
		for e, ok := task.Next(epoch); ok; e, ok = task.Next(epoch) {
			taken = append(taken, fmt.Sprintf("%05d:%d", seconds(e.Record), e.Input))
		}
	}
	dispatcher.Wait()
	if len(taken) != 2*n || !slices.IsSorted(taken) {
		t.Errorf("%d records taken: %v", len(taken), taken)
	}
	if !task.WaitsUntil().IsZero() {
		t.Error("the task waits for nothing")
	}
}

// TestOneInputNeverWaits: a single input never waits, and no input waits without a bound.
func TestOneInputNeverWaits(t *testing.T) {
	for inputs, waitMax := range map[int]time.Duration{1: time.Hour, 2: 0} {
		q := newQueue(make([]state.Input, inputs), waitMax)
		give(t, q, 0, record(0, 1))
		if got := drain(q, epoch); len(got) != 1 {
			t.Errorf("%d inputs: taken: %v", inputs, got)
		}
	}
}

// TestDelayedTakesTurns: of delayed records that are due the one that has been so for longest is
// the next, and takes turns with those of other inputs, so that neither starves. Delayed ones do
// not wait for an input that lags, and alone they come one after another.
func TestDelayedTakesTurns(t *testing.T) {
	q := newQueue([]state.Input{{}, {}, {}, {}}, time.Second)
	q.inputs[0].delay, q.inputs[1].delay = 10*time.Second, 5*time.Second
	for i, at := range []int{1, 2, 3, 30} {
		give(t, q, 0, record(int64(i), at))
	}
	for i, at := range []int{5, 6, 31} {
		give(t, q, 1, record(int64(i), at))
	}
	for i, at := range []int{20, 21} {
		give(t, q, 2, record(int64(i), at))
	}
	now := epoch.Add(20 * time.Second)
	take := func(want string) {
		t.Helper()
		e, _, ok := q.next(now)
		got := "nothing"
		if ok {
			got = fmt.Sprintf("%d:%d", e.Input, seconds(e.Record))
		}
		if got != want {
			t.Errorf("taken is %s, want %s", got, want)
		}
	}
	take("1:5")
	take("0:1") // the end of the last input is not known, which holds up its neighbour alone
	q.setEnd(3, 0)
	q.pull()
	take("2:20")
	take("1:6")
	take("2:21")
	take("0:2")
	take("0:3")
	take("nothing")
	give(t, q, 2, record(2, 22))
	take("2:22")
}
