package topology

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// WindowStoreOf is a window store with its types: one value for each key and start of a window, for as long as the
// retention. It is made once, with [WindowStore], and named by the nodes that use it. It is immutable.
type WindowStoreOf[K, V any] struct {
	name      string
	key       schemas.Codec[K]
	value     schemas.Codec[V]
	retention time.Duration
}

// WindowStore describes a window store: see state.Window for what it does, and [CountWindows] for aggregations that
// are kept in one. The name is for ever: it finds the data again after an upgrade. retention is how long a window
// can be read and written after its start, by the store's own stream time; the length of a window and the time that
// records can be late, at least ([Windows.Retention]). It is a whole number of milliseconds. With another retention
// a store is restored in full.
//
// The changelog <application>-<name>-changelog holds what Kafka Streams writes for a timestamped window store. The broker
// deletes what is a day older than the retention by its own clock: before records are processed that late, raise the
// topic's retention.ms, else a store that is restored in full misses windows.
func WindowStore[K, V any](
	name string, key schemas.Codec[K], value schemas.Codec[V], retention time.Duration,
) WindowStoreOf[K, V] {
	return WindowStoreOf[K, V]{name: name, key: key, value: value, retention: retention}
}

// Name returns the name of the store.
func (s WindowStoreOf[K, V]) Name() string { return s.name }

// Retention returns how long a window can be read after its start.
func (s WindowStoreOf[K, V]) Retention() time.Duration { return s.retention }

// Open returns the typed view of bytes, which must be the bytes of this store. It is for tools and tests; a
// node gets its stores from [WindowStoreOf.In].
func (s WindowStoreOf[K, V]) Open(bytes state.Bytes) state.Window[K, V] {
	return state.NewWindow(bytes, state.Codec[K](s.key), state.Codec[V](s.value), s.layout())
}

// In returns the store of the task that t prepares. What is said of [StoreOf.In] holds for it.
func (s WindowStoreOf[K, V]) In(t *Setup) state.Window[K, V] {
	bytes, key, value := watch(t, s.name, s.key, s.value)
	return state.NewWindow(bytes, key, value, s.layout())
}

func (s WindowStoreOf[K, V]) info() (storeInfo, error) {
	return infoOfForgetting(s.name, s.layout(), s.retention, s.key, s.value)
}

func (s WindowStoreOf[K, V]) layout() state.Layout {
	return state.Layout{Kind: state.WindowKind, Retention: s.retention.Milliseconds()}
}

// infoOfForgetting is infoOf for a store that forgets by time.
func infoOfForgetting[K, V any](
	name string, layout state.Layout, retention time.Duration, key schemas.Codec[K], value schemas.Codec[V],
) (storeInfo, error) {
	info, err := infoOf(name, layout, key, value)
	if err == nil && retention%time.Millisecond != 0 {
		err = fmt.Errorf("the retention of a %s store is a whole number of milliseconds, not %s", layout.Kind, retention)
	}
	return info, err
}
