package topology

// Deferred is the data that a node stores of a deferred record, beside key, value, timestamp and
// headers, to resume the same record later: see [Resume].
type Deferred struct {
	// Topic, Partition and Offset are those of [Record.Source].
	Topic     string
	Partition int32
	Offset    int64
	// Mode is the one that the record has by itself. The headers do not always tell it: those of a
	// closed window do not, and user code can leave them out. An application that is not Live adds
	// its own mode, now as later.
	Mode Mode
}

// DeferredOf returns the data to store of r, which the node of c handles and defers.
func DeferredOf[K, V any](c *Context, r Record[K, V]) Deferred {
	d := Deferred{Mode: c.graph.ownMode}
	d.Topic, d.Partition, d.Offset = r.Source()
	return d
}

// Resume calls f with a record that the node of c has deferred: with r, the record as it came, at
// the position that d says. Its stream time is the present one. f, and the nodes behind its emits,
// run in the mode of that record, whatever the mode of the record at work, or of the punctuation,
// is. A record that f builds from nothing inherits from the deferred record, and a [FixedKeyOutlet]
// emits under its key. Its append time is unknown.
//
// The call belongs to the unit at work: attempts are counted for that unit, and an error of f is
// its failure; see [Context.Try].
func Resume[K, V any](c *Context, r Record[K, V], d Deferred, f func(r Record[K, V]) error) error {
	g := c.graph
	r.origin = g.newOrigin()
	*r.origin = origin{topic: d.Topic, partition: d.Partition, offset: d.Offset, streamTime: g.in.StreamTime}
	if s := g.scopes[g.node]; s != nil {
		before := *s
		defer func() { *s = before }()
		*s = scopeOf(&r)
		if before.key != nil {
			key := r.Key
			s.key = &key
		}
	}
	defer func(before bool) { g.resumed = before }(g.resumed)
	g.resumed = true
	return g.inMode(d.Mode, func() error { return f(r) })
}

// Source returns the position of the record at work, as [Record.Source] does: its topic on the
// cluster, partition and offset. Behind a [Stream.Repartition] it is the position in the internal
// topic, also if the record keeps its origin ([KeepOrigin]). While a deferred record is resumed
// ([Resume]), it is the position of the record that caused the resume. It is zero in every
// punctuation, also in one that a record has fired.
func (c *Context) Source() (topic string, partition int32, offset int64) {
	in := &c.graph.in
	if c.graph.firing != nil {
		return "", 0, 0
	}
	return in.Topic, in.Partition, in.Offset
}

// Resumed reports whether the node handles a deferred record, and not the one at work: see
// [Resume].
func (c *Context) Resumed() bool { return c.graph.resumed }
