package inbox

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// RetainedStore returns the store of the inbox with that name and that [Retain]: its ids, with what
// is known of them.
func RetainedStore(name string, retention time.Duration) topology.Store[state.Dedupe[string, Entry]] {
	return topology.DedupeStore(name, schemas.String(), EntryCodec(), retention)
}

// memoryOf is a store of identities, each with a V, as it is declared. A retention of 0 is for
// ever.
type memoryOf[V any] struct {
	name      string
	codec     schemas.Codec[V]
	retention time.Duration
}

func (m memoryOf[V]) forever() topology.Store[state.KeyValue[string, V]] {
	return topology.KeyValueStore(m.name, schemas.String(), m.codec)
}

func (m memoryOf[V]) retained() topology.Store[state.Dedupe[string, V]] {
	return topology.DedupeStore(m.name, schemas.String(), m.codec, m.retention)
}

func (m memoryOf[V]) store() topology.AnyStore {
	if m.retention == 0 {
		return m.forever()
	}
	return m.retained()
}

func (m memoryOf[V]) in(t *topology.Setup) *memory[V] {
	if m.retention == 0 {
		return &memory[V]{forever: m.forever().In(t)}
	}
	return &memory[V]{retained: m.retained().In(t), expires: true}
}

// memory is such a store of one task. It is one type for both kinds, because a call through an
// interface would cost every record more than the branch.
type memory[V any] struct {
	forever  state.KeyValue[string, V]
	retained state.Dedupe[string, V]
	expires  bool
}

// putIfAbsent keeps *v under id, unless something is there already, which becomes *existing, or the
// time is too old to know. The two are pointers because every record goes through here.
func (m *memory[V]) putIfAbsent(id string, v, existing *V, ms int64) (state.Presence, error) {
	if m.expires {
		remembered, p, err := m.retained.PutIfAbsent(id, *v, ms)
		*existing = remembered.Value
		return p, err
	}
	var present bool
	var err error
	if *existing, present, err = m.forever.PutIfAbsent(id, *v); present {
		return state.Present, err
	}
	return state.Absent, err
}

// get returns what is kept under id, if anything is.
func (m *memory[V]) get(id string) (v V, ok bool, err error) {
	if m.expires {
		remembered, ok, err := m.retained.Lookup(id)
		return remembered.Value, ok, err
	}
	return m.forever.Get(id)
}

// update replaces what is there.
func (m *memory[V]) update(id string, v V) error {
	if m.expires {
		_, err := m.retained.Update(id, v)
		return err
	}
	return m.forever.Put(id, v)
}

// remove deletes the entry.
func (m *memory[V]) remove(id string) error {
	if m.expires {
		_, err := m.retained.Delete(id)
		return err
	}
	return m.forever.Delete(id)
}
