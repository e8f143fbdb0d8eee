package admin

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
)

const (
	fetchBytes = 4 << 20
	fetchWait  = 250 * time.Millisecond
	// pendingRecords and pendingBytes bound what is kept in memory before it goes to the scratch database.
	pendingRecords = 32768
	pendingBytes   = 16 << 20
	// stuckAfter is how long an open transaction may hold the reading up: longer than the coordinator lets one live by default.
	stuckAfter = 30 * time.Second
	toldEvery  = 250 * time.Millisecond
)

// The stores of the scratch database: the rows as the changelog says, and the last offset of each key that was written later.
var (
	rowsID  = state.IDOf("rows")
	laterID = state.IDOf("later")
)

// rowOf translates a record of a changelog into the write of a row. The rows of a store and the records of its changelog are in
// bijection; for a key-value store it is the identity.
func rowOf(r *broker.Record) (key, value []byte, deleted bool) { return r.Key, r.Value, r.Value == nil }

func (r *replay) addRow(rec *broker.Record) {
	key, value, deleted := rowOf(rec)
	if deleted {
		value = nil
	}
	r.pending.put(state.Write{Store: rowsID, Key: key, Value: value, Delete: deleted})
}

func (r *replay) noteLater(rec *broker.Record) {
	key, _, _ := rowOf(rec)
	r.pending.put(state.Write{Store: laterID, Key: key, Value: binary.BigEndian.AppendUint64(nil, uint64(rec.Offset))})
}

// read hands the committed records from from on and below to to take.
func (r *replay) read(ctx context.Context, from, to int64, take func(*broker.Record)) error {
	o, moved := r.outcome, time.Now()
	for at := from; at < to; {
		f, err := r.reader.Fetch(ctx, at, fetchWait)
		if errors.Is(err, broker.ErrOffsetOutOfRange) {
			return fmt.Errorf("%w: records of %s[%d] were deleted while they were read: %w", ErrChangelog, o.Changelog, o.Task.Partition, err)
		}
		if err != nil {
			return err
		}
		for _, rec := range f.Records {
			if rec.Offset < to {
				take(rec)
			}
		}
		if f.Next > at {
			moved = time.Now()
		} else if time.Since(moved) > stuckAfter {
			return fmt.Errorf("an open transaction holds %s[%d] at %d: %s; verify again when it has ended", o.Changelog, o.Task.Partition,
				at, r.cluster.Holder(ctx, o.Changelog, o.Task.Partition))
		}
		at = min(f.Next, to)
		if r.pending.full() || at == to {
			if err := r.pending.apply(r.db); err != nil {
				return err
			}
		}
		r.tell(at, to)
	}
	return nil
}

func (r *replay) tell(at, to int64) {
	if now := time.Now(); r.options.Progress != nil && now.Sub(r.told) > toldEvery {
		r.told = now
		r.options.Progress(VerifyProgress{Task: r.outcome.Task, Store: r.outcome.Store, Read: at - r.outcome.Start, Left: to - at})
	}
}

// pending keeps the last write of each key until there are many.
type pending struct {
	writes  map[string]state.Write
	records int
	bytes   int
}

func (p *pending) put(w state.Write) {
	if p.writes == nil {
		p.writes = map[string]state.Write{}
	}
	p.writes[string(w.Key)] = w // one store at a time: each reading ends with an apply
	p.records++
	p.bytes += len(w.Key) + len(w.Value)
}

func (p *pending) full() bool { return p.records >= pendingRecords || p.bytes >= pendingBytes }

func (p *pending) apply(db state.Database) error {
	at := db.Positions() // it stays: nobody goes on from the scratch database
	err := db.Apply(at, at, maps.Values(p.writes))
	clear(p.writes)
	p.records, p.bytes = 0, 0
	return err
}

// compare goes through both sides in the order of the keys.
func (r *replay) compare(scan *Scan) error {
	local, endLocal := iter.Pull2(scan.Rows())
	defer endLocal()
	replayed, endReplayed := iter.Pull2(r.db.Scan(rowsID, state.Range{}))
	defer endReplayed()
	gone := r.deletionsGone()
	a, err, moreLocal := local()
	b, otherErr, moreReplayed := replayed()
	for moreLocal || moreReplayed {
		if err := errors.Join(err, otherErr); err != nil {
			return err
		}
		order := bytes.Compare(a.Key, b.Key)
		switch {
		case !moreReplayed:
			order = -1
		case !moreLocal:
			order = 1
		}
		var d *Difference
		switch {
		case order < 0:
			d = &Difference{Kind: Extra, Key: a.Key, Local: a.Value}
		case order > 0:
			d = &Difference{Kind: Missing, Key: b.Key, Changelog: b.Value}
		case !bytes.Equal(a.Value, b.Value):
			d = &Difference{Kind: OtherValue, Key: a.Key, Local: a.Value, Changelog: b.Value}
		}
		if d != nil {
			if err := r.judge(d, gone); err != nil {
				return err
			}
		}
		if order <= 0 {
			r.outcome.Rows++
			a, err, moreLocal = local()
		}
		if order >= 0 {
			b, otherErr, moreReplayed = replayed()
		}
	}
	return nil
}

// judge counts a difference, or says that it cannot be told: a key that was written past the position may have lost its older records to
// compaction, and one that was deleted past it even its tombstone.
func (r *replay) judge(d *Difference, deletionsGone bool) error {
	o := r.outcome
	value, found, err := r.db.Get(laterID, d.Key)
	switch {
	case err != nil:
		return err
	case found && int64(binary.BigEndian.Uint64(value)) >= o.Position, d.Kind == Extra && deletionsGone:
		o.Unjudged++
		return nil
	}
	if o.Differences++; len(o.First) < r.options.DifferencesMax {
		o.First = append(o.First, *d)
	}
	return nil
}
