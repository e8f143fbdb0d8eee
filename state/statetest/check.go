package statetest

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/onceward/onceward/state"
)

// Check runs a program on a task over db, which must be empty, and on the model, and returns the
// first difference. It closes db.
func Check(db state.Database, program Program) error {
	task, err := state.NewTask(db, state.KeyValues(storeNames...))
	if err != nil {
		return errors.Join(err, db.Close())
	}
	c := &checker{task: task, model: newModel()}
	for i, op := range program {
		if err := c.step(op); err != nil {
			return errors.Join(fmt.Errorf("operation %d (%v): %w", i, op, err), task.Close())
		}
	}
	if err := c.finish(); err != nil {
		return errors.Join(fmt.Errorf("at the end: %w", err), task.Close())
	}
	return nil
}

// checker drives a task and its model in step.
type checker struct {
	task  *state.Task
	model *model
	views []checkedView
	round int64
}

// checkedView is an open view with what it must show for ever.
type checkedView struct {
	view      state.View
	stores    stores
	positions state.Positions
}

func (c *checker) step(op Op) error {
	switch op.kind {
	case put:
		return c.write(op.store, op.key, &op.value)
	case del:
		return c.write(op.store, op.key, nil)
	case get:
		return c.get(op.store, op.key)
	case scan, scanWriting:
		return c.scan(op)
	case mark:
		c.task.Mark()
		c.model.saved = maps.Clone(c.model.open)
	case revert:
		c.task.Revert()
		if c.model.saved != nil {
			c.model.open = maps.Clone(c.model.saved)
		}
		return c.compareVisible()
	case freeze:
		return c.freeze()
	case apply:
		return c.apply()
	case applyWrongBase:
		return c.applyWrongBase()
	case applyWrongLayer:
		return c.applyWrongLayer()
	case retire:
		return c.retire()
	case drop:
		c.task.Drop()
		c.model.frozen, c.model.open, c.model.saved = nil, make(changes), nil
		return c.compareVisible()
	case openView:
		return c.openView()
	case readView:
		return c.readView(op)
	case closeView:
		if len(c.views) > 0 {
			v := c.views[0]
			c.views = c.views[1:]
			return errors.Join(v.view.Close(), v.view.Close())
		}
	case flush:
		return c.task.Database().Flush()
	case remove:
		return c.remove(op)
	case load, loadUnsorted:
		return c.load(op)
	default:
		return fmt.Errorf("kind %d is no operation", op.kind)
	}
	return nil
}

func (c *checker) write(store, key string, value *string) error {
	b := c.task.Store(store)
	// The key is changed after the call: the store must have copied it.
	k := []byte(key)
	defer func() {
		for i := range k {
			k[i] ^= 0x55
		}
	}()
	c.model.open[[2]string{store, key}] = value
	if value == nil {
		return b.Delete(k)
	}
	if *value == "" {
		return b.Put(k, nil)
	}
	return b.Put(k, []byte(*value))
}

func (c *checker) get(store, key string) error {
	value, ok, err := c.task.Store(store).Get([]byte(key))
	if err != nil {
		return err
	}
	var want *string
	if v, has := c.model.visible()[store][key]; has {
		want = &v
	}
	return diffGet(store, key, value, ok, want)
}

func (c *checker) scan(op Op) error {
	want := c.model.visible()[op.store].in(op.span)
	if op.breakAt > 0 {
		want = want[:min(op.breakAt, len(want))]
	}
	n := 0
	got, err := collect(c.task.Store(op.store).Scan(op.span), func() (bool, error) {
		n++
		if op.kind == scanWriting {
			// Over keys that the scan has passed, and over those to come.
			value := fmt.Sprint("written during a scan ", n)
			err := errors.Join(c.write(op.store, op.key, &value), c.write(op.store, keys[n%len(keys)], nil))
			if err != nil {
				return false, err
			}
		}
		return n != op.breakAt, nil
	})
	if err != nil {
		return err
	}
	if diff := diffEntries(got, want); diff != "" {
		return errors.New(diff)
	}
	return nil
}

// collect gathers the entries of a scan. After each one it asks more whether to go on.
func collect(scan iter.Seq2[state.Entry, error], more func() (bool, error)) ([]entry, error) {
	var got []entry
	for e, err := range scan {
		if err != nil {
			return got, err
		}
		if e.Key == nil || e.Value == nil {
			return got, fmt.Errorf("the entry of key %q has a nil key or value", e.Key)
		}
		got = append(got, entry{string(e.Key), string(e.Value)})
		if more == nil {
			continue
		}
		if goOn, err := more(); err != nil || !goOn {
			return got, err
		}
	}
	return got, nil
}

// freeze keeps the limit of two rounds in flight, as a runtime does.
func (c *checker) freeze() error {
	if len(c.model.frozen) == 2 {
		return nil
	}
	l := &layer{changes: c.model.open, real: c.task.Freeze()}
	c.model.frozen = append(c.model.frozen, l)
	c.model.open, c.model.saved = make(changes), nil
	if c.task.OpenBytes() != 0 {
		return fmt.Errorf("the new open overlay has %d bytes", c.task.OpenBytes())
	}
	return c.compareLayer(l)
}

// compareLayer compares the writes of a layer, one by one and in order.
func (c *checker) compareLayer(l *layer) error {
	want := l.changes.sorted()
	if l.real.Len() != len(want) {
		return fmt.Errorf("the layer has %d writes, want %d", l.real.Len(), len(want))
	}
	if l.real.Bytes() == 0 && len(want) > 0 {
		return errors.New("a layer with writes has no bytes")
	}
	i := 0
	for w := range l.real.Writes() {
		wantValue := want[i].value
		switch {
		case w.Store != state.IDOf(want[i].store) || string(w.Key) != want[i].key:
			return fmt.Errorf("write %d is of %08x %q, want %s %q",
				i, w.Store, w.Key, want[i].store, want[i].key)
		case w.Key == nil:
			return fmt.Errorf("write %d has a nil key", i)
		case w.Delete != (wantValue == nil) || w.Delete != (w.Value == nil):
			return fmt.Errorf("write %d: delete is %t and value nil %t", i, w.Delete, w.Value == nil)
		case wantValue != nil && string(w.Value) != *wantValue:
			return fmt.Errorf("write %d has the value %q, want %q", i, w.Value, *wantValue)
		}
		i++
	}
	if i != len(want) {
		return fmt.Errorf("the layer yields %d writes, want %d", i, len(want))
	}
	return nil
}

// next returns the positions that round n leaves behind.
func (c *checker) next() state.Positions {
	c.round++
	p := c.model.positions.Clone()
	p.Round = state.RoundID{ProducerID: 7, Epoch: int16(c.round), Incarnation: 9}
	p.WrittenAt = c.round
	p.SetInput(state.Input{
		Topic: "in", Partition: int32(c.round % 2), Offset: c.round, StreamTime: state.NoTime,
	})
	p.SetChangelog(state.Changelog{Store: storeNames[0], Applied: c.round, Scanned: c.round + 1})
	return p
}

func (c *checker) apply() error {
	for _, l := range c.model.frozen {
		if l.applied {
			continue
		}
		next := c.next()
		// WrittenAt is no part of a place: the base of a resolver has another one.
		base := c.model.positions.Clone()
		base.WrittenAt += 1000
		if err := c.task.Apply(l.real, base, next); err != nil {
			return err
		}
		l.applied = true
		l.changes.apply(c.model.committed)
		c.model.positions = next
		return errors.Join(c.compareCommitted(), c.compareVisible())
	}
	return nil
}

func (c *checker) applyWrongBase() error {
	wrong := c.model.positions.Clone()
	wrong.SetInput(state.Input{Topic: "in", Partition: 1, Offset: 1 << 40})
	next := c.next()
	write := func(yield func(state.Write) bool) {
		yield(setTo(storeNames[0], "a", "must not appear"))
	}
	err := c.task.Database().Apply(wrong, next, write)
	var base *state.BaseError
	if !errors.Is(err, state.ErrBase) || !errors.As(err, &base) {
		return fmt.Errorf("got %w, want a BaseError", err)
	}
	if !base.Base.Equal(wrong) || !base.Actual.Equal(c.model.positions) {
		return fmt.Errorf("the error names %v and %v", base.Base, base.Actual)
	}
	return c.compareCommitted()
}

// applyWrongLayer tries every layer that is not the oldest unapplied one.
func (c *checker) applyWrongLayer() error {
	oldest := slices.IndexFunc(c.model.frozen, func(l *layer) bool { return !l.applied })
	for i, l := range c.model.frozen {
		if i == oldest {
			continue
		}
		if err := c.task.Apply(l.real, c.model.positions, c.next()); !errors.Is(err, state.ErrLayer) {
			return fmt.Errorf("layer %d while %d is the oldest: got %w, want ErrLayer", i, oldest, err)
		}
	}
	return c.compareCommitted()
}

func (c *checker) retire() error {
	if len(c.model.frozen) == 0 || !c.model.frozen[0].applied {
		return nil
	}
	c.task.Retire(c.model.frozen[0].real)
	c.model.frozen = c.model.frozen[1:]
	return c.compareVisible()
}

func (c *checker) openView() error {
	if len(c.views) == 3 {
		return nil
	}
	v, err := c.task.Database().View()
	if err != nil {
		return err
	}
	c.views = append(c.views, checkedView{v, c.model.committed.clone(), c.model.positions.Clone()})
	return nil
}

func (c *checker) readView(op Op) error {
	for _, v := range c.views {
		if !v.view.Positions().Equal(v.positions) {
			return fmt.Errorf("the view is at %v, want %v", v.view.Positions(), v.positions)
		}
		var want *string
		if value, has := v.stores[op.store][op.key]; has {
			want = &value
		}
		if err := expectGet(v.view, op.store, op.key, want); err != nil {
			return err
		}
		got, err := collect(v.view.Scan(state.IDOf(op.store), op.span), nil)
		if err != nil {
			return err
		}
		if diff := diffEntries(got, v.stores[op.store].in(op.span)); diff != "" {
			return errors.New(diff)
		}
	}
	return nil
}

// compareVisible compares all that the owner of the task sees.
func (c *checker) compareVisible() error {
	want := c.model.visible()
	for _, name := range storeNames {
		got, err := collect(c.task.Store(name).Scan(state.Range{}), nil)
		if err != nil {
			return err
		}
		if diff := diffEntries(got, want[name].in(state.Range{})); diff != "" {
			return fmt.Errorf("the task's store %s: %s", name, diff)
		}
	}
	return nil
}

// compareCommitted compares all that the database below the layers holds.
func (c *checker) compareCommitted() error {
	if got := c.task.Positions(); !got.Equal(c.model.positions) {
		return fmt.Errorf("the database is at %v, want %v", got, c.model.positions)
	}
	return compareReader(c.task.Database(), c.model.committed, storeNames, keys...)
}

// finish compares everything once more, closes the task with its views still open, and expects
// refusals from then on.
func (c *checker) finish() error {
	err := errors.Join(c.compareVisible(), c.compareCommitted(), c.readView(Op{store: storeNames[0]}))
	if err != nil {
		return err
	}
	if err := errors.Join(c.task.Close(), c.task.Close()); err != nil {
		return err
	}
	for _, v := range c.views {
		if _, _, err := v.view.Get(state.IDOf(storeNames[0]), nil); !errors.Is(err, state.ErrClosed) {
			return fmt.Errorf("a view of a closed database: got %w, want ErrClosed", err)
		}
		if err := v.view.Close(); err != nil {
			return fmt.Errorf("close a view after its database: %w", err)
		}
	}
	return nil
}
