package pebblestore

import (
	"errors"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// seekersShare is the part of the open files of the process that iterators may be which wait for
// the next lookup. Each keeps a table of every level open, which the cache of files cannot close
// then.
const seekersShare = 16

// seekers are iterators for lookups of keys that are probably not there. Pebble's Get does not ask
// the filters of the last level, where nearly everything is, because it takes for granted that what
// is asked for exists: a key that does not costs it an index and a block, from the disk once the
// state has outgrown the memory. An iterator can be told to ask them, and then most lookups end
// there. Making one costs as much as that saves, so they are kept while Pebble does not change: an
// iterator sees what there was when it was made.
type seekers struct {
	shared *Shared
	mu     sync.Mutex
	// idle was made since the last change. One is enough: a task has one reader, and a query comes
	// now and then.
	idle *pebble.Iterator
	// changes goes up when those that were made before are of no use any more. changing is set
	// while something goes into Pebble.
	changes  uint64
	changing bool
}

// take returns an iterator that sees all of Pebble, and what give needs to know. It returns nil
// while something is going into Pebble: there is no telling what a new iterator sees then, and the
// next one could see less.
func (s *seekers) take(db *pebble.DB) (it *pebble.Iterator, made uint64, err error) {
	s.mu.Lock()
	if s.changing {
		s.mu.Unlock()
		return nil, 0, nil
	}
	made = s.changes
	it, s.idle = s.idle, nil
	s.mu.Unlock()
	if it != nil {
		s.shared.unkeepSeeker()
		return it, made, nil
	}
	it, err = db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	return it, made, err
}

// give takes an iterator back.
func (s *seekers) give(it *pebble.Iterator, made uint64) error {
	s.mu.Lock()
	if s.changes == made && !s.changing && s.idle == nil && s.shared.keepSeeker() {
		s.idle = it
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return it.Close()
}

// renew makes the next lookup make an iterator.
func (s *seekers) renew() {
	s.mu.Lock()
	s.changes++
	s.mu.Unlock()
	s.release()
}

// begin is called before something goes into Pebble, end after it.
func (s *seekers) begin() {
	s.mu.Lock()
	s.changing = true
	s.mu.Unlock()
	s.renew()
}

func (s *seekers) end() {
	s.mu.Lock()
	s.changing = false
	s.mu.Unlock()
}

// release closes those that wait. They keep memory and files that Pebble has replaced. What an
// iterator could say was said by the lookup.
func (s *seekers) release() {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	if idle != nil {
		s.shared.unkeepSeeker()
		_ = idle.Close()
	}
}

// renewSeekers lets go of what flushes and compactions have replaced, unless the database is
// closed.
func (d *database) renewSeekers() {
	d.life.RLock()
	defer d.life.RUnlock()
	if d.life.closed {
		return
	}
	// Pebble tells of the end of a compaction before iterators see its result, and holds a lock
	// until they do, which this takes too.
	_ = d.db.Metrics()
	d.seekers.renew()
}

// seek looks a key up with one of the seekers.
func (d *database) seek(key []byte) (value []byte, found bool, err error) {
	it, made, err := d.seekers.take(d.db)
	if err != nil {
		return nil, false, err
	}
	if it == nil {
		return getRaw(d.db, key)
	}
	if found = it.SeekPrefixGE(key) && string(it.Key()) == string(key); found {
		var v []byte
		v, err = it.ValueAndErr()
		value = append(make([]byte, 0, len(v)), v...)
	}
	if err = errors.Join(err, it.Error()); err != nil {
		_ = it.Close() // repeats the error
		return nil, false, err
	}
	return value, found, d.seekers.give(it, made)
}
