package topology

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Handler processes one record. Its state must be in stores only: undoing a failed record undoes
// store writes, and a record may be processed again after an abort. A panic is recovered and is a
// Poison failure.
//
// The handler runs on the task's goroutine and must not pass c, the stores or an Emit to another
// one.
type Handler[K, V any] func(c *Context, r Record[K, V]) error

// Node is a processor node: user code with stores, counters and any number of typed outlets. It is
// declared in three steps:
//
//	node := topology.Stateful(events, "inbox", seen)
//	accepted := topology.Outlet[string, Event](node, "accepted")
//	node.Process(func(t *topology.Setup) (topology.Handler[string, Event], error) {
//		seen, emit := seen.In(t), accepted.In(t)
//		return func(c *topology.Context, r topology.Record[string, Event]) error { ... }, nil
//	})
type Node[K, V any] struct {
	b       *Builder
	node    *node
	factory func(t *Setup) (Handler[K, V], error)
	// input is the node that has changed the keys of the input stream, nil if none has.
	input *node
}

// Stateful declares a node that gets the records of s and uses the given stores, if any. Nodes that
// name the same store share it, and so become part of one subtopology. Only the node knows whether
// its rows belong to the key of its records. If so, call [Node.Keyed]: Build then checks that a key
// is in one task.
//
// An [Outlet] can emit a record under any key, so what leaves there has to be repartitioned before
// state is kept by its key. A [FixedKeyOutlet] cannot change the key.
func Stateful[K, V any](s Stream[K, V], name string, stores ...AnyStore) *Node[K, V] {
	b := s.builder("Stateful(" + name + ")")
	n := &node{
		kind: processorNode, name: name, pos: caller(), incomplete: "the node has no Process function",
	}
	n.rekeyed = n
	declared := &Node[K, V]{b: b, node: b.add(n, nil), input: s.rekeyed}
	for _, store := range stores {
		if store == nil {
			b.mistakeAt(n.pos, name, errors.New("a store is nil"))
			continue
		}
		b.addOwnStore(n, store)
	}
	connect(b, s.port, n, once(n, declared.build))
	return declared
}

// Process sets the code of the node. The factory runs once for each task that is opened, before its
// first record. It fetches stores, outlets and counters from t and returns the handler. If it
// returns an error or panics, the task does not open.
func (n *Node[K, V]) Process(factory func(t *Setup) (Handler[K, V], error)) {
	pos := caller()
	switch {
	case n.b.closed:
		n.b.mistakeAt(pos, n.node.name, errClosed)
		return
	case factory == nil:
		n.b.mistakeAt(pos, n.node.name, errNilFunc)
	case n.factory != nil:
		n.b.mistakeAt(pos, n.node.name, errors.New("Process is called twice"))
	}
	n.factory = factory
	n.node.incomplete = ""
}

// OnError sets the node's reaction to errors of class, and returns n.
func (n *Node[K, V]) OnError(class Class, policy Policy) *Node[K, V] {
	OnError(class, policy).applyNode(n.b, n.node)
	return n
}

// Mistake notes err as a mistake in the declaration of n, for Build to report; nil is no mistake.
// It is for packages of processors that check options of their own.
func (n *Node[K, V]) Mistake(err error) {
	if err != nil {
		n.b.mistakeAt(n.node.pos, n.node.name, err)
	}
}

// Check makes Build call f once everything is declared. Build reports the error of f as a mistake
// in the declaration of n; nil is no mistake. It is for packages of processors: whether an outlet
// is used ([OutletOf.Connected]) is known only then.
func (n *Node[K, V]) Check(f func() error) {
	switch {
	case n.b.closed:
		n.b.mistakeAt(caller(), n.node.name, errClosed)
	case f == nil:
		n.Mistake(errNilFunc)
	default:
		n.node.checks = append(n.node.checks, f)
	}
}

func (n *Node[K, V]) build(g *Graph) (Emit[K, V], error) {
	t := g.newSetup(n.node)
	handler, err := n.setUp(t)
	if err != nil {
		return nil, err
	}
	fixed, ok := t.scope.key.(*K)
	if !ok {
		return guard(g, n.node, func(c *Context, r Record[K, V]) error {
			*t.scope = scopeOf(&r)
			return handler(c, r)
		}), nil
	}
	return guard(g, n.node, func(c *Context, r Record[K, V]) error {
		*t.scope = scopeOf(&r)
		*fixed, t.scope.key = r.Key, fixed
		return handler(c, r)
	}), nil
}

func (n *Node[K, V]) setUp(t *Setup) (handler Handler[K, V], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("node %s: the factory given to Process: %w\n%s",
				n.node.name, newPanicError(p), stack())
		}
	}()
	handler, err = n.factory(t)
	t.done = true
	if err == nil && handler == nil {
		err = errors.New("the handler is nil")
	}
	if err = errors.Join(append(t.errs, err)...); err != nil {
		return nil, fmt.Errorf("node %s: the factory given to Process: %w", n.node.name, err)
	}
	return handler, nil
}

// OutletOf is a named output of a node, with the types of its records.
type OutletOf[K, V any] struct {
	b    *Builder
	port *port[K, V]
}

// Outlet adds an outlet to node. A node without outlets is an end of the topology. A record that
// leaves there may have any key, and counts as rekeyed: see [FixedKeyOutlet] and
// [Node.Copartitioned].
func Outlet[K2, V2, K, V any](node *Node[K, V], name string) OutletOf[K2, V2] {
	node.b.claimOutlet(node.node, name, caller())
	return OutletOf[K2, V2]{b: node.b, port: addPort[K2, V2](node.b, node.node, name)}
}

// Stream returns the stream of the outlet's records.
func (o OutletOf[K, V]) Stream() Stream[K, V] {
	s := Stream[K, V]{b: o.b, port: o.port}
	if o.port != nil {
		s.rekeyed = o.port.node.rekeyed
	}
	return s
}

// Connected reports whether the stream is used. The answer is final once the topology is built, so
// the factory of Process and [Node.Check] can ask. While the topology is being declared the answer
// can still become true. A node can use it to save work. It must not decide about records: an
// option of the node does that, and Check compares the option with the use.
func (o OutletOf[K, V]) Connected() bool { return o.port != nil && len(o.port.children) > 0 }

// In returns the function that emits a record to the outlet, for the handler and the punctuators of
// the node that t prepares. It works only while the node handles a record or a punctuation.
func (o OutletOf[K, V]) In(t *Setup) Emit[K, V] {
	fail := func(err error) Emit[K, V] {
		t.errs = append(t.errs, err)
		return func(*Context, Record[K, V]) error { return err }
	}
	if o.port == nil || o.port.node != t.node {
		return fail(fmt.Errorf("node %s uses an outlet of another node; an outlet belongs to the node that "+
			"declares it", t.node.name))
	}
	next, err := link(t.graph, o.port)
	if err != nil {
		return fail(err)
	}
	return emitFrom(t.graph, t.node, t.scope, next)
}

// Setup gives the factory of a node its stores, outlets and counters, and takes its schedules
// ([Setup.OnStreamTime], [Setup.OnWallClock]). Do not use it after the factory has returned.
type Setup struct {
	graph *Graph
	node  *node
	scope *scope
	errs  []error
	// done says that the factory has returned.
	done bool
}

func (g *Graph) newSetup(n *node) *Setup {
	t := &Setup{graph: g, node: n, scope: &scope{}}
	g.scopes[n] = t.scope
	return t
}

// Node returns the name of the node.
func (t *Setup) Node() string { return t.node.name }

// Task returns the task that is opened.
func (t *Setup) Task() graph.TaskID { return t.graph.id }

// Application returns the application id.
func (t *Setup) Application() string { return t.graph.topology.application }

// Fingerprint returns the fingerprint of the topology, which stands for the version of the program.
func (t *Setup) Fingerprint() string { return t.graph.topology.fingerprint }

// Counter returns a counter of an outcome of the node. Counts are part of the record or the
// punctuation: they are published when the round that contains it is applied, and dropped when it
// fails.
func (t *Setup) Counter(outcome string) *Counter {
	if err := graph.CheckName(outcome); err != nil {
		t.errs = append(t.errs, fmt.Errorf("name of a counter: %w", err))
	}
	return &Counter{graph: t.graph, node: t.node.name, outcome: outcome}
}

func (t *Setup) store(name string) (state.Bytes, state.Layout, error) {
	for _, s := range t.node.stores {
		if s.name == name {
			bytes, err := t.graph.store(name)
			return bytes, s.layout, err
		}
	}
	for _, s := range t.node.globals {
		if s.name == name {
			bytes, err := t.graph.globalStore(name)
			return bytes, s.layout, err
		}
	}
	return nil, state.Layout{}, fmt.Errorf("store %s is not declared by node %s; name it in Stateful", name, t.node.name)
}

// Counter counts one outcome of a node. It belongs to its task.
type Counter struct {
	graph   *Graph
	node    string
	outcome string
	n       int64
	touched bool
}

// Add adds n to the count of the record or the punctuation.
func (c *Counter) Add(n int64) {
	c.n += n
	if !c.touched {
		c.touched = true
		c.graph.touched = append(c.graph.touched, c)
	}
}

// Inc is Add(1).
func (c *Counter) Inc() { c.Add(1) }

// Context is the task and the record, or the punctuation, at work. It belongs to the task and is
// the same for every record.
type Context struct{ graph *Graph }

// Task returns the task.
func (c *Context) Task() graph.TaskID { return c.graph.id }

// Application returns the application id.
func (c *Context) Application() string { return c.graph.topology.application }

// Attempt returns how often the record has been tried, this time included. A punctuation on stream
// time has the attempts of its record, because the two are tried together. A wall-clock punctuation
// has its own.
func (c *Context) Attempt() int { return c.graph.in.Attempt }

// StreamTime returns the task's stream time in milliseconds since the epoch: the largest timestamp
// so far, including the record at work. It is [state.NoTime] in a wall-clock punctuation before the
// first record. Expiry follows stream time, and never a clock, so that a replay gives the same
// state.
func (c *Context) StreamTime() int64 { return c.graph.in.StreamTime }

// AppendTime returns when the broker appended the record at work to its topic, in milliseconds
// since the epoch. It is false if that is unknown: for topics with timestamps of the producers
// (message.timestamp.type=CreateTime), in a punctuation, and for a deferred record ([Resume]).
func (c *Context) AppendTime() (ms int64, ok bool) {
	in := &c.graph.in
	if c.graph.firing != nil || c.graph.resumed || in.TimestampType != graph.LogAppendTime {
		return 0, false
	}
	return in.Timestamp, true
}

// Process is the short form of a node with one store, of any kind, and one outlet: f handles a
// record and emits what it likes, under any key. [ProcessValues] is the form that keeps the key,
// and needs no [Stream.Repartition] behind it.
func Process[K, V, S, K2, V2 any](
	s Stream[K, V], name string, store Store[S],
	f func(c *Context, store S, r Record[K, V], emit Emit[K2, V2]) error,
) Stream[K2, V2] {
	n := Stateful(s, name, store)
	out := Outlet[K2, V2](n, outOutlet)
	if f == nil {
		n.Mistake(errNilFunc)
	}
	n.Process(func(t *Setup) (Handler[K, V], error) {
		rows, emit := store.In(t), out.In(t)
		return func(c *Context, r Record[K, V]) error { return f(c, rows, r, emit) }, nil
	})
	return out.Stream()
}

// outOutlet is the name of the only outlet of the short form.
const outOutlet = "out"
