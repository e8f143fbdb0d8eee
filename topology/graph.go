package topology

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// GraphConfig is what a graph needs from its runtime. The functions are called on the task's
// goroutine.
type GraphConfig struct {
	// Partitions returns the number of partitions of a topic on the cluster. 0 means unknown, which
	// is an error for a topic that the task writes. The graph calls it once, when it is made: a
	// record that is processed twice goes to the same partition.
	Partitions func(topic string) int32
	// MaxMessageBytes returns the limit of a topic, as in max.message.bytes; 0 means unchecked. It
	// may be nil. It is asked when the graph is made, for the topics that are written, changelogs
	// included.
	MaxMessageBytes func(topic string) int32
	// Compacted reports whether a topic is compacted, and so refuses null keys. It may be nil. It
	// is asked when the graph is made.
	Compacted func(topic string) bool
	// Now returns the wall clock. It dates failures, bounds timestamps, and starts the wall-clock
	// schedules; user code never sees it.
	Now func() time.Time
	// MaxFutureTimestamp is how far the timestamp of an input or output may be ahead of the clock.
	// A later one is a Validation failure, because it would move the stream time and expire rows
	// too early. 0 means one hour, a negative value means unchecked.
	MaxFutureTimestamp time.Duration
	// Mode is the mode of the application. See [Context.Mode].
	Mode Mode
	// GlobalTable returns the rows of a global table by the name of its store, nil if this process
	// does not have them. It may be nil for a subtopology without lookups in global tables. The
	// graph only reads the rows. They may change at any time, also while a record is processed.
	GlobalTable func(store string) state.Bytes
	// CheckViews is for tests. Sources lend copies of the bytes of a record ([schemas.Lender]),
	// which are overwritten when the record has been processed. A record of which user code has
	// changed a copy fails with class [Fatal].
	CheckViews bool
}

const maxFutureTimestampDefault = time.Hour

// Graph is a subtopology made runnable for one task: nodes with their handlers, stores and
// counters. It belongs to one goroutine. Between two calls of Process it keeps nothing about
// records outside of the state. Its only memory of time is when each wall-clock schedule is due.
type Graph struct {
	topology *Topology
	id       graph.TaskID
	state    graph.State
	config   GraphConfig
	sources  []graphSource
	entries  map[*node]any
	context  Context
	arena    arena
	// scopes are those of the nodes that are prepared with a Setup.
	scopes map[*node]*scope
	// deadLetters is the sink of dead letters, nil if there is none.
	deadLetters *sink
	// latest is the largest timestamp that the clock allowed when it was last read, in milliseconds
	// since the epoch.
	latest int64
	// made is when the graph was made; zero if there are no schedules of the wall clock.
	made time.Time
	// released is where the record at work was parked, nil for one that was just read.
	released *parking
	// unparkable says that the record at work may not be parked: the cluster has refused its
	// output.
	unparkable bool
	// onStreamTime and onWallClock are in the order in which they fire.
	onStreamTime []*schedule
	onWallClock  []*schedule
	// memories are what nodes share, by their descriptions; nil if there are none.
	memories map[any]any
	// lent are the copies that sources have lent; nil without CheckViews.
	lent *lentCopies
	// gauges are those of all nodes. The list does not change once the graph is made.
	gauges []*Gauge

	// The following fields are about the unit of work: a record with the punctuations that it
	// fires, or a punctuation.

	// in is the record. Of a punctuation by the wall clock it has stream time and attempt.
	in graph.Input
	// eventTime is what the record moves the stream time to.
	eventTime int64
	// mode is that of what is at work, ownMode the one that it has in an application that is Live.
	mode, ownMode Mode
	// resumed says that the node handles a deferred record.
	resumed bool
	// node is the node whose code runs, nil between units.
	node *node
	// firing is the schedule whose code runs, nil while a record is handled.
	firing *schedule
	// waited is the record of a join that is passed on because its window has closed.
	waited  waitedRecord
	failure *Failure
	// blame belongs to failure.
	blame   blame
	outputs []graph.Output
	counts  []graph.OutcomeCount
	touched []*Counter
	// wrote says that a store was written.
	wrote bool
	// origins and headers are chunks of what is given out once each; of the origins, so many are.
	origins      []origin
	originsGiven int
	headers      []Header
}

// blame is what the graph knows of a failure beside what the runtime is told.
type blame struct {
	node *node
	// inherent says that the failure follows from the bytes of the record and the codecs of its
	// source alone.
	inherent bool
	// punctuation is the schedule that failed, nil if a record failed.
	punctuation *schedule
}

// graphSource is a source as the graph knows it.
type graphSource struct {
	topic string
	// internal says that it is a repartition topic, whose records may say where they come from.
	internal bool
	// restores says that tables are restored from the topic.
	restores bool
	// run processes the record at work.
	run func() error
	// eventTime is nil for a source without EventTime.
	eventTime func(in *graph.Input) int64
	// parking is where the records of the source wait, nil if they never do.
	parking *parking
	// retries are the delayed retry topics of the source.
	retries []retryTopic
	// of is set for a delayed retry topic: the topic that its records come from.
	of string
}

// NewGraph makes a graph for one task. The factories of its nodes run, in an order that is not
// defined; nothing that the graph does depends on it. st may be nil if the subtopology has no
// stores.
//
// An error means that the task cannot be opened: a factory failed, a topic is unknown, or something
// is missing from cfg.
func (t *Topology) NewGraph(id graph.TaskID, st graph.State, cfg GraphConfig) (*Graph, error) {
	sub, ok := t.subtopology(id.Subtopology)
	switch {
	case !ok:
		return nil, fmt.Errorf("topology %s: task %s: there is no subtopology %q", t.name, id, id.Subtopology)
	case id.Partition < 0:
		return nil, fmt.Errorf("topology %s: task %s: the partition is negative", t.name, id)
	case cfg.Partitions == nil || cfg.Now == nil:
		return nil, fmt.Errorf("topology %s: task %s: GraphConfig needs Partitions and Now", t.name, id)
	case st == nil && len(sub.stores) > 0:
		return nil, fmt.Errorf("topology %s: task %s has stores and needs a State", t.name, id)
	}
	if cfg.MaxFutureTimestamp == 0 {
		cfg.MaxFutureTimestamp = maxFutureTimestampDefault
	}
	g := &Graph{topology: t, id: id, state: st, config: cfg, entries: map[*node]any{}, scopes: map[*node]*scope{}}
	g.context.graph = g
	if cfg.CheckViews {
		g.lent = &lentCopies{}
	}
	if err := g.instantiate(sub); err != nil {
		return nil, fmt.Errorf("topology %s: task %s: %w", t.name, id, err)
	}
	return g, nil
}

func (g *Graph) instantiate(sub *subtopology) error {
	for _, n := range sub.nodes {
		if n.of != nil {
			g.sources = append(g.sources, graphSource{
				topic: n.topic.on(g.topology.application), of: n.of.topic.on(g.topology.application)})
			continue
		}
		if n.kind == sourceNode {
			s, err := n.read(g)
			if err != nil {
				return err
			}
			if n.parked != "" {
				if s.parking, err = g.newParking(n, &s); err != nil {
					return err
				}
			}
			if s.retries, err = g.newRetryTopics(n); err != nil {
				return err
			}
			g.sources = append(g.sources, s)
			continue
		}
		// A source makes the nodes behind it. The other nodes are behind outlets that their node
		// does not use.
		if err := n.instantiate(g); err != nil {
			return err
		}
	}
	if topic := g.topology.deadLetters; topic != "" {
		var err error
		if g.deadLetters, err = g.newDeadLetterSink(topic); err != nil {
			return err
		}
	}
	g.entries = nil
	g.prepareSchedules()
	return nil
}

// store returns the bytes of a declared store.
func (g *Graph) store(name string) (state.Bytes, error) {
	bytes := g.state.Store(name)
	if bytes == nil {
		return nil, fmt.Errorf("the State has no store %s", name)
	}
	return bytes, nil
}

// Process runs one record through the graph, depth first, and then the punctuations on stream time
// that it makes due. It returns the verdict about all of them. It marks a savepoint of the state
// first, and reverts to it unless the verdict is Accept. It never panics because of user code.
//
// A record whose key is parked is not processed: it joins those that wait, and the verdict is Park.
func (g *Graph) Process(in graph.Input) graph.Verdict {
	g.begin(&in)
	s := g.source(in.Topic)
	if s != nil && s.of != "" {
		return g.processDelayed(s)
	}
	if s != nil && s.parking != nil {
		if v, held := s.parking.hold(); held {
			return v
		}
	}
	g.run(s)
	return g.conclude()
}

// source returns what reads a topic, nil if nothing does.
func (g *Graph) source(topic string) *graphSource {
	for i := range g.sources {
		if g.sources[i].topic == topic {
			return &g.sources[i]
		}
	}
	return nil
}

// begin prepares the graph for a unit of work. It does not keep in, which is large, and so not
// passed by its value.
func (g *Graph) begin(in *graph.Input) {
	g.in, g.eventTime = *in, in.Timestamp
	g.in.Attempt = max(g.in.Attempt, 1)
	g.enter(Live)
	g.firing, g.released, g.unparkable = nil, nil, false
	g.failure, g.waited = nil, waitedRecord{}
	g.wrote = false
	g.outputs = g.outputs[:0]
	g.arena.reset()
	g.counts = g.counts[:0]
	if g.state != nil {
		g.state.Mark()
	}
}

// conclude turns what has become of the unit into a verdict.
func (g *Graph) conclude() graph.Verdict {
	if g.lent != nil && g.lent.end() {
		_ = g.fail(nil, Fail(Fatal, errViewChanged))
	}
	if g.failure == nil {
		g.collectCounts()
		return graph.Verdict{Action: graph.Accept, Outputs: g.outputs, Counts: g.counts, Wrote: g.wrote, EventTime: g.eventTime}
	}
	if g.state != nil {
		g.state.Revert()
	}
	g.outputs = g.outputs[:0]
	g.dropCounts()
	return g.judge()
}

// run passes the record to its source, nil if there is none, and fires what it has made due. The
// outcome is in g.failure.
func (g *Graph) run(s *graphSource) {
	defer g.endTurn()
	if s == nil || g.in.Partition != g.id.Partition {
		_ = g.fail(nil, Fail(Fatal, errWrongTask))
		return
	}
	_ = s.run() // whatever it returns is in g.failure
	if len(g.onStreamTime) > 0 && g.failure == nil {
		g.fireStreamTime()
	}
}

// endTurn is to be deferred. It takes the turn from the node that has it, and makes a panic its
// failure.
func (g *Graph) endTurn() {
	n := g.node
	g.node = nil
	if p := recover(); p != nil && g.failure == nil {
		_ = g.fail(n, newPanicError(p))
		g.failure.Stack = stack()
	}
}

// fail notes the failure of the unit, unless the unit has failed before: the first cause counts,
// and not the errors that callers make from it.
func (g *Graph) fail(n *node, err error) error {
	if g.failure == nil {
		g.failure = &Failure{Class: ClassOf(err), Err: err, Attempt: g.in.Attempt}
		g.blame = blame{node: n, punctuation: g.firing}
		if n != nil {
			g.failure.Node = n.name
		}
		if g.firing != nil {
			g.failure.Punctuation = g.firing.String()
		}
		g.failure.Waited = g.waited.String()
	}
	return g.failure
}

// misuse is the error of an Emit that was called outside of its node's turn.
func (g *Graph) misuse(n *node) error {
	err := Fail(Fatal, fmt.Errorf("node %s: %w", n.name, errEmitLate))
	if g.node == nil {
		return err
	}
	return g.fail(n, err)
}

// judge turns the failure into a verdict by the policy of its node.
func (g *Graph) judge() graph.Verdict {
	f := g.failure
	policy := g.policy()
	action := policy.at(g.in.Attempt)
	if action == Retry || action == Park || action == Delay {
		if v, done := g.again(f, policy); done {
			return v
		}
		action = DeadLetter // it cannot be kept
	}
	switch {
	case action == Stop:
		f.Note = fmt.Sprintf("the task stops because the policy of class %s is Stop", f.Class)
		if policy.Action != Stop {
			f.Note = fmt.Sprintf("the task stops because the policy of class %s says so after attempt %d", f.Class, g.in.Attempt)
		}
	case action != DeadLetter:
	case g.restores(g.in.Topic) && !g.blame.inherent:
		f.Note = noteRestores
		action = Stop
	case g.blame.punctuation != nil:
		f.Note = noteNoDeadLetter
		action = Stop
	case g.deadLetters == nil:
		f.Note = "the task stops because the topology has no dead-letter topic"
		action = Stop
	}
	if action == Stop {
		return graph.Verdict{Action: Stop, Failure: f}
	}
	if g.released != nil {
		if err := g.released.remove(); err != nil {
			return g.stop(err)
		}
	}
	g.outputs = append(g.outputs, g.deadLetter(f))
	g.counts = append(g.counts, graph.OutcomeCount{Node: f.Node, Outcome: deadLetterOutcomes[f.Class], N: 1})
	return graph.Verdict{Action: DeadLetter, Outputs: g.outputs, Counts: g.counts, Failure: f, Wrote: g.released != nil}
}

// policy returns the policy of the node that failed.
func (g *Graph) policy() Policy {
	class := g.failure.Class
	if n := g.blame.node; n != nil {
		if own, ok := n.policies[class]; ok {
			return own
		}
	}
	return g.topology.policies[class]
}

// again returns the verdict for a record, or a punctuation, that is to be tried again. It is false
// for one that cannot be parked or delayed.
func (g *Graph) again(f *Failure, policy Policy) (graph.Verdict, bool) {
	var pause time.Duration
	source := g.source(g.in.Topic)
	switch {
	case policy.Action != Delay:
		pause = policy.pause(g.in.Attempt)
	case source != nil && len(source.retries) > 0:
		pause = source.retry(g.in.Attempt).delay
	}
	switch {
	case g.unparkable && policy.Action != Retry:
		return graph.Verdict{}, false
	case g.released != nil:
		// One that was parked never holds up the others, and never overtakes one of its key,
		// whatever it fails with.
		return g.released.postpone(f, max(pause, time.Millisecond)), true
	case policy.Action == Retry:
		return graph.Verdict{Action: Retry, Failure: f, Backoff: pause}, true
	case g.blame.punctuation != nil:
		return graph.Verdict{}, false
	}
	switch {
	case policy.Action == Delay && source != nil && len(source.retries) > 0:
		return g.delay(source.retry(g.in.Attempt), f)
	case policy.Action == Park && source != nil && source.parking != nil:
		return source.parking.park(f, pause)
	}
	return graph.Verdict{}, false
}

// stop returns the verdict when the state of the graph itself has failed.
func (g *Graph) stop(err error) graph.Verdict {
	if g.state != nil {
		g.state.Revert()
	}
	g.dropCounts()
	g.outputs, g.counts = g.outputs[:0], g.counts[:0]
	return graph.Verdict{Action: Stop, Failure: &Failure{Class: ClassOf(err), Err: err, Attempt: g.in.Attempt}}
}

// deadLetterOutcomes are what a dead letter is counted as.
var deadLetterOutcomes = func() (outcomes [classes]string) {
	for c := Transient; c <= Fatal; c++ {
		outcomes[c] = "dead-letter-" + c.String()
	}
	return outcomes
}()

func (g *Graph) collectCounts() {
	for _, c := range g.touched {
		if c.n != 0 {
			g.counts = append(g.counts, graph.OutcomeCount{Node: c.node, Outcome: c.outcome, N: c.n})
		}
		c.n, c.touched = 0, false
	}
	g.touched = g.touched[:0]
}

func (g *Graph) dropCounts() {
	for _, c := range g.touched {
		c.n, c.touched = 0, false
	}
	g.touched = g.touched[:0]
}
