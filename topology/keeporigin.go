package topology

import "github.com/onceward/onceward/topology/graph"

// KeepOrigin has the records of a repartition topic say where they come from, so that
// [Record.Source] and [Record.AppendTime] are behind the topic what they were in front of it,
// through any number of such topics. Without it a record behind the topic comes from there, which
// tells nobody anything once the topic is purged.
//
// So evidence about the record (package processors/evidence) names the record of the input, and so
// does its dead letter ([graph.DeadLetterInfo.Source]), beside where the record died, which is in
// the topic: there a redrive writes it, and [Context.Source] is the position there. Of several
// records that were made of one, each has the Source of that one. A record that comes from none, of
// a punctuation or of a window that has closed, has none behind the topic either.
//
// It costs a header for each record ([graph.HeaderSource]): its key, and the position as text,
// about 40 bytes before compression. User code does not see it, and outputs do not have it. A
// record that is too large for the topic with it is refused, as every record is that is too large.
//
// The option may be given and taken away while records are in the topic, because each of them is
// read by what it says itself. Builds that do not know it take the header for one of the record's
// own: give it once all instances are replaced.
func KeepOrigin() RepartitionOption {
	return repartitionOption(func(ref *topicRef) error {
		ref.keepsOrigin = true
		return nil
	})
}

// keepsOriginClause is what a source with [KeepOrigin] says for the consumer contract.
const keepsOriginClause = "the dead letter of a record behind this topic names the record of the input that it comes from"

// withSource returns the headers of a record for a repartition topic: with its origin, if that is
// kept there. What user code has under the name of that header is left out, whether it is kept or
// not: behind the topic it would pass for the origin.
func (g *Graph) withSource(headers []Header, o *origin, keep bool) []Header {
	headers = withoutHeader(headers, graph.HeaderSource)
	if !keep {
		return headers
	}
	n := len(headers)
	out := g.newHeaders(n + 1)
	copy(out, headers)
	out[n] = Header{Key: graph.HeaderSource, Value: g.arena.keep(sourceOf(o).Append(g.arena.room()))}
	return out
}

// sourceOf returns what the header says of an origin, which may be nil.
func sourceOf(o *origin) (s graph.DeadLetterSource) {
	if o != nil {
		s = graph.DeadLetterSource{Topic: o.topic, Partition: o.partition, Offset: o.offset, AppendTime: o.appended}
	}
	return s
}

// takeSource makes o what the record at work says of where it comes from, if it does. Otherwise it
// comes from the repartition topic: it was written without [KeepOrigin], or by somebody else.
func (x *intake[K, V]) takeSource(o *origin) {
	headers := x.graph.in.Headers
	i := lastHeader(headers, graph.HeaderSource)
	if i < 0 {
		return
	}
	if s, ok := graph.ParseDeadLetterSource(headers[i].Value, x.source); ok {
		if s.Topic != "" {
			x.source = s.Topic
		}
		*o = origin{topic: s.Topic, partition: s.Partition, offset: s.Offset, streamTime: o.streamTime, appended: s.AppendTime}
	}
}

// sourceHeader returns the header of the record at work for its dead letter; ok is false if it has
// none that counts. That of a record which has died here before counts wherever the record was
// redriven to, and otherwise only that of a repartition topic.
func (g *Graph) sourceHeader(again bool) (h Header, ok bool) {
	s := g.source(g.in.Topic)
	if !again && (s == nil || !s.internal) {
		return h, false
	}
	i := lastHeader(g.in.Headers, graph.HeaderSource)
	if i < 0 {
		return h, false
	}
	h = g.in.Headers[i]
	_, ok = graph.ParseDeadLetterSource(h.Value, "")
	return h, ok
}
