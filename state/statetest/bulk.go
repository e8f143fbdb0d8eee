package statetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
)

// remove removes a range below the layers of the task, first at a wrong base.
func (c *checker) remove(op Op) error {
	db, next := c.task.Database(), c.next()
	id := state.IDOf(op.store)
	if err := db.Remove(c.wrongBase(), next, id, op.span); !errors.Is(err, state.ErrBase) {
		return fmt.Errorf("at a wrong base: got %w, want ErrBase", err)
	}
	if err := errors.Join(c.compareCommitted(), db.Remove(c.model.positions, next, id, op.span)); err != nil {
		return err
	}
	c.model.committed.remove(op.store, op.span)
	c.model.positions = next
	return errors.Join(c.compareCommitted(), c.compareVisible())
}

// wrongBase returns positions at which the database has never been.
func (c *checker) wrongBase() state.Positions {
	wrong := c.model.positions.Clone()
	wrong.SetInput(state.Input{Topic: "in", Partition: 1, Offset: 1 << 40})
	return wrong
}

// remove takes the keys of a range out of a store.
func (s stores) remove(name string, r state.Range) {
	for _, e := range s.store(name).in(r) {
		delete(s.store(name), e.key)
	}
}

// load writes some keys of a store below the layers of the task, every third of them as a delete.
// An unsorted load must change nothing.
func (c *checker) load(op Op) error {
	var batch []change
	for i, key := range keys {
		if op.some>>i&1 == 0 {
			continue
		}
		value := &op.value
		if i%3 == 0 {
			value = nil
		}
		batch = append(batch, change{store: op.store, key: key, value: value})
	}
	slices.SortFunc(batch, func(a, b change) int { return strings.Compare(a.key, b.key) })
	db, id, next := c.task.Database(), state.IDOf(op.store), c.next()
	if op.kind == loadUnsorted {
		if len(batch) < 2 {
			return nil
		}
		slices.Reverse(batch)
		if err := db.Load(c.model.positions, next, id, reusing(batch)); err == nil || errors.Is(err, state.ErrBase) {
			return fmt.Errorf("descending keys: got %w", err)
		}
		return c.compareCommitted()
	}
	if err := db.Load(c.wrongBase(), next, id, reusing(batch)); !errors.Is(err, state.ErrBase) {
		return fmt.Errorf("at a wrong base: got %w, want ErrBase", err)
	}
	if err := errors.Join(c.compareCommitted(), db.Load(c.model.positions, next, id, reusing(batch))); err != nil {
		return err
	}
	for _, w := range batch {
		c.model.committed.set(w.store, w.key, w.value)
	}
	c.model.positions = next
	return errors.Join(c.compareCommitted(), c.compareVisible())
}

// reusing yields the writes in the memory of one key and one value, which a database must have
// copied.
func reusing(batch []change) func(yield func(state.Write) bool) {
	return func(yield func(state.Write) bool) {
		key, value := make([]byte, 0, 300), make([]byte, 0, 300)
		for _, c := range batch {
			w := state.Write{Store: state.IDOf(c.store), Key: append(key[:0], c.key...), Delete: c.value == nil}
			if c.value != nil {
				w.Value = append(value[:0], *c.value...)
			}
			if !yield(w) {
				return
			}
		}
		clear(key[:cap(key)])
		clear(value[:cap(value)])
	}
}
