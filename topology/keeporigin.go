package topology

import (
	"bytes"
	"math"
	"strconv"
)

// KeepOrigin has the records of a repartition topic say where they come from, so that [Record.Source] and [Record.AppendTime] are behind
// the topic what they were in front of it, through any number of such topics. Without it a record behind the topic comes from there, which
// tells nobody anything once the topic is purged.
//
// So evidence about the record (package processors/evidence) names the record of the input, and so does its dead letter
// ([DeadLetterInfo.Source]), beside where the record died, which is in the topic: there a redrive writes it, and [Context.Source] is the
// position there. Of several records that were made of one, each has the Source of that one. A record that comes from none, of a
// punctuation or of a window that has closed, has none behind the topic either.
//
// It costs a header for each record ([HeaderSource]): its key, and the position as text, about 40 bytes before compression. User code does
// not see it, and outputs do not have it. A record that is too large for the topic with it is refused, as every record is that is too large.
//
// The option may be given and taken away while records are in the topic, because each of them is read by what it says itself. Builds that
// do not know it take the header for one of the record's own: give it once all instances are replaced.
func KeepOrigin() RepartitionOption {
	return repartitionOption(func(ref *topicRef) error {
		ref.keepsOrigin = true
		return nil
	})
}

// keepsOriginClause is what a source with [KeepOrigin] says for the consumer contract.
const keepsOriginClause = "the dead letter of a record behind this topic names the record of the input that it comes from"

// withSource returns the headers of a record for a repartition topic: with its origin, if that is kept there. What user code has under the
// name of that header is left out, whether it is kept or not: behind the topic it would pass for the origin.
func (g *Graph) withSource(headers []Header, o *origin, keep bool) []Header {
	headers = withoutHeader(headers, HeaderSource)
	if !keep {
		return headers
	}
	n := len(headers)
	out := g.newHeaders(n + 1)
	copy(out, headers)
	out[n] = Header{Key: HeaderSource, Value: g.arena.keep(appendSource(g.arena.room(), o))}
	return out
}

// appendSource writes the header: topic, partition and offset, and the time at which the broker appended the record if it is known. It is
// empty for a record that comes from none.
func appendSource(b []byte, o *origin) []byte {
	if o == nil || o.topic == "" {
		return b
	}
	b = append(append(b, o.topic...), ' ')
	b = append(strconv.AppendInt(b, int64(o.partition), 10), ' ')
	b = strconv.AppendInt(b, o.offset, 10)
	if o.appended > 0 && o.appended <= appendTimeMax {
		b = strconv.AppendInt(append(b, ' '), o.appended, 10)
	}
	return b
}

// parseSource reads what appendSource has written. Anybody who may write to the topic can write the header: ok is false for what is no
// position. A topic that is known already costs no memory.
func parseSource(text []byte, known string) (o origin, ok bool) {
	if len(text) == 0 {
		return origin{}, true
	}
	space := []byte{' '}
	topic, rest, _ := bytes.Cut(text, space)
	partition, rest, _ := bytes.Cut(rest, space)
	offset, appended, timed := bytes.Cut(rest, space)
	if o.topic = known; known == "" || string(topic) != known {
		if o.topic = string(topic); checkTopicName(o.topic) != nil {
			return origin{}, false
		}
	}
	n, ok := sourceNumber(partition, 0, math.MaxInt32)
	o.partition = int32(n)
	if ok {
		o.offset, ok = sourceNumber(offset, 0, math.MaxInt64)
	}
	if ok && timed {
		o.appended, ok = sourceNumber(appended, 1, appendTimeMax)
	}
	if !ok {
		return origin{}, false
	}
	return o, true
}

const (
	// appendTimeMax is the end of the year 9999, in milliseconds since the epoch: what is later cannot be shown as a time.
	appendTimeMax = 253402300799999
	// sourceDigitsMax bounds the numbers, and with them the header, which dead letters have too.
	sourceDigitsMax = len("9223372036854775807")
)

func sourceNumber(text []byte, least, most int64) (int64, bool) {
	if len(text) > sourceDigitsMax {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil && n >= least && n <= most
}

// takeSource makes o what the record at work says of where it comes from, if it does. Otherwise it comes from the repartition topic: it
// was written without [KeepOrigin], or by somebody else.
func (x *intake[K, V]) takeSource(o *origin) {
	headers := x.graph.in.Headers
	i := lastHeader(headers, HeaderSource)
	if i < 0 {
		return
	}
	if source, ok := parseSource(headers[i].Value, x.source); ok {
		if source.topic != "" {
			x.source = source.topic
		}
		source.streamTime = o.streamTime
		*o = source
	}
}

// sourceHeader returns the header of the record at work for its dead letter; ok is false if it has none that counts. That of a record
// which has died here before counts wherever the record was redriven to, and otherwise only that of a repartition topic.
func (g *Graph) sourceHeader(again bool) (h Header, ok bool) {
	s := g.source(g.in.Topic)
	if !again && (s == nil || !s.internal) {
		return h, false
	}
	i := lastHeader(g.in.Headers, HeaderSource)
	if i < 0 {
		return h, false
	}
	h = g.in.Headers[i]
	_, ok = parseSource(h.Value, "")
	return h, ok
}
