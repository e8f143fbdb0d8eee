package topology

import (
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// TimestampedStoreOf is a timestamped key-value store with its types: a value that is made once, with
// [TimestampedStore], and named by the nodes that use it. It is immutable.
type TimestampedStoreOf[K, V any] struct {
	name  string
	key   schemas.Codec[K]
	value schemas.Codec[V]
}

// TimestampedStore describes a key-value store that keeps a time with each value; see [state.Timestamped]. It is
// what tables are kept in ([TableFrom], [Count]). The name is for ever, as that of [Store].
func TimestampedStore[K, V any](name string, key schemas.Codec[K], value schemas.Codec[V]) TimestampedStoreOf[K, V] {
	return TimestampedStoreOf[K, V]{name: name, key: key, value: value}
}

// Name returns the name of the store.
func (s TimestampedStoreOf[K, V]) Name() string { return s.name }

// Open returns the typed view of bytes, which must be the bytes of this store. It is for tools and tests; a
// node gets its stores from [TimestampedStoreOf.In].
func (s TimestampedStoreOf[K, V]) Open(bytes state.Bytes) state.Timestamped[K, V] {
	return state.NewTimestamped(bytes, state.Codec[K](s.key), state.Codec[V](s.value))
}

// In returns the store of the task that t prepares, as [StoreOf.In] does. A time that the changelog would
// refuse, because it is too far ahead of the clock, is a Validation failure of the record.
func (s TimestampedStoreOf[K, V]) In(t *Setup) state.Timestamped[K, V] {
	bytes, key, value := watch(t, s.name, s.key, s.value)
	return state.NewTimestamped(bytes, key, value)
}

func (s TimestampedStoreOf[K, V]) info() (storeInfo, error) {
	return infoOf(s.name, state.Layout{Kind: state.TimestampedKind}, s.key, s.value)
}
