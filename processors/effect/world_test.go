package effect_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// world runs the task of a ledger as package txn does. Units of work join a round that is
// committed, or aborted and run again. A crash makes another opening of the task. A zombie is an
// opening that goes on after that.
type world struct {
	tb      testing.TB
	topo    *topology.Topology
	db      *memstore.Store
	gateway *gateway
	now     time.Time
	// early breaks the world: claims are delivered before they are committed. dropsDoubts breaks it
	// too: the ledger has no doubts.
	early, dropsDoubts bool
	// versions are the versions of the application that a history can deploy, by what they do about
	// the unknown.
	versions []answer

	life *life
	// requests and claims are the committed records of the two inputs, read how many of them are
	// committed as done.
	requests, claims []graph.Input
	read             [2]int
	results          []effect.Result
}

// answer is what a version of the application does about effects that are unknown.
type answer int

const (
	asksPeople answer = iota
	looksUp
	repeats
)

func (w *world) options(a answer) []effect.Option {
	switch a {
	case looksUp:
		return []effect.Option{effect.Lookup(w.gateway.find)}
	case repeats:
		return []effect.Option{effect.Repeatable()}
	}
	return nil
}

// life is one opening of the task.
type life struct {
	*world
	graph *topology.Graph
	state *state.Task
	// journal is the open round, again what an abort has put back, outputs what the round will
	// produce.
	journal, again []unit
	outputs        []graph.Output
	next           [2]int
	early          []graph.Input
}

// unit is what a journal holds: a record of one of the inputs, or a punctuation.
type unit struct {
	input       int
	record      graph.Input
	punctuation *topology.Punctuation
}

const (
	ofRequests = iota
	ofClaims
	claimsRepartition  = "app-capture-claims-repartition"
	resultsRepartition = "app-capture-results-repartition"
)

func newWorld(tb testing.TB, g *gateway, opts ...effect.Option) *world {
	w := &world{tb: tb, db: memstore.New(), gateway: g, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	w.build(opts)
	w.life = w.open()
	return w
}

func (w *world) build(opts []effect.Option) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	opts = append(slices.Clone(opts), effect.Clock(func() time.Time { return w.now }), effect.Parallel(1))
	effect.Perform(topology.From(b, capturesTopic), "capture", captureRequest, w.gateway.capture, opts...)
	var err error
	if w.topo, err = b.Build(); err != nil {
		w.tb.Fatal(err)
	}
}

func (w *world) open() *life {
	var stores []state.Declaration
	for _, sub := range w.topo.Subtopologies() {
		stores = append(stores, sub.Declarations()...)
	}
	st, err := state.NewTask(w.db, stores)
	if err != nil {
		w.tb.Fatal(err)
	}
	l := &life{world: w, state: st, next: w.read}
	l.graph, err = w.topo.NewGraph(graph.TaskID{Subtopology: "capture-claims"}, st, topology.GraphConfig{
		Partitions: func(string) int32 { return 1 }, Now: func() time.Time { return w.now },
	})
	if err != nil {
		w.tb.Fatal(err)
	}
	return l
}

// crash ends the life, with everything that is not committed, and begins another one.
func (w *world) crash() {
	w.life.state.Drop()
	w.life = w.open()
}

// deploy ends the life as a crash does, and goes on with a version of the application that has
// other options.
func (w *world) deploy(opts ...effect.Option) {
	w.life.state.Drop()
	w.build(opts)
	w.life = w.open()
}

// request appends a request to the input.
func (w *world) request(id string, amount int) {
	value, err := json.Marshal(Capture{ID: id, Amount: int64(amount)})
	if err != nil {
		w.tb.Fatal(err)
	}
	w.requests = append(w.requests, graph.Input{
		Topic: "captures", Offset: int64(len(w.requests)), Timestamp: w.now.UnixMilli(), Key: []byte("k"), Value: value,
	})
}

// tick lets time pass, and the punctuation that is due join the round.
func (l *life) tick(by time.Duration) {
	l.now = l.now.Add(by)
	l.redo()
	if p, ok := l.graph.Due(l.now); ok {
		l.run(unit{punctuation: &p})
	}
}

// work lets the next record join the round: what is to be run again, else a claim, else a request.
func (l *life) work() bool {
	switch {
	case len(l.again) > 0:
		u := l.again[0]
		l.again = l.again[1:]
		l.run(u)
	case len(l.early) > 0:
		in := l.early[0]
		l.early = l.early[1:]
		l.run(unit{input: -1, record: in})
	case l.next[ofClaims] < len(l.claims):
		l.next[ofClaims]++
		l.run(unit{input: ofClaims, record: l.claims[l.next[ofClaims]-1]})
	case l.next[ofRequests] < len(l.requests):
		l.next[ofRequests]++
		l.run(unit{input: ofRequests, record: l.requests[l.next[ofRequests]-1]})
	default:
		return false
	}
	return true
}

func (l *life) redo() {
	for len(l.again) > 0 {
		l.work()
	}
}

func (l *life) run(u unit) {
	if l.world.dropsDoubts {
		l.dropDoubts()
	}
	var v graph.Verdict
	if u.punctuation != nil {
		v = l.graph.Punctuate(*u.punctuation)
	} else {
		v = l.graph.Process(u.record)
	}
	if v.Action != graph.Accept && (v.Action != topology.DeadLetter || u.input != ofRequests) {
		l.tb.Fatalf("the verdict is %s: %v", v.Action, v.Failure)
	}
	l.journal = append(l.journal, u)
	for i := range v.Outputs {
		out := v.Outputs[i].Clone()
		l.outputs = append(l.outputs, out)
		if l.world.early && out.Topic == claimsRepartition {
			l.early = append(l.early, inputOf(out, 0))
		}
	}
}

// dropDoubts removes all doubts from the rows.
func (l *life) dropDoubts() {
	rows := l.rows()
	for pair, err := range rows.All() {
		if err == nil && pair.Value.Doubt {
			pair.Value.Doubt = false
			err = rows.Put(pair.Key, pair.Value)
		}
		if err != nil {
			l.tb.Fatal(err)
		}
	}
}

func (l *life) rows() state.KeyValue[string, effect.Effect] {
	return effect.Store("capture").Open(l.state.Store("capture"))
}

func inputOf(out graph.Output, offset int) graph.Input {
	return graph.Input{
		Topic: out.Topic, Partition: out.Partition, Offset: int64(offset), Timestamp: out.Timestamp,
		Key: out.Key, Value: out.Value, Headers: out.Headers,
	}
}

// commit commits the round: outputs, state and positions. All units to run again must be in it.
func (l *life) commit() {
	l.redo()
	layer := l.state.Freeze()
	at := l.state.Positions()
	if err := l.state.Apply(layer, at, at); err != nil {
		l.tb.Fatal(err)
	}
	l.state.Retire(layer)
	for _, out := range l.outputs {
		switch out.Topic {
		case claimsRepartition:
			if out.Partition != 0 || out.Key != nil {
				l.tb.Fatalf("a claim goes to partition %d", out.Partition)
			}
			if !l.world.early {
				l.claims = append(l.claims, inputOf(out, len(l.claims)))
			}
		case resultsRepartition:
			r, err := resultCodec.Decode(out.Value)
			if err != nil {
				l.tb.Fatal(err)
			}
			l.results = append(l.results, r)
		}
	}
	l.read = l.next
	l.journal, l.outputs = nil, nil
}

// abort drops the round, and puts what it has taken before everything else.
func (l *life) abort() {
	l.state.DropOpen()
	l.again = append(slices.Clone(l.journal), l.again...)
	l.journal, l.outputs, l.early = nil, nil, nil
}

// settle lets everything end: what the gateway still has in store goes wrong, and nothing else.
func (w *world) settle() {
	for range 400 {
		for w.life.work() {
		}
		w.life.commit()
		w.life.tick(30 * time.Second)
		w.life.commit()
	}
}

// honest returns an error if the ledger says that something has not happened which has.
func (w *world) honest() error {
	for pair, err := range w.life.rows().All() {
		if err != nil {
			return err
		}
		e := pair.Value
		_, captured := w.gateway.count(pair.Key)
		if captured > 0 && (e.Status == effect.FailedRetryable || e.Status == effect.FailedTerminal) {
			return fmt.Errorf("%s is %s and was captured", pair.Key, e.Status)
		}
	}
	return nil
}

// check compares what the gateway has done with what the ledger says and what was told.
func (w *world) check() error {
	told := map[string][]effect.Status{}
	for _, r := range w.results {
		if !r.Replayed {
			told[r.ID] = append(told[r.ID], r.Status)
		}
	}
	rows := map[string]bool{}
	for pair, err := range w.life.rows().All() {
		if err != nil {
			return err
		}
		id, e := pair.Key, pair.Value
		rows[id] = true
		calls, captured := w.gateway.count(id)
		switch {
		case captured > 1:
			return fmt.Errorf("%s was captured %d times by %d calls: %+v", id, captured, calls, e)
		case calls > e.Attempts:
			return fmt.Errorf("%s was called %d times in %d attempts", id, calls, e.Attempts)
		case e.Status == effect.Completed && captured != 1, e.Status == effect.FailedTerminal && captured != 0:
			return fmt.Errorf("%s is %s and was captured %d times", id, e.Status, captured)
		case e.Status != effect.Completed && e.Status != effect.FailedTerminal && (e.Status != effect.Unknown || e.Due != 0):
			return fmt.Errorf("%s never ends: %+v", id, e)
		case len(told[id]) != 1 || told[id][0] != e.Status:
			return fmt.Errorf("%s is %s, and told was %v", id, e.Status, told[id])
		}
	}
	for _, in := range w.requests {
		var c Capture
		if err := json.Unmarshal(in.Value, &c); err != nil || !rows[c.ID] {
			return fmt.Errorf("the request of %q is lost; error %w", c.ID, err)
		}
	}
	for _, store := range []string{"capture-due", "capture-claim"} {
		for range w.life.state.Store(store).Scan(state.Range{}) {
			return fmt.Errorf("something is left in %s", store)
		}
	}
	return nil
}
