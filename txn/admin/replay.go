package admin

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/restore"
)

const (
	// pendingRecords and pendingBytes bound what is kept in memory before it goes to the scratch
	// database.
	pendingRecords = 32768
	pendingBytes   = 16 << 20
)

// The stores of the scratch database: the rows as the changelog says, and the last offset of each
// key that was written later.
var (
	rowsID  = state.IDOf("rows")
	laterID = state.IDOf("later")
)

// addRow takes the row of a record. It ends other rows of its id, as in a restore: the changelog
// may be compacted while it is read, which removes the tombstones of an id that came back at
// another time.
func (r *replay) addRow(rec *broker.Record) error {
	layout := r.outcome.Layout
	w, err := r.log.row(layout, rec)
	if err != nil {
		return err
	}
	w.Store = rowsID
	r.pending.put(w)
	for key := range layout.Displaced(w.Key, r.streamTime()) {
		r.pending.put(state.Write{Store: rowsID, Key: key, Delete: true})
	}
	return nil
}

// noteLater keeps the offset by the row of the record. A history has a row for each version, of
// which compaction takes the older ones whatever the later one's time: there the key of the record
// is what counts.
func (r *replay) noteLater(rec *broker.Record) error {
	key := rec.Key
	if r.outcome.Layout.Kind != state.VersionedKind {
		w, err := r.log.row(r.outcome.Layout, rec)
		if err != nil {
			return err
		}
		key = w.Key
	}
	r.pending.put(state.Write{Store: laterID, Key: key, Value: binary.BigEndian.AppendUint64(nil, uint64(rec.Offset))})
	return nil
}

// errOvertaken says that a changelog that deletes has lost its beginning while it was read: what
// was read of that is no part of it any more.
var errOvertaken = errors.New("the changelog deletes its beginning while it is read; verify again")

// intake is what is read of the log of a store, on its way to the scratch database.
type intake struct {
	*verifier
	outcome  *Verification
	db       state.Database
	pending  pending
	progress restore.Progress
	told     time.Time
}

// readLog hands the committed records of a log from an offset on, and below another one, to take.
// It tells how far it is, and empties pending when that is full. The rest stays there.
func (i *intake) readLog(ctx context.Context, log *reading, from, to int64, take func(*broker.Record) error) error {
	var records, bytes int64
	counted := func(rec *broker.Record) error {
		records++
		bytes += int64(len(rec.Key) + len(rec.Value))
		return take(rec)
	}
	return log.each(ctx, from, to, counted, func(at int64) error {
		i.progress.Add(time.Now(), records, bytes, at-from)
		records, bytes, from = 0, 0, at
		i.tell(at == to)
		if i.pending.full() {
			return i.pending.apply(i.db)
		}
		return nil
	})
}

// tell says how far the reading is, from time to time and at its end.
func (i *intake) tell(ended bool) {
	if now := time.Now(); i.options.Progress != nil && (ended || now.Sub(i.told) > toldEvery) {
		i.told = now
		i.options.Progress(progressOf(i.outcome.Task, i.outcome.Store, i.progress.Read(now)))
	}
}

// read hands the committed records from from on, as far as the log has them, and below to to take.
func (r *replay) read(ctx context.Context, from, to int64, take func(*broker.Record) error) error {
	o := r.outcome
	first := max(from, o.Start)
	r.progress.Expect(time.Now(), max(to-first, 0))
	err := r.readLog(ctx, r.log, first, to, take)
	switch {
	case errors.Is(err, broker.ErrOffsetOutOfRange) && r.deletes():
		return fmt.Errorf("%s[%d]: %w", o.Changelog, o.Task.Partition, errOvertaken)
	case errors.Is(err, broker.ErrOffsetOutOfRange):
		return fmt.Errorf("%w: records of %s[%d] were deleted while they were read: %w", ErrChangelog, o.Changelog, o.Task.Partition, err)
	case err != nil:
		return err
	}
	return r.pending.apply(r.db)
}

// pending keeps the last write of each key of a store until there are many.
type pending struct {
	writes  map[pendingKey]state.Write
	records int
	bytes   int
}

// pendingKey is a key of a store of the scratch database.
type pendingKey struct {
	store state.StoreID
	key   string
}

func (p *pending) put(w state.Write) {
	if p.writes == nil {
		p.writes = map[pendingKey]state.Write{}
	}
	p.writes[pendingKey{w.Store, string(w.Key)}] = w
	p.records++
	p.bytes += len(w.Key) + len(w.Value)
}

func (p *pending) full() bool { return p.records >= pendingRecords || p.bytes >= pendingBytes }

func (p *pending) apply(db state.Database) error {
	at := db.Positions() // it stays: no process continues from the scratch database
	err := db.Apply(at, at, maps.Values(p.writes))
	clear(p.writes)
	p.records, p.bytes = 0, 0
	return err
}

// compare goes through both sides in the order of the keys.
func (r *replay) compare(scan *Scan) error {
	h := histories{replay: r}
	for s, err := range merged(scan.Rows(), r.db.Scan(rowsID, state.Range{})) {
		if err != nil {
			return err
		}
		if err := h.compared(s.a, s.b, s.order); err != nil {
			return err
		}
		if s.order <= 0 {
			r.outcome.Rows++
		}
	}
	return h.end()
}

// compared judges one row of the state, if order is not positive, and one of the replayed
// changelog, if it is not negative.
func (h *histories) compared(a, b state.Entry, order int) error {
	if err := h.settle(a, b, order); err != nil {
		return err
	}
	var d Difference
	switch {
	case order < 0:
		d = Difference{Kind: Extra, Key: a.Key, Local: a.Value}
	case order > 0:
		d = Difference{Kind: Missing, Key: b.Key, Changelog: b.Value}
	case bytes.Equal(a.Value, b.Value):
		return nil
	default:
		d = Difference{Kind: OtherValue, Key: a.Key, Local: a.Value, Changelog: b.Value}
	}
	switch {
	case h.expired(&d):
		return nil
	case h.outcome.Layout.Kind == state.VersionedKind:
		h.hold(d)
		return nil
	}
	return h.judge(&d, h.lost(&d))
}

// judge counts a difference, or an unknown result. The result is unknown in three cases. The
// changelog may have lost the record of the row. A key that was written past the position may have
// lost its older records to compaction. A key that was deleted past it may have lost even its
// tombstone.
func (r *replay) judge(d *Difference, lost bool) error {
	o := r.outcome
	key := d.Key
	if p, err := o.Layout.Parts(d.Key, d.row()); err == nil && o.Layout.Kind == state.VersionedKind {
		key = p.Key
	}
	value, found, err := r.db.Get(laterID, key)
	switch {
	case err != nil:
		return err
	case lost, found && int64(binary.BigEndian.Uint64(value)) >= o.Position, d.Kind == Extra && r.gone:
		o.Unjudged++
		return nil
	}
	if o.Differences++; len(o.First) < r.options.DifferencesMax {
		o.First = append(o.First, *d)
	}
	return nil
}
