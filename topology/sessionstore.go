package topology

import (
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// SessionStoreOf is a session store with its types: one value for each key and session, for as long as the
// retention. It is made once, with [SessionStore], and named by the nodes that use it. It is immutable.
type SessionStoreOf[K, V any] struct {
	name      string
	key       schemas.Codec[K]
	value     schemas.Codec[V]
	retention time.Duration
}

// SessionStore describes a session store: see state.Session for what it does. The name is for ever: it finds the
// data again after an upgrade. retention is how long a session can be read and written after its end, by the store's
// own stream time; the gap that ends a session and the time that records can be late, at least. It is a whole number
// of milliseconds. With another retention a store is restored in full.
//
// The changelog <application>-<name>-changelog holds what Kafka Streams writes for a session store. How long it does is
// said at [WindowStore].
func SessionStore[K, V any](
	name string, key schemas.Codec[K], value schemas.Codec[V], retention time.Duration,
) SessionStoreOf[K, V] {
	return SessionStoreOf[K, V]{name: name, key: key, value: value, retention: retention}
}

// Name returns the name of the store.
func (s SessionStoreOf[K, V]) Name() string { return s.name }

// Retention returns how long a session can be read after its end.
func (s SessionStoreOf[K, V]) Retention() time.Duration { return s.retention }

// Open returns the typed view of bytes, which must be the bytes of this store. It is for tools and tests; a
// node gets its stores from [SessionStoreOf.In].
func (s SessionStoreOf[K, V]) Open(bytes state.Bytes) state.Session[K, V] {
	return state.NewSession(bytes, state.Codec[K](s.key), state.Codec[V](s.value), s.layout())
}

// In returns the store of the task that t prepares. What is said of [StoreOf.In] holds for it.
func (s SessionStoreOf[K, V]) In(t *Setup) state.Session[K, V] {
	bytes, key, value := watch(t, s.name, s.key, s.value)
	return state.NewSession(bytes, key, value, s.layout())
}

func (s SessionStoreOf[K, V]) info() (storeInfo, error) {
	return infoOfForgetting(s.name, s.layout(), s.retention, s.key, s.value)
}

func (s SessionStoreOf[K, V]) layout() state.Layout {
	return state.Layout{Kind: state.SessionKind, Retention: s.retention.Milliseconds()}
}
