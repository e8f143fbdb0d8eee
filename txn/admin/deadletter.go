package admin

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// The headers of a mark:
//
//   - HeaderRedriven names the dead letter as id/deaths/topic-partition@offset, with the position
//     of the last death. Marks of older builds have id/deaths only, and are read too.
//   - HeaderRedrivenAt is the time in RFC 3339.
//   - HeaderRedrivenTo is the target as topic-partition.
const (
	HeaderRedriven   = graph.HeaderRedriven
	HeaderRedrivenAt = graph.HeaderRedrivenAt
	HeaderRedrivenTo = graph.HeaderRedrivenTo
)

// DeadLetter is one dead letter in its newest edition.
type DeadLetter struct {
	graph.DeadLetterInfo
	// Partition and Offset are where the newest edition is in the dead-letter topic.
	Partition int32
	Offset    int64
	// Timestamp is that of the newest edition in the dead-letter topic. It is the record's own,
	// with two exceptions: the topic has the broker's time (message.timestamp.type=LogAppendTime),
	// or it refuses the record's own. LastTimestamp is always the record's own.
	Timestamp time.Time
	// Key, Value and Headers are the record's own; Headers are without those of the dead letter.
	Key, Value []byte
	Headers    []Header
	// To is where a redrive writes the record: the topic and the partition in which it died last.
	To TopicPartition
	// Redriven is when the dead letter was redriven, zero if it was not.
	Redriven time.Time

	// identity is the same for all editions.
	identity letterKey
	// about are the headers of the dead letter.
	about []Header
	// appended says that Timestamp is the broker's.
	appended bool
	// rekeyed says that an edition has another key than the record that died.
	rekeyed bool
}

// OwnKey returns the key that the record has for the application. That is Key, unless the record
// died in an internal topic that has another key ([graph.HeaderOwnKey]). SetOwnKey changes it.
func (l *DeadLetter) OwnKey() []byte {
	if i := l.lastHeader(graph.HeaderOwnKey); i >= 0 {
		return l.Headers[i].Value
	}
	return l.Key
}

// SetOwnKey changes the key that OwnKey returns, for [DeadLetters.Edit]. The key in an internal
// topic stays.
func (l *DeadLetter) SetOwnKey(key []byte) {
	if i := l.lastHeader(graph.HeaderOwnKey); i >= 0 {
		l.Headers = slices.Clone(l.Headers) // a copy of the dead letter may share them
		l.Headers[i].Value = key
		return
	}
	l.Key = key
}

// inReplay reports whether the record died in mode topology.Replay.
func (l *DeadLetter) inReplay() bool {
	i := l.lastHeader(topology.HeaderMode)
	return i >= 0 && string(l.Headers[i].Value) == topology.Replay.String()
}

// lastHeader returns the index of the header of that name that counts, the last one, or -1.
func (l *DeadLetter) lastHeader(name string) int {
	for i, h := range slices.Backward(l.Headers) {
		if h.Key == name {
			return i
		}
	}
	return -1
}

// RecordTime returns the timestamp that the record had when it died last. A redrive writes it
// again.
//
// Dead letters of older builds do not have it if their own timestamp is another one: that of the
// broker, or the time of the failure if the topic refused the record's. Then RecordTime is the
// timestamp at the first death. It is wrong if a redrive has changed it since.
func (l *DeadLetter) RecordTime() time.Time {
	switch {
	case l.LastTimestamp != state.NoTime:
		return time.UnixMilli(l.LastTimestamp)
	case l.appended, l.Timestamp.UnixMilli() == l.LastFailure.UnixMilli():
		return time.UnixMilli(l.Origin.Timestamp)
	default:
		return time.UnixMilli(l.Timestamp.UnixMilli())
	}
}

// letterOf parses the record of a dead letter.
func letterOf(r *broker.Record, info graph.DeadLetterInfo) DeadLetter {
	l := DeadLetter{
		DeadLetterInfo: info, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value,
		identity: keyOf(&info, r), To: TopicPartition{info.Origin.Topic, info.Origin.Partition},
		appended: r.Attrs.TimestampType() == int8(graph.LogAppendTime),
	}
	for _, h := range r.Headers {
		switch {
		case !graph.IsDeadLetterHeader(h.Key):
			l.Headers = append(l.Headers, Header{h.Key, h.Value})
			continue
		case isMarkHeader(h.Key), h.Key == graph.HeaderSession:
			continue // of this edition alone, or of the record that died in an older build
		case h.Key == graph.HeaderStreamsTopic && len(h.Value) > 0:
			l.To.Topic = string(h.Value)
		case h.Key == graph.HeaderStreamsPartition:
			if n, err := strconv.ParseInt(string(h.Value), 10, 32); err == nil && n >= 0 && n <= math.MaxInt32 {
				l.To.Partition = int32(n)
			}
		}
		l.about = append(l.about, Header{h.Key, h.Value})
	}
	return l
}

func headersOf(r *broker.Record) []graph.Header {
	out := make([]graph.Header, len(r.Headers))
	for i, h := range r.Headers {
		out[i] = graph.Header{Key: h.Key, Value: h.Value}
	}
	return out
}
