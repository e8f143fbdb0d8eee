package topology

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// DedupeStoreOf is a store of ids that were seen with its types: a value that is made once, with
// [DedupeStore], and named by the nodes that use it. It is immutable.
type DedupeStoreOf[ID, V any] struct {
	name      string
	id        schemas.Codec[ID]
	value     schemas.Codec[V]
	retention time.Duration
}

// DedupeStore describes a store that remembers ids, each with a time and a value, for the retention in the
// store's stream time; see [state.Dedupe]. The retention is a whole number of milliseconds. It is part of what the
// store is: with another one it is restored in full. The name is for ever, as that of [Store].
//
// Every task has a store of its own: an id is found again only where its records have the same partition.
//
// The broker deletes what is a day older than the retention by its own clock from the changelog: before records are
// processed that late, raise the topic's retention.ms, else a store that is restored in full has forgotten their ids.
func DedupeStore[ID, V any](
	name string, id schemas.Codec[ID], value schemas.Codec[V], retention time.Duration,
) DedupeStoreOf[ID, V] {
	return DedupeStoreOf[ID, V]{name: name, id: id, value: value, retention: retention}
}

// Name returns the name of the store.
func (s DedupeStoreOf[ID, V]) Name() string { return s.name }

// Retention returns how long an id is remembered.
func (s DedupeStoreOf[ID, V]) Retention() time.Duration { return s.retention }

// Open returns the typed view of bytes, which must be the bytes of this store. It is for tools and tests; a
// node gets its stores from [DedupeStoreOf.In].
func (s DedupeStoreOf[ID, V]) Open(bytes state.Bytes) state.Dedupe[ID, V] {
	return state.NewDedupe(bytes, state.Codec[ID](s.id), state.Codec[V](s.value), s.layout())
}

// In returns the store of the task that t prepares, as [StoreOf.In] does. A time that the changelog would
// refuse, because it is too far ahead of the clock, is a Validation failure of the record.
func (s DedupeStoreOf[ID, V]) In(t *Setup) state.Dedupe[ID, V] {
	bytes, id, value := watch(t, s.name, s.id, s.value)
	return state.NewDedupe(bytes, id, value, s.layout())
}

func (s DedupeStoreOf[ID, V]) info() (storeInfo, error) {
	return infoOfForgetting(s.name, s.layout(), s.retention, s.id, s.value)
}

func (s DedupeStoreOf[ID, V]) layout() state.Layout {
	return state.Layout{Kind: state.DedupeKind, Retention: s.retention.Milliseconds()}
}
