package statetest

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// timedName is the store of every TimedProgram.
const timedName = "timed"

// timedChecker drives a store and its model in step.
type timedChecker struct {
	open   func() (state.Database, error)
	layout state.Layout
	view   func(state.Bytes) timedStore
	model  *timedModel
	task   *state.Task
	store  timedStore
	round  int64
	// log is the changelog: the records of all layers that were applied.
	log []state.ChangelogRecord
}

func (c *timedChecker) openTask() error {
	db, err := c.open()
	if err != nil {
		return err
	}
	if c.task, err = state.NewTask(db, c.declared()); err != nil {
		return errors.Join(err, db.Close())
	}
	c.store = c.view(c.task.Store(timedName))
	return nil
}

func (c *timedChecker) declared() []state.Declaration {
	return []state.Declaration{{Name: timedName, Layout: c.layout}}
}

func (c *timedChecker) run(p TimedProgram) error {
	if err := c.put(timedRow{key: "begin", start: p.begin, end: p.begin}, c.valueOf(TimedOp{})); err != nil {
		return err
	}
	for i, op := range p.ops {
		if err := c.step(op); err != nil {
			return fmt.Errorf("operation %d (%v) with retention %d at stream time %d: %w", i, op, p.retention, c.model.open.now, err)
		}
	}
	for len(c.model.frozen) > 0 {
		if err := errors.Join(c.apply(), c.retire()); err != nil {
			return err
		}
	}
	return errors.Join(c.compare(c.store, c.model.open), c.compareView(), c.replay())
}

func (c *timedChecker) step(op TimedOp) error {
	m := c.model
	switch op.kind {
	case timedPut, timedPutIfAbsent, timedDelete, timedGet:
		return c.point(op)
	case timedFetch, timedScan:
		return c.scan(op)
	case timedMark:
		c.task.Mark()
		saved := m.open.clone()
		m.saved = &saved
		return nil
	case timedRevert:
		c.task.Revert()
		if m.saved != nil {
			m.open = m.saved.clone()
		}
	case timedFreeze:
		if len(m.frozen) == 2 {
			return nil
		}
		m.frozen = append(m.frozen, timedLayer{content: m.open.clone(), real: c.task.Freeze()})
		m.saved = nil
	case timedApply:
		if err := c.apply(); err != nil {
			return err
		}
	case timedRetire:
		if err := c.retire(); err != nil {
			return err
		}
	case timedDrop:
		c.task.Drop()
		m.frozen, m.open, m.saved = nil, m.committed.clone(), nil
	case timedDropOpen:
		c.task.DropOpen()
		m.open, m.saved = m.newest().clone(), nil
	case timedExpire:
		if err := c.expire(); err != nil {
			return err
		}
	case timedReopen:
		if err := errors.Join(c.task.Database().Flush(), c.task.Close(), c.openTask()); err != nil {
			return err
		}
		m.frozen, m.open, m.saved = nil, m.committed.clone(), nil
	}
	return c.compare(c.store, m.open)
}

// row is what an operation is about.
func (c *timedChecker) row(op TimedOp) timedRow {
	now := c.model.open.now
	r := timedRow{key: op.key.at(now), end: max(now-op.ago, 0)}
	if r.start = r.end; c.layout.Kind == state.SessionKind {
		r.start = max(r.end-op.span, 0)
	}
	return r
}

func (c *timedChecker) valueOf(op TimedOp) timedValue {
	v := timedValue{value: op.value}
	if c.layout.Kind == state.WindowKind {
		v.timestamp = op.span
	}
	return v
}

func (c *timedChecker) point(op TimedOp) error {
	r, v := c.row(op), c.valueOf(op)
	current, has := c.model.open.rows[r]
	has = has && c.model.open.live(r, c.layout.Retention)
	switch op.kind {
	case timedPut:
		return c.put(r, v)
	case timedPutIfAbsent:
		existing, present, stored, done, err := c.store.putIfAbsent(r, v)
		if err != nil || !done {
			return err
		}
		want := !has && c.model.change(r, &v, c.layout.Retention)
		if present != has || present && existing != current.value || stored != want {
			return fmt.Errorf("%v: %q present %t stored %t, want %q, %t, %t", r, existing, present, stored, current.value, has, want)
		}
	case timedDelete:
		c.model.change(r, nil, c.layout.Retention)
		return c.store.delete(r)
	default:
		got, ok, err := c.store.get(r)
		if err != nil || ok != has || ok && got != current {
			return fmt.Errorf("%v: got %v, %t, %w; want %v, %t", r, got, ok, err, current, has)
		}
	}
	return nil
}

func (c *timedChecker) put(r timedRow, v timedValue) error {
	stored, err := c.store.put(r, v)
	if err != nil {
		return err
	}
	if want := c.model.change(r, &v, c.layout.Retention); stored != want {
		return fmt.Errorf("put of %v: stored is %t, want %t", r, stored, want)
	}
	return nil
}

func (c *timedChecker) scan(op TimedOp) error {
	now := c.model.open.now
	to := now - op.ago
	from := to - op.span
	if op.span == 0 {
		from, to = math.MinInt64, math.MaxInt64
	}
	var seq iter.Seq2[timedEntry, error]
	var want []timedEntry
	if op.kind == timedFetch {
		key := op.key.at(now)
		seq = c.store.fetch(key, from, to, op.reverse)
		want = c.model.open.entries(c.layout, func(k string) bool { return k == key }, from, to, op.reverse)
	} else {
		r := state.Range{Reverse: op.reverse}
		if op.from != nil {
			r.From = []byte(op.from.at(now))
		}
		if op.to != nil {
			r.To = []byte(op.to.at(now))
		}
		seq = c.store.scan(r, from, to)
		in := func(k string) bool { return k >= string(r.From) && (r.To == nil || k < string(r.To)) }
		want = c.model.open.entries(c.layout, in, from, to, op.reverse)
	}
	if op.breakAt > 0 {
		want = want[:min(op.breakAt, len(want))]
	}
	var got []timedEntry
	for e, err := range seq {
		if err != nil {
			return err
		}
		got = append(got, e)
		if op.writes {
			// Over the entry, behind all others, and ahead, which lets the oldest expire.
			ahead := timedRow{key: e.key, start: c.model.open.now + 1000, end: c.model.open.now + 1000}
			behind := timedRow{key: "\xff\xff", start: now, end: now}
			v := c.valueOf(op)
			err := errors.Join(c.put(e.timedRow, v), c.put(ahead, v), c.put(behind, v))
			if err != nil {
				return err
			}
		}
		if len(got) == op.breakAt {
			break
		}
	}
	return diffTimed(got, want)
}

func diffTimed(got, want []timedEntry) error {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("entry %d is %+.60v, want %+.60v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("got %d entries, want %d", len(got), len(want))
	}
	return nil
}

// apply gives the oldest layer to the database, and its records to the changelog.
func (c *timedChecker) apply() error {
	i := slices.IndexFunc(c.model.frozen, func(l timedLayer) bool { return !l.applied })
	if i < 0 {
		return nil
	}
	l := &c.model.frozen[i]
	for w := range l.real.Writes() {
		r, err := c.layout.Record(w)
		if err != nil {
			return err
		}
		c.log = append(c.log, r)
	}
	base := c.task.Positions()
	if err := c.task.Apply(l.real, base, c.next(base, l.real.StreamTime(state.IDOf(timedName)))); err != nil {
		return err
	}
	l.applied, c.model.committed = true, l.content
	return c.compareView()
}

func (c *timedChecker) next(base state.Positions, streamTime int64) state.Positions {
	c.round++
	next := base.Clone()
	next.Round = state.RoundID{ProducerID: 1, Epoch: int16(c.round % 1000), Incarnation: uint32(c.round)}
	next.SetChangelog(state.Changelog{Store: timedName, StreamTime: streamTime})
	return next
}

func (c *timedChecker) retire() error {
	if len(c.model.frozen) > 0 && c.model.frozen[0].applied {
		c.task.Retire(c.model.frozen[0].real)
		c.model.frozen = c.model.frozen[1:]
	}
	return nil
}

// expire takes the rows out of the database that Layout.Expired names at the committed stream time. Nobody can tell.
func (c *timedChecker) expire() error {
	db := c.task.Database()
	at := db.Positions()
	log, _ := at.Changelog(timedName)
	r, ok := c.layout.Expired(log.StreamTime)
	if !ok || len(c.model.frozen) > 0 {
		return nil
	}
	var gone []state.Write
	for e, err := range db.Scan(state.IDOf(timedName), r) {
		if err != nil {
			return err
		}
		gone = append(gone, state.Write{Store: state.IDOf(timedName), Key: e.Key, Delete: true})
	}
	return db.Apply(at, at, slices.Values(gone))
}

// compare reads all there is, in both directions, and each key by itself.
func (c *timedChecker) compare(s timedStore, want timedContent) error {
	const first, last = math.MinInt64, math.MaxInt64
	for _, reverse := range []bool{false, true} {
		got, err := collectTimed(s.scan(state.Range{Reverse: reverse}, first, last))
		all := want.entries(c.layout, func(string) bool { return true }, first, last, reverse)
		if err = errors.Join(err, diffTimed(got, all)); err != nil {
			return fmt.Errorf("all, reverse %t: %w", reverse, err)
		}
	}
	for _, key := range want.keys() {
		got, err := collectTimed(s.fetch(key, first, last, false))
		all := want.entries(c.layout, func(k string) bool { return k == key }, first, last, false)
		if err = errors.Join(err, diffTimed(got, all)); err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
	}
	return nil
}

func collectTimed(seq iter.Seq2[timedEntry, error]) (got []timedEntry, err error) {
	for e, err := range seq {
		if err != nil {
			return got, err
		}
		got = append(got, e)
	}
	return got, nil
}

// compareView reads what is committed through a view of the database, with the stream time of its positions.
func (c *timedChecker) compareView() error {
	v, err := c.task.Database().View()
	if err != nil {
		return err
	}
	err = c.compare(c.view(committedBytes{v}), c.model.committed)
	return errors.Join(err, v.Close())
}

// replay makes the store anew from its changelog.
func (c *timedChecker) replay() error {
	db := memstore.New()
	if err := db.Declare(c.declared()...); err != nil {
		return err
	}
	var writes []state.Write
	for _, r := range c.log {
		w, err := c.layout.Row(r)
		if err != nil {
			return err
		}
		w.Store = state.IDOf(timedName)
		writes = append(writes, w)
	}
	at := c.next(state.Positions{}, c.model.committed.now)
	if err := db.Apply(state.Positions{}, at, slices.Values(writes)); err != nil {
		return err
	}
	if err := c.compare(c.view(committedBytes{db}), c.model.committed); err != nil {
		return fmt.Errorf("restored from the changelog: %w", err)
	}
	return db.Close()
}

// committedBytes is the store of a reader.
type committedBytes struct{ state.Reader }

func (b committedBytes) Get(key []byte) ([]byte, bool, error) {
	return b.Reader.Get(state.IDOf(timedName), key)
}

func (b committedBytes) Scan(r state.Range) iter.Seq2[state.Entry, error] {
	return b.Reader.Scan(state.IDOf(timedName), r)
}

func (b committedBytes) StreamTime() int64 {
	log, _ := b.Positions().Changelog(timedName)
	return log.StreamTime
}

func (committedBytes) Advance(int64)            {}
func (committedBytes) Put([]byte, []byte) error { return errors.ErrUnsupported }
func (committedBytes) Delete([]byte) error      { return errors.ErrUnsupported }
