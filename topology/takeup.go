package topology

// Kept is the data that a node stores of a deferred record, beside key, value, timestamp and
// headers, to resume the same record later: see [TakeUp].
type Kept struct {
	// Topic, Partition and Offset are those of [Record.Source].
	Topic     string
	Partition int32
	Offset    int64
	// Mode is the one that the record has by itself. The headers do not always tell it: those of a
	// closed window do not, and user code can leave them out. An application that is not Live adds
	// its own mode, now as later.
	Mode Mode
}

// Keep returns the data to store of r, which the node of c handles.
func Keep[K, V any](c *Context, r Record[K, V]) Kept {
	k := Kept{Mode: c.graph.ownMode}
	k.Topic, k.Partition, k.Offset = r.Source()
	return k
}

// TakeUp calls f with a record that the node of c has kept back. It is r, the record as it came,
// with the position that k says; its stream time is that of now. f, and the nodes behind its emits,
// run in the mode of that record, whatever the mode of the record at work, or of the punctuation,
// is. A record that f builds from nothing takes after it, and a [FixedKeyOutlet] emits under its
// key. The append time is not known meanwhile.
//
// It is still a part of the unit at work, whose attempts these are, and whose failure it is if f
// fails; see [Context.Try].
func TakeUp[K, V any](c *Context, r Record[K, V], k Kept, f func(r Record[K, V]) error) error {
	g := c.graph
	r.origin = g.newOrigin()
	*r.origin = origin{topic: k.Topic, partition: k.Partition, offset: k.Offset, streamTime: g.in.StreamTime}
	if s := g.scopes[g.node]; s != nil {
		before := *s
		defer func() { *s = before }()
		*s = scopeOf(&r)
		if before.key != nil {
			key := r.Key
			s.key = &key
		}
	}
	defer func(before bool) { g.takenUp = before }(g.takenUp)
	g.takenUp = true
	return g.inMode(k.Mode, func() error { return f(r) })
}

// Source returns the position of the record at work, as [Record.Source] does: its topic on the
// cluster, partition and offset. Behind a [Stream.Repartition] it is the position in the internal
// topic, also if the record keeps its origin ([KeepOrigin]). While a deferred record is resumed
// ([TakeUp]), it is the position of the record that caused the resume. It is zero in every
// punctuation, also in one that a record has fired.
func (c *Context) Source() (topic string, partition int32, offset int64) {
	in := &c.graph.in
	if c.graph.firing != nil {
		return "", 0, 0
	}
	return in.Topic, in.Partition, in.Offset
}

// TakenUp reports whether the node handles a deferred record, and not the one at work: see
// [TakeUp].
func (c *Context) TakenUp() bool { return c.graph.takenUp }
