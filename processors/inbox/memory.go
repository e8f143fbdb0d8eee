package inbox

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// RetainedStore returns the store of the inbox with that name and that [Retain]: its ids, with what is known of them.
func RetainedStore(name string, retention time.Duration) topology.DedupeStoreOf[string, Entry] {
	return topology.DedupeStore(name, schemas.String(), EntryCodec(), retention)
}

// memory is a store of identities, each with a V: for ever, or for a time.
type memory[V any] interface {
	// putIfAbsent keeps v under id, unless something is there already, or the time is too old to know.
	putIfAbsent(id string, v V, ms int64) (existing V, p state.Presence, err error)
	// update replaces what is there.
	update(id string, v V) error
	// remove forgets what is there.
	remove(id string) error
}

// memoryOf is a memory as it is declared. A retention of 0 is for ever.
type memoryOf[V any] struct {
	name      string
	codec     schemas.Codec[V]
	retention time.Duration
}

func (m memoryOf[V]) forever() topology.StoreOf[string, V] {
	return topology.Store(m.name, schemas.String(), m.codec)
}

func (m memoryOf[V]) retained() topology.DedupeStoreOf[string, V] {
	return topology.DedupeStore(m.name, schemas.String(), m.codec, m.retention)
}

func (m memoryOf[V]) store() topology.AnyStore {
	if m.retention == 0 {
		return m.forever()
	}
	return m.retained()
}

func (m memoryOf[V]) in(t *topology.Setup) memory[V] {
	if m.retention == 0 {
		return &forever[V]{m.forever().In(t)}
	}
	return &retained[V]{m.retained().In(t)}
}

type forever[V any] struct{ store state.KeyValue[string, V] }

func (m *forever[V]) putIfAbsent(id string, v V, _ int64) (V, state.Presence, error) {
	existing, present, err := m.store.PutIfAbsent(id, v)
	if present {
		return existing, state.Present, err
	}
	return existing, state.Absent, err
}

func (m *forever[V]) update(id string, v V) error { return m.store.Put(id, v) }
func (m *forever[V]) remove(id string) error      { return m.store.Delete(id) }

type retained[V any] struct{ store state.Dedupe[string, V] }

func (m *retained[V]) putIfAbsent(id string, v V, ms int64) (V, state.Presence, error) {
	existing, p, err := m.store.PutIfAbsent(id, v, ms)
	return existing.Value, p, err
}

func (m *retained[V]) update(id string, v V) error {
	_, err := m.store.Update(id, v)
	return err
}

func (m *retained[V]) remove(id string) error {
	_, err := m.store.Delete(id)
	return err
}
