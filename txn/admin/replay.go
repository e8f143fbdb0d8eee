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
	// heldMax is how long an open transaction may hold the reading up: longer than the coordinator lets one live by default.
	heldMax   = 30 * time.Second
	toldEvery = 250 * time.Millisecond
)

// The stores of the scratch database: the rows as the changelog says, and the last offset of each key that was written later.
var (
	rowsID  = state.IDOf("rows")
	laterID = state.IDOf("later")
)

// rowOf translates a record of the changelog into the write of a row.
func (r *replay) rowOf(rec *broker.Record) (state.Write, error) {
	w, err := r.outcome.Layout.Row(state.ChangelogRecord{Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp.UnixMilli()})
	if err != nil {
		return w, fmt.Errorf("%s[%d] at offset %d: %w", r.outcome.Changelog, r.outcome.Task.Partition, rec.Offset, err)
	}
	return w, nil
}

func (r *replay) addRow(rec *broker.Record) error {
	w, err := r.rowOf(rec)
	if err != nil {
		return err
	}
	w.Store = rowsID
	r.pending.put(w)
	return nil
}

// noteLater keeps the offset by the row of the record. A history has a row for each version, of which compaction takes the older ones
// whatever the later one's time: there the key of the record is what counts.
func (r *replay) noteLater(rec *broker.Record) error {
	key := rec.Key
	if r.outcome.Layout.Kind != state.VersionedKind {
		w, err := r.rowOf(rec)
		if err != nil {
			return err
		}
		key = w.Key
	}
	r.pending.put(state.Write{Store: laterID, Key: key, Value: binary.BigEndian.AppendUint64(nil, uint64(rec.Offset))})
	return nil
}

// read hands the committed records from from on and below to to take.
func (r *replay) read(ctx context.Context, from, to int64, take func(*broker.Record) error) error {
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
			if rec.Offset >= to {
				continue
			}
			if err := take(rec); err != nil {
				return err
			}
		}
		if f.Next > at {
			moved = time.Now()
		} else if time.Since(moved) > heldMax {
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
		if d != nil && !r.forgotten(d) {
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

// forgotten reports whether nobody can read the row any more: it may be there or not.
func (r *replay) forgotten(d *Difference) bool {
	l := r.outcome.Layout
	if !l.Segmented() {
		return false
	}
	ms, err := l.RowTime(state.Write{Key: d.Key, Value: d.row()})
	at, _ := r.outcome.Positions.Changelog(r.outcome.Store)
	return err == nil && !l.Live(ms, at.StreamTime)
}

// judge counts a difference, or says that it cannot be told: a key that was written past the position may have lost its older records to
// compaction, and one that was deleted past it even its tombstone.
func (r *replay) judge(d *Difference, deletionsGone bool) error {
	o := r.outcome
	key := d.Key
	if rec, err := o.Layout.Record(state.Write{Key: d.Key, Value: d.row()}); err == nil && o.Layout.Kind == state.VersionedKind {
		key = rec.Key
	}
	value, found, err := r.db.Get(laterID, key)
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
