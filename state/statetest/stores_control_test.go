package statetest_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/state/statetest"
)

// noDelete ignores deletes.
type noDelete struct{ state.Bytes }

func (noDelete) Delete([]byte) error { return nil }

// changesOnly does not write what is there already: the latest version is not written again.
type changesOnly struct{ state.Bytes }

func (b changesOnly) Put(key, value []byte) error {
	if was, ok, err := b.Get(key); err != nil || ok && bytes.Equal(was, value) {
		return err
	}
	return b.Bytes.Put(key, value)
}

// newestOnly looks into the newest segment alone.
type newestOnly struct {
	state.Bytes
	interval int64
}

func (b newestOnly) Get(key []byte) ([]byte, bool, error) {
	if int64(binary.BigEndian.Uint32(key)) != b.StreamTime()/b.interval {
		return nil, false, nil
	}
	return b.Bytes.Get(key)
}

// timeless has no stream time.
type timeless struct{ state.Bytes }

func (timeless) Advance(int64)     {}
func (timeless) StreamTime() int64 { return 1 << 40 }

// TestCheckStoreFindsFaults: a suite that lets any of these pass proves nothing.
func TestCheckStoreFindsFaults(t *testing.T) {
	const programs = 200
	for _, control := range []struct {
		name   string
		kind   state.Kind
		faults statetest.StoreFaults
	}{
		{"timestamped, deletes are ignored", state.TimestampedKind,
			statetest.StoreFaults{Bytes: func(b state.Bytes) state.Bytes { return noDelete{b} }}},
		{"versioned, the retention is ignored", state.VersionedKind, statetest.StoreFaults{Retention: 1000}},
		{"versioned, the latest is not written again", state.VersionedKind,
			statetest.StoreFaults{Bytes: func(b state.Bytes) state.Bytes { return changesOnly{b} }}},
		{"versioned, no stream time", state.VersionedKind,
			statetest.StoreFaults{Bytes: func(b state.Bytes) state.Bytes { return timeless{b} }}},
		{"dedupe, the retention is ignored", state.DedupeKind, statetest.StoreFaults{Retention: 1000}},
		{"dedupe, forgets across segments", state.DedupeKind,
			statetest.StoreFaults{Bytes: func(b state.Bytes) state.Bytes { return newestOnly{b, 80_000} }}},
	} {
		t.Run(control.name, func(t *testing.T) {
			t.Parallel()
			generator := statetest.StorePrograms(300)
			for seed := range programs {
				open := func() (state.Database, error) { return keepOpen{memstore.New()}, nil }
				program := generator.Example(seed)
				if err := statetest.CheckStore(control.kind, once(open), program, control.faults); err != nil {
					t.Logf("found by program %d: %.300v", seed, err)
					return
				}
			}
			t.Errorf("%d programs found no difference", programs)
		})
	}
}

// keepOpen is a database that stays when it is closed.
type keepOpen struct{ state.Database }

func (keepOpen) Close() error { return nil }

// once returns the same database every time.
func once(open func() (state.Database, error)) func() (state.Database, error) {
	var db state.Database
	return func() (_ state.Database, err error) {
		if db == nil {
			db, err = open()
		}
		return db, err
	}
}
