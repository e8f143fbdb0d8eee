package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// DeadLetters is a dead-letter topic for operators. [DeadLetters.Each] lists its dead letters,
// [DeadLetters.Edit] corrects one, and [DeadLetters.Redrive] writes records to the topics in which
// they died.
//
// # What the topic holds
//
// The topic holds the dead letters of the runtime, and the actions of operators. Nothing else has
// to be created, allowed or kept.
//
//   - An edited dead letter is one more record, with the number of its edition.
//   - A redriven dead letter is followed by a mark. A mark has a null key, a null value and the
//     header [HeaderRedriven].
//
// Both are written to the partition of the dead letter, and so behind it. Retention deletes from
// the front, so a dead letter never outlives its editions and marks. Both have the header
// [graph.HeaderSession], which identifies their writer.
//
// The id, the number of deaths and the position of the last death identify a dead letter. If an
// input was read again from far back, the topic can hold a dead letter twice. It counts once.
//
// # Exactly once
//
// A batch of redriven records and their marks are one transaction. The transactional id follows
// from the topic alone.
//
//   - A redrive that is killed leaves a batch as a whole or not at all. The next redrive first ends
//     the open transaction of the last one. Then it reads the topic to its end, and leaves out dead
//     letters with a mark. It waits for open transactions in the topic, because they may contain
//     marks.
//   - Of two redrives of one topic at a time, the older one stops.
//   - A batch that fails, or whose commit is not answered, is settled the same way. Then its marks
//     decide whether it was committed.
//   - Marks and editions of another writer end the redrive. It may have been suspended for long,
//     and then its view of the partition is out of date.
//
// The readers of redriven records are not part of this promise:
//
//   - An application that has processed the record in another way meanwhile processes it twice,
//     unless it dedupes (package inbox).
//   - All applications that read the topic get the record, not only the one in which it died.
//
// All methods may be called by any goroutine.
type DeadLetters struct {
	client *Client
	topic  string
}

// DeadLetters returns the dead-letter topic of that name.
func (c *Client) DeadLetters(topic string) *DeadLetters { return &DeadLetters{client: c, topic: topic} }

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

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic[partition].
func (p TopicPartition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.Partition) }

// DeadLetterFilter chooses dead letters. A dead letter has to match every field that is set, and
// one value of a field with several values. The zero DeadLetterFilter chooses all dead letters that
// were not redriven.
type DeadLetterFilter struct {
	IDs          []string
	Keys         [][]byte // as in [DeadLetter.OwnKey]; a nil one is the null key
	Classes      []graph.Class
	Nodes        []string
	Applications []string
	// Topics match the topic in which the record died first. They also match the topic of the
	// input, if an internal topic keeps that (topology.KeepOrigin). So the name of an input finds
	// its records without knowledge of the internal topics.
	Topics []string
	// Since and Until bound the time of the last failure: at or after Since, before Until.
	Since, Until time.Time
	// Redriven chooses also dead letters that were redriven.
	Redriven bool
}

// Matches reports whether the filter chooses the dead letter.
func (f *DeadLetterFilter) Matches(l *DeadLetter) bool {
	among := func(texts []string, text string) bool { return len(texts) == 0 || slices.Contains(texts, text) }
	switch {
	case !f.Redriven && !l.Redriven.IsZero(), !among(f.IDs, l.ID), !among(f.Nodes, l.Node), !among(f.Applications, l.Application),
		!among(f.Topics, l.Origin.Topic) && (l.Source.Topic == "" || !among(f.Topics, l.Source.Topic)), len(f.Classes) > 0 && !slices.Contains(f.Classes, l.Class):
		return false
	case !f.Since.IsZero() && l.LastFailure.Before(f.Since), !f.Until.IsZero() && !l.LastFailure.Before(f.Until):
		return false
	case len(f.Keys) == 0:
		return true
	}
	own := l.OwnKey()
	return slices.ContainsFunc(f.Keys, func(k []byte) bool { return (k == nil) == (own == nil) && bytes.Equal(k, own) })
}

// DeadLetterCounts is what a dead-letter topic held. Its JSON form is for programs, and its fields
// stay.
type DeadLetterCounts struct {
	// Letters counts each dead letter once, Redriven the redriven ones among them.
	Letters  int64 `json:"letters"`
	Redriven int64 `json:"redriven"`
	// Foreign are records of other programs: they have none of our headers. Malformed have some,
	// but not all, or not as they should be.
	Foreign   int64 `json:"foreign"`
	Malformed int64 `json:"malformed"`
}

// Each calls f for every chosen dead letter, partition by partition, in the order in which the
// records died. An error of f ends it, and is returned as it is. Records of open transactions are
// left out.
func (d *DeadLetters) Each(ctx context.Context, filter DeadLetterFilter, f func(DeadLetter) error) (DeadLetterCounts, error) {
	t, err := d.open(ctx)
	if err != nil {
		return DeadLetterCounts{}, err
	}
	defer t.close()
	for p := range t.info.Partitions {
		end, err := t.cluster.StableEnd(ctx, d.topic, p)
		if err != nil {
			return t.counts, err
		}
		idx, err := t.index(ctx, p, end)
		if err != nil {
			return t.counts, err
		}
		err = t.each(ctx, idx, func(l DeadLetter) error {
			if !filter.Matches(&l) {
				return nil
			}
			return f(l)
		})
		if err != nil {
			return t.counts, err
		}
	}
	return t.counts, nil
}

// letterTopic is an open dead-letter topic. It belongs to one goroutine.
type letterTopic struct {
	cluster *broker.Cluster
	info    broker.TopicInfo
	counts  DeadLetterCounts
}

func (d *DeadLetters) open(ctx context.Context) (*letterTopic, error) {
	cfg := d.client.cfg
	cluster, err := broker.Connect(ctx, cfg, "")
	if err != nil {
		return nil, err
	}
	t := &letterTopic{cluster: cluster}
	if t.info, err = t.topic(ctx, d.topic); err != nil {
		cluster.Close()
		return nil, err
	}
	return t, nil
}

func (t *letterTopic) close() { t.cluster.Close() }

// topic describes a topic, which has to be there.
func (t *letterTopic) topic(ctx context.Context, name string) (broker.TopicInfo, error) {
	found, hidden, err := t.cluster.Topics(ctx, []string{name})
	info, there := found[name]
	switch {
	case err != nil:
		return info, err
	case len(hidden) > 0:
		return info, fmt.Errorf("topic %s: the permission to describe it is missing", name)
	case !there:
		return info, fmt.Errorf("topic %s: %w", name, errNoTopic)
	}
	return info, nil
}

var errNoTopic = errors.New("it does not exist")

// letterKey identifies a dead letter as [HeaderRedriven] does: the record, the number of the death,
// and its position.
type letterKey string

// keyOf returns the key of the dead letter in a record. The position is that of the record that
// died, so records that came with equal headers have dead letters of their own.
func keyOf(i *graph.DeadLetterInfo, r *broker.Record) letterKey {
	var topic, partition, offset string
	for _, h := range r.Headers {
		switch h.Key {
		case graph.HeaderStreamsTopic:
			topic = string(h.Value)
		case graph.HeaderStreamsPartition:
			partition = string(h.Value)
		case graph.HeaderStreamsOffset:
			offset = string(h.Value)
		}
	}
	return letterKey(fmt.Sprintf("%s/%s-%s@%s", olderKeyOf(i), topic, partition, offset))
}

// olderKeyOf returns the key of the dead letter in marks of older builds, which have the record and
// the number of deaths only.
func olderKeyOf(i *graph.DeadLetterInfo) letterKey {
	return letterKey(fmt.Sprintf("%s/%d", i.ID, i.Deaths))
}

// letterIndex is the index of the dead letters of one partition.
type letterIndex struct {
	partition  int32
	start, end int64
	// first is the first offset of each dead letter, which is its place in the order.
	first map[letterKey]int64
	// edited are the newest editions of the dead letters that operators have edited.
	edited map[letterKey]*broker.Record
	// redriven are the marks.
	redriven map[letterKey]mark
	// sessions are those of the marks and editions. Marks and editions of older builds have "".
	sessions map[string]bool
	counts   DeadLetterCounts
}

// index reads a partition up to end, and counts what is in it.
func (t *letterTopic) index(ctx context.Context, partition int32, end int64) (*letterIndex, error) {
	start, _, err := t.cluster.LogBounds(ctx, t.info.Name, partition)
	if err != nil {
		return nil, err
	}
	idx, err := t.scan(ctx, partition, start, end)
	t.counts.Letters += idx.counts.Letters
	t.counts.Redriven += idx.counts.Redriven
	t.counts.Foreign += idx.counts.Foreign
	t.counts.Malformed += idx.counts.Malformed
	return idx, err
}

// scan reads a part of a partition. With an error the index is of what was read.
func (t *letterTopic) scan(ctx context.Context, partition int32, start, end int64) (*letterIndex, error) {
	idx := &letterIndex{
		partition: partition, start: start, end: end, first: map[letterKey]int64{},
		edited: map[letterKey]*broker.Record{}, redriven: map[letterKey]mark{}, sessions: map[string]bool{},
	}
	editions := map[letterKey]int{}
	older := map[letterKey]letterKey{} // by their keys in older marks, the first dead letters with them
	err := t.read(ctx, partition, start, end, func(r *broker.Record) error {
		if m, ok := parseMark(r); ok {
			idx.redriven[m.letter], idx.sessions[m.session] = m, true
			return nil
		}
		info, err := graph.ParseDeadLetter(headersOf(r))
		switch {
		case errors.Is(err, graph.ErrNoDeadLetter):
			idx.counts.Foreign++
			return nil
		case err != nil:
			idx.counts.Malformed++
			return nil //nolint:nilerr // counted, and no reason to stop
		}
		if info.Edition > 0 {
			idx.sessions[sessionOf(r)] = true
		}
		key := keyOf(&info, r)
		if _, known := idx.first[key]; !known {
			idx.first[key] = r.Offset
			if short := olderKeyOf(&info); older[short] == "" {
				older[short] = key
			}
		}
		if info.Edition > editions[key] {
			idx.edited[key], editions[key] = r, info.Edition
		}
		return nil
	})
	idx.takeOlderMarks(older)
	idx.counts.Letters = int64(len(idx.first))
	for key := range idx.redriven {
		if _, there := idx.first[key]; there {
			idx.counts.Redriven++
		}
	}
	return idx, err
}

// takeOlderMarks applies the marks of older builds to the dead letters that those builds have
// redriven. Older builds took several dead letters for one, and redrove the first in the partition.
// So the mark counts for the first. If retention has deleted it since, the mark counts for the next
// one, which is then shown as redriven and left. It could be a copy of the deleted one, and a
// second redrive cannot be undone.
func (idx *letterIndex) takeOlderMarks(first map[letterKey]letterKey) {
	for older, key := range first {
		m, marked := idx.redriven[older]
		if _, known := idx.redriven[key]; marked && !known {
			idx.redriven[key] = m
		}
	}
}

// each calls f for the dead letters of an indexed partition.
func (t *letterTopic) each(ctx context.Context, idx *letterIndex, f func(DeadLetter) error) error {
	return t.read(ctx, idx.partition, idx.start, idx.end, func(r *broker.Record) error {
		info, err := graph.ParseDeadLetter(headersOf(r))
		if err != nil {
			return nil //nolint:nilerr // counted when the index was made
		}
		key := keyOf(&info, r)
		if at, known := idx.first[key]; !known || at != r.Offset {
			return nil // another edition, or a copy
		}
		died := r
		if edited := idx.edited[key]; edited != nil {
			r = edited
			if info, err = graph.ParseDeadLetter(headersOf(r)); err != nil {
				return err // it parsed when the index was made
			}
		}
		l := letterOf(r, info)
		l.Redriven = idx.redriven[key].at
		l.rekeyed = !bytes.Equal(died.Key, r.Key)
		return f(l)
	})
}

func (t *letterTopic) read(ctx context.Context, partition int32, from, to int64, take func(*broker.Record) error) error {
	return newReading(t.cluster, t.info.Name, t.info.ID, partition).each(ctx, from, to, take, nil)
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
