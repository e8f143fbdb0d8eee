package topology

// FixedKeyRecord is a record without its key: what a node emits at a [FixedKeyOutlet]. A field that
// is left out is inherited as in a [Record] that is built from nothing: the timestamp if Timestamp
// is 0, the headers if Headers is nil.
type FixedKeyRecord[V any] struct {
	Value V
	// Timestamp is the event time in milliseconds since the epoch.
	Timestamp int64
	Headers   []Header
}

// FixedKey returns the record with that value which inherits timestamp and headers.
func FixedKey[V any](value V) FixedKeyRecord[V] { return FixedKeyRecord[V]{Value: value} }

// EmitFixedKey passes a record on under the key of the record that its node handles. The error is
// that of an [Emit].
type EmitFixedKey[V any] func(c *Context, r FixedKeyRecord[V]) error

// FixedKeyOutletOf is an outlet of a node, under the key of the record that the node handles.
type FixedKeyOutletOf[K, V any] struct {
	outlet OutletOf[K, V]
	// rekeyed is that of the stream that the node gets.
	rekeyed *node
}

// FixedKeyOutlet adds an outlet to node where the key of a record cannot change: an emitted record
// has no key of its own. So its stream is partitioned as the stream that the node gets, and
// operators that keep state by key take it without a [Stream.Repartition]. A node can have such
// outlets beside those of [Outlet].
//
// The key is that of the record at work, or of the deferred record that is resumed ([Resume]). A
// punctuation handles no record: to emit there is a Fatal failure. Bytes that a key refers to are
// shared, and must not be modified.
func FixedKeyOutlet[V2, K, V any](node *Node[K, V], name string) FixedKeyOutletOf[K, V2] {
	node.b.claimOutlet(node.node, name, caller())
	return FixedKeyOutletOf[K, V2]{
		outlet: OutletOf[K, V2]{b: node.b, port: addPort[K, V2](node.b, node.node, name)}, rekeyed: node.input,
	}
}

// Stream returns the stream of what leaves the node there.
func (o FixedKeyOutletOf[K, V]) Stream() Stream[K, V] {
	return Stream[K, V]{b: o.outlet.b, port: o.outlet.port, rekeyed: o.rekeyed}
}

// Connected is [OutletOf.Connected].
func (o FixedKeyOutletOf[K, V]) Connected() bool { return o.outlet.Connected() }

// In returns the function that emits a record there, for the handler of the node that t prepares.
// It works while the node handles a record, and at no other time.
func (o FixedKeyOutletOf[K, V]) In(t *Setup) EmitFixedKey[V] {
	emit := o.outlet.In(t)
	if t.scope.key == nil {
		t.scope.key = new(K)
	}
	g, n, scope := t.graph, t.node, t.scope
	return func(c *Context, r FixedKeyRecord[V]) error {
		if g.node != n {
			return g.misuse(n)
		}
		key, ok := scope.key.(*K)
		if !ok || g.firing != nil && g.firing.node == n && !g.resumed {
			return g.fail(n, Fail(Fatal, errNoKey))
		}
		return emit(c, Record[K, V]{Key: *key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers})
	}
}

// ProcessValues is [Process] for a function that cannot change the key: what it emits has the key
// of r. Operators that keep state by key take its stream without a [Stream.Repartition], if they
// take s.
func ProcessValues[K, V, S, V2 any](
	s Stream[K, V], name string, store Store[S],
	f func(c *Context, store S, r Record[K, V], emit EmitFixedKey[V2]) error,
) Stream[K, V2] {
	n := Stateful(s, name, store)
	out := FixedKeyOutlet[V2](n, outOutlet)
	if f == nil {
		n.Mistake(errNilFunc)
	}
	n.Process(func(t *Setup) (Handler[K, V], error) {
		rows, emit := store.In(t), out.In(t)
		return func(c *Context, r Record[K, V]) error { return f(c, rows, r, emit) }, nil
	})
	return out.Stream()
}
