package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// Find returns the dead letter with that id. If a record has died several times, it is the one of
// the last death. The error is ErrNoDeadLetter if there is none.
func (d *DeadLetters) Find(ctx context.Context, id string) (found DeadLetter, err error) {
	_, err = d.Each(ctx, DeadLetterFilter{IDs: []string{id}, Redriven: true}, func(l DeadLetter) error {
		if found.ID == "" || l.Deaths > found.Deaths {
			found = l
		}
		return nil
	})
	if err == nil && found.ID == "" {
		err = fmt.Errorf("topic %s: %w %s", d.topic, ErrNoDeadLetter, id)
	}
	return found, err
}

// The reasons for which a dead letter is not edited.
var (
	// ErrNoDeadLetter says that there is no dead letter with the id.
	ErrNoDeadLetter = errors.New("there is no dead letter with the id")
	// ErrDeadLetterRedriven says that the dead letter was redriven, so an edition would have no
	// effect.
	ErrDeadLetterRedriven = errors.New("the dead letter was redriven already")
	// ErrDeadLetterEdited says that the dead letter was edited since it was read.
	ErrDeadLetterEdited = errors.New("the dead letter was edited meanwhile; look at it again")
)

// Edit writes another edition of a dead letter. Key, Value and Headers are those of edited;
// everything else stays. edited is a changed dead letter from Each or Find. It is refused if it is
// no longer the newest edition, or was redriven meanwhile. The original stays in the topic.
//
// A dead letter that was cut counts as whole when every cut part (key, value, headers) was changed.
//
// Edit ends a running redrive of the topic, which can be repeated.
func (d *DeadLetters) Edit(ctx context.Context, edited DeadLetter) error {
	return d.edit(ctx, edited, nil)
}

func (d *DeadLetters) edit(ctx context.Context, edited DeadLetter, crash func(point string) error) error {
	t, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	w, err := t.newWriter(ctx, d, func(string) int32 { return int32(numberOf(&t.info, "max.message.bytes")) })
	if err != nil {
		return err
	}
	defer w.close()
	// A later edit or redrive stops this writer. The records of an earlier one are in the log
	// already.
	var before DeadLetter
	committed := func(ctx context.Context) (done bool, err error) {
		before, done, err = t.editedBy(ctx, w.session, &edited)
		return done, err
	}
	if _, err := committed(ctx); err != nil {
		return err
	}
	rec := editionOf(d.topic, &edited, stillCut(&before, &edited), w.session)
	if limit := numberOf(&t.info, "max.message.bytes"); limit > 0 && int64(recordSize(rec)) > limit {
		return fmt.Errorf("the edited dead letter has %d bytes, topic %s takes %d (max.message.bytes)",
			recordSize(rec), d.topic, limit)
	}
	if _, err := graph.ParseDeadLetter(headersOf(rec)); err != nil {
		return err
	}
	_, err = w.commit(ctx, written{records: []*broker.Record{rec}}, committed, crash)
	return err
}

// editedBy reports whether the session has written its edition of a dead letter. If not, it returns
// the dead letter as the operator has seen it, or an error if that is out of date.
func (t *letterTopic) editedBy(
	ctx context.Context, session string, edited *DeadLetter,
) (before DeadLetter, done bool, err error) {
	_, end, err := t.cluster.LogBounds(ctx, t.info.Name, edited.Partition)
	if err != nil {
		return before, false, err
	}
	idx, err := t.index(ctx, edited.Partition, end)
	if err != nil {
		return before, false, err
	}
	if idx.sessions[session] {
		return before, true, nil // a later change of the edition is no reason to write it again
	}
	before, err = t.mayEdit(ctx, idx, edited)
	return before, false, err
}

// mayEdit returns a dead letter if it is still as the operator has seen it.
func (t *letterTopic) mayEdit(ctx context.Context, idx *letterIndex, edited *DeadLetter) (before DeadLetter, err error) {
	key := edited.identity
	if _, known := idx.first[key]; !known {
		return before, fmt.Errorf("topic %s: %w %s", t.info.Name, ErrNoDeadLetter, edited.ID)
	}
	if _, redriven := idx.redriven[key]; redriven {
		return before, ErrDeadLetterRedriven
	}
	err = t.each(ctx, idx, func(l DeadLetter) error {
		if l.identity != key {
			return nil
		}
		if before = l; l.Edition != edited.Edition {
			return ErrDeadLetterEdited
		}
		return nil
	})
	return before, err
}

// stillCut returns the rest of [graph.HeaderCut]: the sizes of the cut parts that this edition does
// not change. A changed part counts as written in full.
func stillCut(before, edited *DeadLetter) string {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	var sizes []string
	for _, size := range strings.Fields(before.Cut) {
		part, text, _ := strings.Cut(size, "=")
		full, err := strconv.Atoi(text)
		whole := false
		switch part {
		case "key":
			whole = len(before.Key) >= full || !same(before.Key, edited.Key)
		case "value":
			whole = len(before.Value) >= full || !same(before.Value, edited.Value)
		case "headers":
			whole = len(before.Headers) >= full || !slices.EqualFunc(before.Headers, edited.Headers, func(a, b Header) bool {
				return a.Key == b.Key && same(a.Value, b.Value)
			})
		}
		if err != nil || !whole {
			sizes = append(sizes, size)
		}
	}
	return strings.Join(sizes, " ")
}

// editionOf returns the record of the next edition. cut are the parts that are still cut.
func editionOf(topic string, l *DeadLetter, cut, session string) *broker.Record {
	rec := &broker.Record{Topic: topic, Partition: l.Partition, Key: l.Key, Value: l.Value, Timestamp: l.Timestamp}
	for _, h := range l.Headers {
		if !graph.IsDeadLetterHeader(h.Key) {
			rec.Headers = append(rec.Headers, broker.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	for _, h := range l.about {
		switch h.Key {
		case graph.HeaderEdition, graph.HeaderCut:
		default:
			rec.Headers = append(rec.Headers, broker.RecordHeader{Key: h.Key, Value: h.Value})
		}
	}
	if cut != "" {
		rec.Headers = append(rec.Headers, broker.RecordHeader{Key: graph.HeaderCut, Value: []byte(cut)})
	}
	edition := strconv.AppendInt(nil, int64(l.Edition)+1, 10)
	rec.Headers = append(rec.Headers, broker.RecordHeader{Key: graph.HeaderEdition, Value: edition},
		broker.RecordHeader{Key: graph.HeaderSession, Value: []byte(session)})
	return rec
}
