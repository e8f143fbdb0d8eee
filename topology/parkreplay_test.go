package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// parkedTask is one task whose words are parked while broken is set, on a clock that the test
// moves.
type parkedTask struct {
	*task
	broken bool
	clock  time.Time
	// reopen makes the graph anew, over the same state.
	reopen func()
}

func newParkedTask(t *testing.T, opts ...topology.SourceOption) *parkedTask {
	t.Helper()
	p := &parkedTask{clock: now}
	b := topology.NewBuilder("app", topology.DeadLetters("dead"), topology.OnError(topology.Transient, parkPolicy(0, 0)),
		topology.OnError(topology.Validation, delayPolicy(9)))
	words := topology.From(b, wordsTopic, append(opts, topology.ParkKeys(), topology.RetryTopics(time.Second))...)
	words.Peek("judge", func(word) error {
		if p.broken {
			return errBroken
		}
		return nil
	}).Into(outTopic)
	cfg := baseConfig()
	cfg.Now = func() time.Time { return p.clock }
	top, id := mustBuild(t, b), graph.TaskID{Subtopology: "words"}
	p.task = openTask(t, top, id, cfg)
	p.reopen = func() {
		t.Helper()
		g, err := top.NewGraph(id, p.state, cfg)
		if err != nil {
			t.Fatal(err)
		}
		p.graph = g
	}
	return p
}

// commit makes what was written committed state.
func (p *parkedTask) commit() {
	p.tb.Helper()
	base := p.state.Positions()
	next := base.Clone()
	next.Round.Incarnation++
	layer := p.state.Freeze()
	if err := p.state.Apply(layer, base, next); err != nil {
		p.tb.Fatal(err)
	}
	p.state.Retire(layer)
}

// release takes the next release, and runs it.
func (p *parkedTask) release() (topology.Punctuation, graph.Verdict) {
	p.tb.Helper()
	due, ok := p.graph.DueRelease()
	if !ok {
		p.tb.Fatal("nothing is due")
	}
	due.StreamTime = now.UnixMilli()
	return due, p.graph.Punctuate(due)
}

func (p *parkedTask) wantOut(v graph.Verdict, value string) {
	p.tb.Helper()
	if v.Action != graph.Accept || !v.Wrote || len(v.Outputs) != 1 || string(v.Outputs[0].Value) != value {
		p.tb.Fatalf("the verdict is %s with %s, want %s", v.Action, lines(v.Outputs), value)
	}
}

// TestG6ReplayAfterAbort: a round that has held and released the last records of a key is aborted
// and runs again: they are held again. What is in memory about a key must outlive its end, because
// the end may be taken back.
func TestG6ReplayAfterAbort(t *testing.T) {
	p := newParkedTask(t)
	p.broken = true
	first, second := p.input("words", []byte("k"), []byte("1")), p.input("words", []byte("k"), []byte("2"))
	if v := p.graph.Process(first); v.Action != topology.Park || v.Failure == nil || !v.Wrote || len(v.Outputs) > 0 ||
		v.Backoff != time.Second {
		t.Fatalf("the verdict is %+v", v)
	}
	p.commit()
	committed := p.graph.Parked()
	if want := (graph.Parked{Topic: "words", Store: "words.parked", Keys: 1, Records: 1}); len(committed) != 1 || committed[0] != want {
		t.Errorf("parked is %+v", committed)
	}
	p.broken = false
	p.clock = p.clock.Add(time.Second)
	for range 3 {
		if v := p.graph.Process(second); v.Action != topology.Park || v.Failure != nil || !v.Wrote {
			t.Fatalf("the verdict is %s, want the record to be held", v.Action)
		}
		one, v := p.release()
		p.wantOut(v, "1")
		two, v := p.release()
		p.wantOut(v, "2")
		if p.graph.Looks([]byte("other")) {
			t.Error("no key is parked any more, and the state is asked")
		}
		p.state.DropOpen() // the round is aborted, and runs again from its journal
		p.graph.Rewind(committed)
		if v := p.graph.Process(second); v.Action != topology.Park {
			t.Fatalf("run again the verdict is %s, want the record to be held", v.Action)
		}
		p.wantOut(p.graph.Punctuate(one), "1")
		p.wantOut(p.graph.Punctuate(two), "2")
		if v := p.graph.Punctuate(two); v.Action != graph.Accept || v.Wrote || len(v.Outputs) > 0 {
			t.Errorf("a release of nothing gives %+v", v)
		}
		p.state.DropOpen() // and once more from the beginning
		p.graph.Rewind(committed)
		if _, planned := p.graph.NextRelease(); !planned {
			t.Fatal("a key that is parked is not planned any more")
		}
	}
}

// TestG6BrokenStore: a store that fails stops the task, and no record is processed out of order
// because of it.
func TestG6BrokenStore(t *testing.T) {
	b := topology.NewBuilder("app")
	topology.From(b, wordsTopic, topology.ParkKeys()).Into(outTopic)
	_, err := mustBuild(t, b).NewGraph(graph.TaskID{Subtopology: "words"}, brokenState{errDisk}, baseConfig())
	if err == nil || !strings.Contains(err.Error(), "reading the keys that are parked") {
		t.Errorf("NewGraph returned %v", err)
	}
	p := newParkedTask(t)
	p.broken = true
	p.words("k", "1")
	rows := p.state.Store("words.parked")
	for e, err := range topology.KeyValueStore("words.parked", schemas.Bytes(), schemas.Bytes()).Open(rows).All() {
		if err != nil {
			t.Fatal(err)
		}
		if err := rows.Put(e.Key, []byte("\x01")); err != nil {
			t.Fatal(err)
		}
	}
	if v := p.words("k", "2"); v.Action != topology.Stop || v.Failure.Class != topology.Corruption {
		t.Errorf("the verdict is %s, %v", v.Action, v.Failure)
	}
	p.clock = p.clock.Add(time.Second)
	if _, v := p.release(); v.Action != topology.Stop || v.Failure.Class != topology.Corruption ||
		!strings.Contains(v.Failure.Error(), "the store of parked records cannot be read or written") {
		t.Errorf("the verdict is %s, %v", v.Action, v.Failure)
	}
}

// TestG1RefusedOutput: a record whose output the cluster refuses is never parked or delayed: it
// would be refused again. One that was delayed dies as the record that it was.
func TestG1RefusedOutput(t *testing.T) {
	p := newParkedTask(t)
	want(t, p.graph.Refuse(p.input("words", []byte("k"), []byte("1")), "too large"), topology.DeadLetter)
	in := p.input("app-words.retry-1s-repartition", []byte("k"), []byte("1"))
	in.Headers = []topology.Header{{Key: "mine"}, {Key: "onceward.retry", Value: []byte("2 1000 77 2000 0")}}
	v := want(t, p.graph.Refuse(in, "too large"), topology.DeadLetter)
	info, err := graph.ParseDeadLetter(v.Outputs[0].Headers)
	if err != nil || info.Origin.Topic != "words" || info.Origin.Offset != 77 || info.Attempts != 3 ||
		v.Outputs[0].Headers[1].Key == "onceward.retry" {
		t.Errorf("the letter says %+v, %v", info, err)
	}
}

// TestG6RefusedRelease: a refusal is about the record that a release has tried, and not about the
// one that it comes to when it runs again: another one may come first then.
func TestG6RefusedRelease(t *testing.T) {
	p := newParkedTask(t)
	p.broken = true
	p.words("k", "1")
	p.words("k", "2")
	p.commit()
	committed := p.graph.Parked()
	p.broken = false
	p.clock = p.clock.Add(time.Second)
	one, v := p.release()
	p.wantOut(v, "1")
	if topic, partition, offset, ok := one.Tried(); topic != "words" || partition != 0 || offset != 0 || !ok {
		t.Errorf("it has tried %s[%d] offset %d, %t", topic, partition, offset, ok)
	}
	two, v := p.release()
	p.wantOut(v, "2")
	two.Refuse("too large")
	p.state.DropOpen()
	p.graph.Rewind(committed)
	p.wantOut(p.graph.Punctuate(one), "1")
	letter := want(t, p.graph.Punctuate(two), topology.DeadLetter)
	info, err := graph.ParseDeadLetter(letter.Outputs[0].Headers)
	if err != nil || info.Origin.Topic != "words" || info.Origin.Offset != 1 || !letter.Wrote || letter.Released != "words" {
		t.Errorf("the letter says %+v, %v; the verdict is %+v", info, err, letter)
	}
	if !two.Refused() || one.Refused() {
		t.Error("it is not known whose output was refused")
	}
	p.state.DropOpen()
	p.graph.Rewind(committed)
	one.Refuse("too large")
	want(t, p.graph.Punctuate(one), topology.DeadLetter)
	p.state.DropOpen()
	p.graph.Rewind(committed)
	if v := p.graph.Punctuate(two); v.Action != graph.Accept || string(v.Outputs[0].Value) != "1" {
		t.Errorf("with the first record before it the verdict is %s: it was not this one that was refused", v.Action)
	}
}

// TestG6ManyKeys: however many keys are parked, a bounded number of them is in memory, each is
// tried when it is due, also after a restart, and once all are through, other keys cost nothing any
// more.
func TestG6ManyKeys(t *testing.T) {
	const most, keys = 8, 1000 // several steps of the search
	defer topology.SetAgendaMax(most)()
	p := newParkedTask(t)
	p.broken = true
	for i := range keys {
		if v := p.words(fmt.Sprint(i), "v"); v.Action != topology.Park {
			t.Fatalf("the verdict is %s", v.Action)
		}
		p.clock = p.clock.Add(time.Millisecond)
	}
	p.commit()
	bounded := func() {
		t.Helper()
		if n := p.graph.Planned(); n > 2*most {
			t.Fatalf("%d appointments are in memory", n)
		}
	}
	bounded()
	p.reopen()
	bounded()
	// As many fail again.
	p.drain(func(v graph.Verdict) {
		bounded()
		if v.Action != topology.Park {
			t.Fatalf("the verdict is %s", v.Action)
		}
	}, keys)
	p.broken = false
	seen := map[string]bool{}
	p.drain(func(v graph.Verdict) {
		bounded()
		p.wantOut(v, "v")
		seen[string(v.Outputs[0].Key)] = true
	}, keys)
	if len(seen) != keys {
		t.Errorf("%d keys came through", len(seen))
	}
	for range 4 * most { // what is still planned, or looked for, finds nothing
		if at, ok := p.graph.NextRelease(); ok && at.After(p.clock) {
			p.clock = at
		}
		if due, ok := p.graph.DueRelease(); ok {
			if v := p.graph.Punctuate(due); v.Action != graph.Accept || v.Wrote {
				t.Fatalf("the verdict is %s", v.Action)
			}
		}
	}
	if _, ok := p.graph.NextRelease(); ok {
		t.Error("something is planned, and nothing waits")
	}
	if p.graph.Looks([]byte("1")) || p.graph.Parked()[0].Records != 0 {
		t.Error("no key is parked any more, and the state is asked")
	}
}

// drain runs n releases that do something, each when it is due.
func (p *parkedTask) drain(did func(v graph.Verdict), n int) {
	p.tb.Helper()
	for idle := 0; n > 0; idle++ {
		if idle > 100 {
			p.tb.Fatalf("%d releases are missing", n)
		}
		due, ok := p.graph.DueRelease()
		if !ok {
			at, waits := p.graph.NextRelease()
			if !waits {
				p.tb.Fatalf("nothing waits, and %d releases are missing", n)
			}
			if at.After(p.clock) {
				p.clock = at
			}
			continue
		}
		due.StreamTime = now.UnixMilli()
		if v := p.graph.Punctuate(due); v.Action != graph.Accept || v.Wrote {
			did(v)
			n--
			idle = 0
		}
	}
}
