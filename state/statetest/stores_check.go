package statetest

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// storeName is the store of every StoreProgram.
const storeName = "store"

// CheckStore runs a program on a typed store of that kind and on a model made of plain maps, and
// returns the first difference.
func CheckStore(kind state.Kind, open func() (state.Database, error), program StoreProgram, faults StoreFaults) error {
	layout := state.Layout{Kind: kind}
	if kind.Expires() {
		layout.Retention = program.retention
	}
	c := &storeChecker{open: open, faults: faults, layout: layout, subject: newSubject(layout)}
	if err := c.reopen(); err != nil {
		return err
	}
	for i, op := range program.ops {
		if err := c.step(op); err != nil {
			return errors.Join(fmt.Errorf("operation %d (%v) with retention %d at stream time %d: %w", i, op, program.retention,
				c.model.now, err), c.task.Close())
		}
	}
	err := errors.Join(c.compare(), c.restored(nil, c.log, c.subject.compare))
	return errors.Join(err, c.task.Close())
}

// subject is one kind of store. Its methods act on the typed view of bytes, with the layout that it
// takes the store's for, and on the model alike.
type subject interface {
	step(b state.Bytes, l state.Layout, m *storeModel, op StoreOp) error
	// compare compares everything that can be seen.
	compare(b state.Bytes, l state.Layout, m storeModel) error
	// compareCompacted compares what compaction has to leave.
	compareCompacted(b state.Bytes, l state.Layout, m storeModel) error
}

func newSubject(l state.Layout) subject {
	switch l.Kind {
	case state.TimestampedKind:
		return timestampedSubject{}
	case state.VersionedKind:
		return &versionedSubject{retention: l.Retention}
	case state.DedupeKind:
		return dedupeSubject{retention: l.Retention}
	case state.SeriesKind:
		return seriesSubject{retention: l.Retention}
	default:
		return timedSubject{layout: l}
	}
}

// storeChecker drives a task with one typed store, its model and its changelog in step.
type storeChecker struct {
	open    func() (state.Database, error)
	faults  StoreFaults
	layout  state.Layout
	subject subject
	task    *state.Task

	model, committed storeModel
	saved            *storeModel
	frozen           []storeLayer
	positions        state.Positions
	round            int64
	log              []state.ChangelogRecord
	// old is a database that has stayed behind: its rows, and how much of the log they are of.
	old     []state.Write
	oldUpTo int
}

type storeLayer struct {
	real    *state.Layer
	model   storeModel
	applied bool
}

func (c *storeChecker) declared() []state.Declaration {
	return []state.Declaration{{Name: storeName, Layout: c.layout}}
}

// viewed is the layout that the typed view believes in.
func (c *storeChecker) viewed() state.Layout {
	if c.faults.Layout == nil {
		return c.layout
	}
	return c.faults.Layout(c.layout)
}

// bytes is what the view of the task's store is of. Only that one has faults.
func (c *storeChecker) bytes() state.Bytes {
	b := c.task.Store(storeName)
	if c.faults.Bytes == nil {
		return b
	}
	return c.faults.Bytes(b)
}

// compare compares what the owner of the task sees.
func (c *storeChecker) compare() error {
	return c.subject.compare(c.bytes(), c.viewed(), c.model)
}

func (c *storeChecker) reopen() error {
	if c.task != nil {
		if err := c.task.Close(); err != nil {
			return err
		}
	}
	db, err := c.open()
	if err != nil {
		return err
	}
	if c.task, err = state.NewTask(db, c.declared()); err != nil {
		return errors.Join(err, db.Close())
	}
	c.model, c.saved, c.frozen = c.committed.clone(), nil, nil
	return nil
}

func (c *storeChecker) step(op StoreOp) error {
	switch op.kind {
	case storeWrite, storeReplace, storeDelete, storeRead, storeScan:
		return c.subject.step(c.bytes(), c.viewed(), &c.model, op)
	case storeMark:
		c.task.Mark()
		saved := c.model.clone()
		c.saved = &saved
		return nil
	case storeRevert:
		c.task.Revert()
		if c.saved != nil {
			c.model = c.saved.clone()
		}
	case storeFreeze:
		if len(c.frozen) < 2 {
			c.frozen = append(c.frozen, storeLayer{real: c.task.Freeze(), model: c.model.clone()})
			c.saved = nil
		}
		return nil
	case storeApply:
		return c.apply()
	case storeRetire:
		if len(c.frozen) > 0 && c.frozen[0].applied {
			c.task.Retire(c.frozen[0].real)
			c.frozen = c.frozen[1:]
		}
	case storeDrop:
		c.task.Drop()
		c.model, c.saved, c.frozen = c.committed.clone(), nil, nil
	case storeDropOpen:
		c.task.DropOpen()
		c.model, c.saved = c.committed.clone(), nil
		if n := len(c.frozen); n > 0 {
			c.model = c.frozen[n-1].model.clone()
		}
	case storeReopen:
		if err := c.reopen(); err != nil {
			return err
		}
		if !c.task.Positions().Equal(c.positions) {
			return fmt.Errorf("reopened at %v, want %v", c.task.Positions(), c.positions)
		}
	case storeRestore:
		return c.restore(op.cut)
	default:
		return fmt.Errorf("kind %d is no operation", op.kind)
	}
	return c.compare()
}

// apply applies the oldest layer, after its records went to the changelog, and then calls Expire,
// unless the program skips it.
func (c *storeChecker) apply() error {
	i := slices.IndexFunc(c.frozen, func(l storeLayer) bool { return !l.applied })
	if i < 0 {
		return nil
	}
	l := &c.frozen[i]
	for w := range l.real.Logged() {
		r, err := c.layout.Record(w)
		if err != nil {
			return err
		}
		c.log = append(c.log, r)
	}
	c.round++
	next := c.positions.Clone()
	next.Round = state.RoundID{ProducerID: 7, Epoch: int16(c.round), Incarnation: 9}
	next.SetChangelog(state.Changelog{
		Store: storeName, Applied: int64(len(c.log)), Scanned: int64(len(c.log)),
		StreamTime: l.real.StreamTime(state.IDOf(storeName)),
	})
	if err := c.task.Apply(l.real, c.positions, next); err != nil {
		return err
	}
	if c.round%3 > 0 {
		if err := c.task.Expire(l.real, next); err != nil {
			return err
		}
	}
	l.applied, c.committed, c.positions = true, l.model, next
	return errors.Join(c.compare(), c.compareView())
}

// compareView compares what is committed, as a query sees it.
func (c *storeChecker) compareView() error {
	v, err := c.task.Database().View()
	if err != nil {
		return err
	}
	if err = c.subject.compare(committedBytes{v}, c.layout, c.committed); err != nil {
		err = fmt.Errorf("in a view: %w", err)
	}
	return errors.Join(err, v.Close())
}

// minute is the shortest segment: the record of a deleted id has the time at which its segment
// begins.
const minute = 60_000

// restore restores the committed store from the changelog as it was written, and from one that was
// compacted to the last record of each key up to a cut. It restores into an empty database and into
// one that is behind.
func (c *storeChecker) restore(cut int) error {
	if err := c.restored(nil, c.log, c.subject.compare); err != nil {
		return fmt.Errorf("from the whole changelog: %w", err)
	}
	n := len(c.log) * cut / 16
	last := map[string]int{}
	for i, r := range c.log[:n] {
		last[string(r.Key)] = i
	}
	var kept []state.ChangelogRecord
	keptOld := 0
	for i, r := range c.log {
		old := c.layout.Segmented() && r.Timestamp < c.committed.now-2*(c.layout.Retention+minute)
		if (i >= n || last[string(r.Key)] == i) && !old {
			kept = append(kept, r)
			if i < c.oldUpTo {
				keptOld = len(kept)
			}
		}
	}
	if err := c.restored(nil, kept, c.subject.compareCompacted); err != nil {
		return fmt.Errorf("from %d of %d records: %w", len(kept), len(c.log), err)
	}
	if err := c.restored(c.old, kept[keptOld:], c.subject.compareCompacted); err != nil {
		return fmt.Errorf("from %d rows and the last %d of %d records: %w", len(c.old), len(kept)-keptOld, len(c.log), err)
	}
	if cut%2 == 0 {
		return nil
	}
	c.old, c.oldUpTo = nil, len(c.log)
	for e, err := range c.task.Database().Scan(state.IDOf(storeName), state.Range{}) {
		if err != nil {
			return err
		}
		c.old = append(c.old, state.Write{Store: state.IDOf(storeName), Key: e.Key, Value: e.Value})
	}
	return nil
}

// restored compares a store that had rows and has taken the records of a changelog.
func (c *storeChecker) restored(
	rows []state.Write, log []state.ChangelogRecord, compare func(state.Bytes, state.Layout, storeModel) error,
) error {
	writes := slices.Clone(rows)
	for _, r := range log {
		w, err := c.layout.Row(r)
		if err != nil {
			return err
		}
		w.Store = state.IDOf(storeName)
		for key := range c.layout.Displaced(w.Key, c.committed.now) {
			writes = append(writes, state.Write{Store: w.Store, Key: key, Delete: true})
		}
		writes = append(writes, w)
	}
	db := memstore.New()
	if err := db.Apply(state.Positions{}, c.positions, slices.Values(writes)); err != nil {
		return errors.Join(err, db.Close())
	}
	return errors.Join(compare(committedBytes{db}, c.layout, c.committed), db.Close())
}

// committedBytes is the store of a reader.
type committedBytes struct{ state.Reader }

func (b committedBytes) Get(key []byte) ([]byte, bool, error) {
	return b.Reader.Get(state.IDOf(storeName), key)
}

func (b committedBytes) Scan(r state.Range) iter.Seq2[state.Entry, error] {
	return b.Reader.Scan(state.IDOf(storeName), r)
}

func (b committedBytes) StreamTime() int64 {
	log, _ := b.Positions().Changelog(storeName)
	return log.StreamTime
}

func (committedBytes) Advance(int64)            {}
func (committedBytes) Put([]byte, []byte) error { return errors.ErrUnsupported }
func (committedBytes) Delete([]byte) error      { return errors.ErrUnsupported }
