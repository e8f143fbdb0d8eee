package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// letterTopic is an open dead-letter topic. It belongs to one goroutine.
type letterTopic struct {
	cluster *broker.Cluster
	info    broker.TopicInfo
	counts  DeadLetterCounts
	// bytesLeft is how much may still be read before errLarge, 0 for no bound.
	bytesLeft int64
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
	if t.bytesLeft != 0 {
		within := take
		take = func(r *broker.Record) error {
			if t.bytesLeft -= int64(recordSize(r)); t.bytesLeft <= 0 {
				t.bytesLeft = -1 // zero is no bound
				return errLarge
			}
			return within(r)
		}
	}
	return newReading(t.cluster, t.info.Name, t.info.ID, partition).each(ctx, from, to, take, nil)
}
