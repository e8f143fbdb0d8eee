package topology

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// VersionedStoreOf is a store of the history of each key with its types: a value that is made once, with
// [VersionedStore], and named by the nodes that use it. It is immutable.
type VersionedStoreOf[K, V any] struct {
	name      string
	key       schemas.Codec[K]
	value     schemas.Codec[V]
	retention time.Duration
}

// VersionedStore describes a store that keeps the value of each key, and those that it had before, for
// historyRetention of the store's stream time after they were superseded; see [state.Versioned]. The retention
// is a whole number of milliseconds. It is part of what the store is: with another one it is restored in full. The
// name is for ever, as that of [Store].
func VersionedStore[K, V any](
	name string, key schemas.Codec[K], value schemas.Codec[V], historyRetention time.Duration,
) VersionedStoreOf[K, V] {
	return VersionedStoreOf[K, V]{name: name, key: key, value: value, retention: historyRetention}
}

// Name returns the name of the store.
func (s VersionedStoreOf[K, V]) Name() string { return s.name }

// Retention returns how long a version can be read after it was superseded.
func (s VersionedStoreOf[K, V]) Retention() time.Duration { return s.retention }

// Open returns the typed view of bytes, which must be the bytes of this store. It is for tools and tests; a
// node gets its stores from [VersionedStoreOf.In].
func (s VersionedStoreOf[K, V]) Open(bytes state.Bytes) state.Versioned[K, V] {
	return state.NewVersioned(bytes, state.Codec[K](s.key), state.Codec[V](s.value), s.layout())
}

// In returns the store of the task that t prepares, as [StoreOf.In] does. A version that begins so far ahead of
// the clock that the changelog would refuse it is a Validation failure of the record.
func (s VersionedStoreOf[K, V]) In(t *Setup) state.Versioned[K, V] {
	bytes, key, value := watch(t, s.name, s.key, s.value)
	return state.NewVersioned(bytes, key, value, s.layout())
}

func (s VersionedStoreOf[K, V]) info() (storeInfo, error) {
	return infoOfForgetting(s.name, s.layout(), s.retention, s.key, s.value)
}

func (s VersionedStoreOf[K, V]) layout() state.Layout {
	return state.Layout{Kind: state.VersionedKind, Retention: s.retention.Milliseconds()}
}
