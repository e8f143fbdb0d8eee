package topology

import (
	"encoding/binary"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

const (
	// closedOutlet is the name of the outlet of [WindowedTable.Closed].
	closedOutlet = "closed"
	// closingSuffix makes the name of the store that it needs.
	closingSuffix = "-closing"
)

// closing is what is declared of the closing of windows or sessions.
type closing[K, V any] struct {
	node *node
	// name, key and value are those of the store of the aggregation.
	name  string
	key   schemas.Codec[K]
	value schemas.Codec[V]
	// port is nil if nothing asks for what has closed.
	port *port[Windowed[K], V]
}

// stream returns the stream of what has closed. Its first use declares the outlet and the index.
func (x *closing[K, V]) stream(b *Builder) Stream[Windowed[K], V] {
	if b.closed {
		return Stream[Windowed[K], V]{b: b, port: addPort[Windowed[K], V](b, x.node, closedOutlet)}
	}
	if x.port == nil {
		x.port = addPort[Windowed[K], V](b, x.node, closedOutlet)
		b.addStore(x.node, x.index())
	}
	return Stream[Windowed[K], V]{b: b, port: x.port}
}

// index describes the store of the windows or sessions that are open. A row begins with the time by
// which they close, so that those which are over come first. The store of the aggregation is in the
// order of the keys, and a scan for what is over would read all that is open. The value is empty
// for a window with a record that was live, and otherwise the name of a mode.
func (x *closing[K, V]) index() Store[state.KeyValue[[]byte, []byte]] {
	return KeyValueStore(x.name+closingSuffix, schemas.Bytes(), schemas.Bytes())
}

// open returns the index for the node that t prepares.
func (x *closing[K, V]) open(t *Setup) openIndex[K, V] {
	next, err := link(t.graph, x.port)
	if err != nil {
		t.errs = append(t.errs, err)
	}
	bytes, _, _ := watch(t, x.index().name, schemas.Bytes(), schemas.Bytes())
	_, key, _ := watch(t, x.name, x.key, x.value)
	return openIndex[K, V]{index: bytes, key: key, next: next}
}

// openIndex is the index in a graph, with where to pass on what closes.
type openIndex[K, V any] struct {
	index state.Bytes
	key   state.Codec[K]
	next  Emit[Windowed[K], V]
	// row is the buffer of keys of the index.
	row []byte
}

// timesBetween is the range of the rows of an index with times from from on and before to. Neither
// is negative.
func timesBetween(from, to int64) state.Range {
	bounds := binary.BigEndian.AppendUint64(make([]byte, 0, 2*startBytes), uint64(from))
	bounds = binary.BigEndian.AppendUint64(bounds, uint64(to))
	return state.Range{From: bounds[:startBytes:startBytes], To: bounds[startBytes:]}
}

const (
	errShortIndex = schemas.Reason("a row of the store of what is open is too short")
	errIndexMode  = schemas.Reason("a row of a store of what waits has no mode that a record can have")
)

// emitAs passes on a record that is made of records of the past, such as the value that a window
// ends with, or a record of a join that has waited. mode is that of the record, and empty for a
// live one.
func emitAs[K, V any](c *Context, mode []byte, next Emit[K, V], key K, value V, ms int64) error {
	return emitRecordAs(c, mode, next, Record[K, V]{Key: key, Value: value, Timestamp: ms, Headers: []Header{}})
}

// emitRecordAs is emitAs for a record with headers.
func emitRecordAs[K, V any](c *Context, mode []byte, next Emit[K, V], r Record[K, V]) error {
	own := Live
	if len(mode) > 0 {
		var err error
		if own, err = ParseMode(string(mode)); err != nil {
			return Fail(Corruption, errIndexMode)
		}
	}
	o := c.graph.newOrigin()
	*o = origin{streamTime: o.streamTime}
	r.origin = o
	return c.graph.inMode(own, func() error { return next(c, r) })
}
