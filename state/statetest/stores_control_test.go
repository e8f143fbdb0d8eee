package statetest_test

import (
	"bytes"
	"encoding/binary"
	"iter"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/statetest"
)

// brokenStore is the store below a view with one mechanism taken out.
type brokenStore struct {
	state.Bytes
	get     func(b state.Bytes, key []byte) ([]byte, bool, error)
	put     func(b state.Bytes, key, value []byte) error
	del     func(b state.Bytes, key []byte) error
	scan    func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error]
	now     func(b state.Bytes) int64
	advance func(b state.Bytes, ms int64)
}

func (b *brokenStore) Get(key []byte) ([]byte, bool, error) {
	if b.get != nil {
		return b.get(b.Bytes, key)
	}
	return b.Bytes.Get(key)
}

func (b *brokenStore) Put(key, value []byte) error {
	if b.put != nil {
		return b.put(b.Bytes, key, value)
	}
	return b.Bytes.Put(key, value)
}

func (b *brokenStore) Delete(key []byte) error {
	if b.del != nil {
		return b.del(b.Bytes, key)
	}
	return b.Bytes.Delete(key)
}

func (b *brokenStore) Scan(r state.Range) iter.Seq2[state.Entry, error] {
	if b.scan != nil {
		return b.scan(b.Bytes, r)
	}
	return b.Bytes.Scan(r)
}

func (b *brokenStore) StreamTime() int64 {
	if b.now != nil {
		return b.now(b.Bytes)
	}
	return b.Bytes.StreamTime()
}

func (b *brokenStore) Advance(ms int64) {
	if b.advance != nil {
		b.advance(b.Bytes, ms)
		return
	}
	b.Bytes.Advance(ms)
}

// brokenBy makes a store of that form out of every one.
func brokenBy(form brokenStore) statetest.StoreFaults {
	return statetest.StoreFaults{Bytes: func(b state.Bytes) state.Bytes {
		broken := form
		broken.Bytes = b
		return &broken
	}}
}

var (
	timed    = []state.Kind{state.WindowKind, state.SessionKind}
	expiring = []state.Kind{state.WindowKind, state.SessionKind, state.VersionedKind, state.DedupeKind, state.SeriesKind}
	// merged are read in several segments.
	merged = []state.Kind{state.WindowKind, state.SessionKind, state.SeriesKind}
)

// storeControls are made for each program.
var storeControls = []struct {
	name  string
	kinds []state.Kind
	fault func() statetest.StoreFaults
}{
	{"a row can be read for a millisecond too long", expiring, func() statetest.StoreFaults {
		return statetest.StoreFaults{Layout: func(l state.Layout) state.Layout {
			if l.Retention%2 == 0 { // then the segments are as long as before
				l.Retention++
			}
			return l
		}}
	}},
	{"the retention is ignored", []state.Kind{state.VersionedKind}, func() statetest.StoreFaults {
		return statetest.StoreFaults{Layout: func(l state.Layout) state.Layout { l.Retention *= 1000; return l }}
	}},
	{"deletes are ignored", []state.Kind{state.TimestampedKind, state.WindowKind, state.SessionKind, state.DedupeKind},
		func() statetest.StoreFaults {
			return brokenBy(brokenStore{del: func(state.Bytes, []byte) error { return nil }})
		}},
	{"the latest is not written again", []state.Kind{state.VersionedKind}, func() statetest.StoreFaults {
		return brokenBy(brokenStore{put: func(b state.Bytes, key, value []byte) error {
			if was, ok, err := b.Get(key); err != nil || ok && bytes.Equal(was, value) {
				return err
			}
			return b.Put(key, value)
		}})
	}},
	{"only the newest segment is looked into", []state.Kind{state.DedupeKind}, func() statetest.StoreFaults {
		newest := uint32(0)
		return brokenBy(brokenStore{get: func(b state.Bytes, key []byte) ([]byte, bool, error) {
			if newest = max(newest, binary.BigEndian.Uint32(key)); binary.BigEndian.Uint32(key) < newest {
				return nil, false, nil
			}
			return b.Get(key)
		}})
	}},
	{"the oldest segments are not merged", merged, func() statetest.StoreFaults {
		newest := uint32(0)
		return brokenBy(brokenStore{scan: func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error] {
			if newest = max(newest, binary.BigEndian.Uint32(r.From)); binary.BigEndian.Uint32(r.From)+2 <= newest {
				return func(func(state.Entry, error) bool) {}
			}
			return b.Scan(r)
		}})
	}},
	{"longer keys pass for the one that is fetched", merged, func() statetest.StoreFaults {
		return brokenBy(brokenStore{scan: func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error] {
			return func(yield func(state.Entry, error) bool) {
				for e, err := range b.Scan(r) {
					if n := len(r.From); err == nil && len(r.To) == n+1 && n >= 16 && len(e.Key) > n {
						tail := e.Key[len(e.Key)-(n-4)%8:]
						e.Key = append(append([]byte{}, e.Key[:n-len(tail)]...), make([]byte, len(tail))...)
					}
					if !yield(e, err) {
						return
					}
				}
			}
		}})
	}},
	{"the upper bound is exclusive", timed, func() statetest.StoreFaults {
		return brokenBy(brokenStore{scan: func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error] {
			if n := len(r.To); n == len(r.From)+1 {
				r.To = r.To[:n-1]
			}
			return b.Scan(r)
		}})
	}},
	{"a value replaces the one of the same moment", []state.Kind{state.SeriesKind}, func() statetest.StoreFaults {
		return brokenBy(brokenStore{get: func(b state.Bytes, key []byte) ([]byte, bool, error) {
			value, _, err := b.Get(key)
			return value, false, err
		}})
	}},
	{"reverse scans are not reversed", statetest.StoreKinds, func() statetest.StoreFaults {
		return brokenBy(brokenStore{scan: func(b state.Bytes, r state.Range) iter.Seq2[state.Entry, error] {
			r.Reverse = false
			return b.Scan(r)
		}})
	}},
	{"the stream time survives a revert", expiring, func() statetest.StoreFaults {
		latest := int64(0)
		return brokenBy(brokenStore{
			now: func(b state.Bytes) int64 { return max(latest, b.StreamTime()) },
			advance: func(b state.Bytes, ms int64) {
				latest = max(latest, ms)
				b.Advance(ms)
			},
		})
	}},
	{"the stream time does not move", expiring, func() statetest.StoreFaults {
		return brokenBy(brokenStore{advance: func(state.Bytes, int64) {}})
	}},
}

// TestCheckStoreFindsFaults: a suite that lets any of these pass proves nothing.
func TestCheckStoreFindsFaults(t *testing.T) {
	const programs = 200
	for _, control := range storeControls {
		for _, kind := range control.kinds {
			t.Run(kind.String()+": "+control.name, func(t *testing.T) {
				t.Parallel()
				generator := statetest.StorePrograms(300)
				for seed := range programs {
					if err := statetest.CheckStore(kind, inMemory(), generator.Example(seed), control.fault()); err != nil {
						t.Logf("found by program %d: %.300v", seed, err)
						return
					}
				}
				t.Errorf("%d programs found no difference", programs)
			})
		}
	}
}

// TestCheckStoreFindsNothing in a store with nothing taken out, whatever stands between.
func TestCheckStoreFindsNothing(t *testing.T) {
	generator := statetest.StorePrograms(300)
	for _, kind := range statetest.StoreKinds {
		for seed := range 20 {
			if err := statetest.CheckStore(kind, inMemory(), generator.Example(seed), brokenBy(brokenStore{})); err != nil {
				t.Errorf("%s, program %d: %v", kind, seed, err)
			}
		}
	}
}

// keepOpen is a database that stays when it is closed.
type keepOpen struct{ state.Database }

func (keepOpen) Close() error { return nil }

// inMemory opens one database every time.
func inMemory() func() (state.Database, error) {
	db := keepOpen{memstore.New()}
	return func() (state.Database, error) { return db, nil }
}
