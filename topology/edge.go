package topology

import (
	"fmt"
	"math/bits"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Reasons for failures that no user code is to blame for. None of them quotes a record.
const (
	errWrongTask   = schemas.Reason("the record is of a topic or partition that the task does not read")
	errEmitLate    = schemas.Reason("a record is emitted while its node handles none")
	errNoKey       = schemas.Reason("a FixedKeyOutlet has no key: a punctuation is handled, or a deferred record with another type of key is resumed")
	errRecovered   = schemas.Reason("a panic of this node was recovered by a node before it")
	errNoTimestamp = schemas.Reason("the record has no event time: its timestamp is negative")
	errNullKey     = schemas.Reason("a null key cannot be written to a compacted topic")
	errNoPartition = schemas.Reason("the record is for a partition that the topic does not have")

	errChosenPartition = schemas.Reason("the partitioner chose a partition that the topic does not have")
)

// intake is a source in a graph.
type intake[K, V any] struct {
	graph *Graph
	node  *node
	topic TopicOf[K, V]
	next  Emit[K, V]
	clock clock[K, V]
	// nullKeys is nil unless records with a null key are left out.
	nullKeys *Counter
	// invalidModes is nil unless tables are restored from the topic.
	invalidModes *Counter
	// source is the topic that a record of a repartition topic has said last that it comes from:
	// most say the same.
	source string
}

// read processes the record at work in a source.
func (x *intake[K, V]) read() error {
	g := x.graph
	g.node = x.node
	if x.nullKeys != nil && g.in.Key == nil {
		x.nullKeys.Inc()
		if x.clock.eventTime != nil || g.checkTimestamp(g.in.Timestamp) != nil {
			g.setEventTime(state.NoTime) // the time of the record is unknown or invalid
		}
		return nil
	}
	if len(g.in.Headers) > 0 {
		switch err := g.setMode(g.in.Headers); {
		case err != nil && x.invalidModes != nil:
			// The table has to be what the topic is. The mode is one that is not Live and that
			// outputs can carry.
			g.enter(Replay)
			x.invalidModes.Inc()
		case err != nil:
			return g.fail(x.node, err)
		}
	}
	o := g.newOrigin()
	if x.node.topic.repartition {
		x.takeSource(o)
	}
	var r Record[K, V]
	if err := x.record(&g.in, o, &r); err != nil {
		return g.failRecord(x.node, err, unreadable(err))
	}
	if x.clock.isSet() {
		keep, err := x.clock.stamp(&r)
		if err != nil {
			return g.fail(x.node, err)
		}
		if !keep {
			return nil
		}
	}
	if err := g.checkTimestamp(r.Timestamp); err != nil {
		return g.failRecord(x.node, err, r.Timestamp < 0)
	}
	return x.next(&g.context, r)
}

// record decodes an input into *r.
func (x *intake[K, V]) record(in *graph.Input, o *origin, r *Record[K, V]) (err error) {
	key, value := in.Key, in.Value
	if x.graph.lent != nil {
		key, value = lentTo(x.graph.lent, x.topic.key.lender, key), lentTo(x.graph.lent, x.topic.value.lender, value)
	}
	if r.Key, r.Value, err = x.topic.lend(key, value); err != nil {
		return err
	}
	headers := in.Headers
	if len(headers) > 0 && !x.node.keepDeadLetterHeaders {
		headers = withoutDeadLetterHeaders(headers)
	}
	r.Timestamp, r.Headers, r.origin = in.Timestamp, headers[:len(headers):len(headers)], o
	return nil
}

// originChunk trades a little garbage per kept record for an allocation per chunk instead of one
// per record.
const originChunk = 64

func (g *Graph) newOrigin() *origin {
	if g.originsGiven == len(g.origins) {
		g.origins, g.originsGiven = make([]origin, originChunk), 0
	}
	o := &g.origins[g.originsGiven]
	g.originsGiven++
	o.topic, o.partition, o.offset, o.streamTime = g.in.Topic, g.in.Partition, g.in.Offset, g.in.StreamTime
	if g.in.TimestampType == graph.LogAppendTime {
		o.appended = g.in.Timestamp
	}
	return o
}

// headerChunk is for headers what originChunk is for origins.
const headerChunk = 64

// newHeaders returns n headers in memory that is never used for another record.
func (g *Graph) newHeaders(n int) []Header {
	if cap(g.headers)-len(g.headers) < n {
		g.headers = make([]Header, 0, max(headerChunk, n))
	}
	at := len(g.headers)
	g.headers = g.headers[:at+n]
	return g.headers[at : at+n : at+n]
}

// checkTimestamp returns why a timestamp is refused. The clock is read only if the timestamp is
// ahead of where the limit was the last time, because the limit only moves on.
func (g *Graph) checkTimestamp(millis int64) error {
	if millis < 0 {
		return Fail(Validation, errNoTimestamp)
	}
	if g.config.MaxFutureTimestamp < 0 || millis <= g.latest {
		return nil
	}
	g.latest = g.config.Now().Add(g.config.MaxFutureTimestamp).UnixMilli()
	if millis <= g.latest {
		return nil
	}
	return Fail(Validation, schemas.Reason(fmt.Sprintf("the timestamp is more than %s ahead of the clock",
		g.config.MaxFutureTimestamp)))
}

// sink is a topic that a graph writes to, with its known settings.
type sink struct {
	topic           string
	partitions      int32
	maxMessageBytes int
	compacted       bool
}

func (g *Graph) newSink(n *node) (*sink, error) {
	s, err := g.newTopicSink(n.topic.on(g.topology.application))
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.name, err)
	}
	return s, nil
}

func (g *Graph) newTopicSink(topic string) (*sink, error) {
	s := &sink{topic: topic, partitions: g.config.Partitions(topic)}
	if s.partitions < 1 {
		return nil, fmt.Errorf("the number of partitions of topic %s is not known", topic)
	}
	if g.config.MaxMessageBytes != nil {
		s.maxMessageBytes = int(g.config.MaxMessageBytes(topic))
	}
	if g.config.Compacted != nil {
		s.compacted = g.config.Compacted(topic)
	}
	return s, nil
}

// newDeadLetterSink also makes sure that the topic takes every dead letter, cut to fit if it must
// be.
func (g *Graph) newDeadLetterSink(topic string) (*sink, error) {
	s, err := g.newTopicSink(topic)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	if s.compacted {
		return nil, fmt.Errorf("dead letters: topic %s is compacted; it would refuse null keys and keep one "+
			"dead letter per key", topic)
	}
	if s.maxMessageBytes > 0 && s.maxMessageBytes < deadLetterBytesMin {
		return nil, fmt.Errorf("dead letters: topic %s takes records of %d bytes (max.message.bytes), "+
			"it needs at least %d", topic, s.maxMessageBytes, deadLetterBytesMin)
	}
	return s, nil
}

// writeOutput processes a record in a sink.
func writeOutput[K, V any](g *Graph, n *node, s *sink, t *TopicOf[K, V], r *Record[K, V]) error {
	caller := g.node
	g.node = n
	g.outputs = append(g.outputs, graph.Output{})
	out := &g.outputs[len(g.outputs)-1] // it is large, and is made where it stays
	out.Topic, out.Timestamp = s.topic, r.Timestamp
	if n.topic.repartition {
		// The mode is the record's own inside of the application, which adds its own mode wherever
		// it reads.
		out.Headers = g.withSource(withMode(r.Headers, g.ownMode), r.origin, n.topic.keepsOrigin)
	} else {
		out.Headers = withMode(r.Headers, g.mode)
	}
	var err error
	if out.Key, err = t.key.encode(&g.arena, r.Key); err != nil {
		return g.failOutput(n, &graph.PartError{Part: "key", Err: err})
	}
	if out.Value, err = t.value.encode(&g.arena, r.Value); err != nil {
		return g.failOutput(n, &graph.PartError{Part: "value", Err: err})
	}
	if err := g.checkTimestamp(out.Timestamp); err != nil {
		return g.failOutput(n, err)
	}
	if err := s.check(out); err != nil {
		return g.failOutput(n, err)
	}
	out.Partition = s.partition(out.Key, g.id.Partition)
	g.node = caller
	return nil
}

// failOutput fails the record, and takes back the output that is not whole.
func (g *Graph) failOutput(n *node, err error) error {
	g.outputs = g.outputs[:len(g.outputs)-1]
	return g.fail(n, err)
}

// partition returns where a record with that key goes. A null key stays with its task, which
// spreads evenly and gives the same answer when the record is processed again.
func (s *sink) partition(key []byte, task int32) int32 {
	if key == nil {
		return task % s.partitions
	}
	return graph.PartitionOf(key, s.partitions)
}

// check refuses what the broker or the runtime would refuse at commit time, with the whole round.
func (s *sink) check(out *graph.Output) error {
	if s.compacted && out.Key == nil {
		return Fail(Validation, errNullKey)
	}
	if s.maxMessageBytes > 0 {
		if size := batchBytes(out); size > s.maxMessageBytes {
			return Fail(Validation, schemas.Reason(fmt.Sprintf(
				"the record has %d bytes as a batch of its own, topic %s takes %d (max.message.bytes)",
				size, s.topic, s.maxMessageBytes)))
		}
	}
	return nil
}

// batchOverheadBytes is the header of a batch.
const batchOverheadBytes = 61

// batchBytes returns the size of a record batch with only this record, not compressed. Brokers
// count so, and the runtime where it makes batches: a record that fits is never refused later.
func batchBytes(out *graph.Output) int {
	// Attributes, and the differences of timestamp and offset, which are 0 for the first record.
	body := 1 + 1 + 1 + varBytes(out.Key) + varBytes(out.Value) + varintLen(len(out.Headers))
	for i := range out.Headers {
		h := &out.Headers[i]
		body += varintLen(len(h.Key)) + len(h.Key) + varBytes(h.Value)
	}
	return batchOverheadBytes + varintLen(body) + body
}

func varBytes(b []byte) int { return varintLen(len(b)) + len(b) }

// varintLen returns the length of n as a zigzag varint. Null, which is -1, takes one byte, as 0
// does.
func varintLen(n int) int { return (bits.Len64(uint64(n)<<1|1) + 6) / 7 }
