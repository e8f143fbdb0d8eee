package topology

import "github.com/onceward/onceward/topology/graph"

// KeepOrigin makes the records of a repartition topic carry their origin: [Record.Source] and
// [Record.AppendTime] are the same before and behind the topic, through any number of such topics.
// Without it the Source of a record behind the topic is its position there, which is useless after
// the topic is purged.
//
// With KeepOrigin, evidence about the record (package processors/evidence) names the input record.
// So does its dead letter ([graph.DeadLetterInfo.Source]), beside the position in the topic at
// which the record failed. A redrive writes to that topic, and [Context.Source] is the position
// there. All records that were made from one record have the Source of that record. A record of a
// punctuation or of a closed window has no Source, also behind the topic.
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

// withSource returns the headers of a record for a repartition topic, with its origin if keep is
// set. It always removes a header of that name that user code has set: behind the topic it would
// pass for the origin.
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

// sourceOf returns the origin for the header; o may be nil.
func sourceOf(o *origin) (s graph.DeadLetterSource) {
	if o != nil {
		s = graph.DeadLetterSource{Topic: o.topic, Partition: o.partition, Offset: o.offset, AppendTime: o.appended}
	}
	return s
}

// takeSource sets o to the origin that the headers of the record at work contain. Without such a
// header, o stays the position in the repartition topic: the record was written without
// [KeepOrigin] or by another program.
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
