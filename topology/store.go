package topology

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// Store describes a store with its types. It is a value that is made once, and named by the nodes
// that use it. S reads and writes its rows:
//
//	made by           S                        has a row for
//	KeyValueStore     state.KeyValue[K, V]     each key
//	TimestampedStore  state.Timestamped[K, V]  each key, with a time
//	WindowStore       state.Window[K, V]       each key and start of a window
//	SessionStore      state.Session[K, V]      each key and session
//	DedupeStore       state.Dedupe[ID, V]      each id, with a time
//	VersionedStore    state.Versioned[K, V]    each key and version
//
// The last four expire rows by the store's own stream time, after the retention. The retention is a
// whole number of milliseconds. It is a part of the store: with another retention a store is
// restored in full.
//
// Every task has a store of its own. Its changelog is <application>-<name>-changelog. The name
// lasts, because it finds the data again after an upgrade. A Store is immutable.
type Store[S any] struct {
	name      string
	retention time.Duration
	inMemory  bool
	// lost says that nothing restores the rows, which are in memory then.
	lost bool
	// key and value are the codecs, as schemas.Codec of the types in S.
	key, value any
	describe   func() (storeInfo, error)
	open       func(bytes state.Bytes) S
	in         func(t *Setup) S
}

// newStore returns a store whose rows view reads and writes.
func newStore[S, K, V any](
	name string, kind state.Kind, retention time.Duration, key schemas.Codec[K], value schemas.Codec[V],
	view func(bytes state.Bytes, key state.Codec[K], value state.Codec[V], layout state.Layout) S,
) Store[S] {
	layout := state.Layout{Kind: kind, Retention: retention.Milliseconds()}
	return Store[S]{
		name: name, retention: retention, key: key, value: value,
		describe: func() (storeInfo, error) { return infoOf(name, layout, retention, key, value) },
		open: func(bytes state.Bytes) S {
			return view(bytes, state.Codec[K](key), state.Codec[V](value), layout)
		},
		in: func(t *Setup) S {
			bytes, k, v := watch(t, name, key, value)
			return view(bytes, k, v, layout)
		},
	}
}

// KeyValueStore describes a store with a value for each key. Keys are found by their bytes, and
// scanned in the order of their bytes.
func KeyValueStore[K, V any](
	name string, key schemas.Codec[K], value schemas.Codec[V],
) Store[state.KeyValue[K, V]] {
	return newStore(name, state.KeyValueKind, 0, key, value,
		func(bytes state.Bytes, key state.Codec[K], value state.Codec[V], _ state.Layout) state.KeyValue[K, V] {
			return state.NewKeyValue(bytes, key, value)
		})
}

// TimestampedStore describes a key-value store that keeps a time with each value: see
// [state.Timestamped]. Tables are kept in such stores ([TableFrom], [Count]). A time that is too
// far ahead of the clock is a Validation failure of the record, because the changelog would refuse
// it.
func TimestampedStore[K, V any](
	name string, key schemas.Codec[K], value schemas.Codec[V],
) Store[state.Timestamped[K, V]] {
	return newStore(name, state.TimestampedKind, 0, key, value,
		func(bytes state.Bytes, key state.Codec[K], value state.Codec[V], _ state.Layout) state.Timestamped[K, V] {
			return state.NewTimestamped(bytes, key, value)
		})
}

// WindowStore describes a window store: see [state.Window], and [CountWindows] for aggregations in
// one. A window can be read and written for the retention after its start. The retention is at
// least the length of a window and the time that records can be late ([Windows.Retention]).
//
// The changelog has the format of a timestamped window store of Kafka Streams. The broker deletes
// records that are a day older than the retention by its own clock. Raise the topic's retention.ms
// before records are processed that late. Otherwise a store that is restored in full lacks windows.
func WindowStore[K, V any](
	name string, key schemas.Codec[K], value schemas.Codec[V], retention time.Duration,
) Store[state.Window[K, V]] {
	return newStore(name, state.WindowKind, retention, key, value, state.NewWindow[K, V])
}

// SessionStore describes a session store: see [state.Session]. A session can be read and written
// for the retention after its end. The retention is at least the gap that ends a session and the
// time that records can be late.
//
// The changelog has the format of a session store of Kafka Streams. The broker deletes its records
// as those of a [WindowStore].
func SessionStore[K, V any](
	name string, key schemas.Codec[K], value schemas.Codec[V], retention time.Duration,
) Store[state.Session[K, V]] {
	return newStore(name, state.SessionKind, retention, key, value, state.NewSession[K, V])
}

// DedupeStore describes a store that keeps ids for the retention, each with a time and a value: see
// [state.Dedupe]. An id is found again only if its records have the same partition. A time that is
// too far ahead of the clock is a Validation failure of the record, because the changelog would
// refuse it.
//
// The broker deletes records of the changelog as those of a [WindowStore].
func DedupeStore[ID, V any](
	name string, id schemas.Codec[ID], value schemas.Codec[V], retention time.Duration,
) Store[state.Dedupe[ID, V]] {
	return newStore(name, state.DedupeKind, retention, id, value, state.NewDedupe[ID, V])
}

// VersionedStore describes a store with the value of each key, and with earlier values for the
// retention after a newer one: see [state.Versioned]. A version that begins too far ahead of the
// clock is a Validation failure of the record.
//
// A table can be kept in such a store ([TableFrom], [Count]). It is versioned then, as in Kafka
// Streams (KIP-889, KIP-914):
//
//   - Values are ordered by their timestamps. A record that is older than the newest value of its
//     key goes into the history, and leaves the newest value. Its change is [Change.OutOfOrder].
//     One that is older than the retention is counted as "late" and left out.
//   - [JoinStreamTable] joins a record with the value that the table had at the time of the record.
//     [JoinStreamTableWithGrace] waits until late changes of the table have come.
//   - Joins of tables and [GroupTable] leave changes out that are out of order.
//   - [Table.Stream] and [Table.Into] pass all changes on.
//   - [Table.Filter] and [MapTable] make a versioned table of it. [Table.Suppress] and
//     [RestoreFromTopic] do not take one.
//
// Programs ask what was valid at a time with state.Versioned.GetAsOf, from txn.Read.
func VersionedStore[K, V any](
	name string, key schemas.Codec[K], value schemas.Codec[V], retention time.Duration,
) Store[state.Versioned[K, V]] {
	return newStore(name, state.VersionedKind, retention, key, value, state.NewVersioned[K, V])
}

// Name returns the name of the store.
func (s Store[S]) Name() string { return s.name }

// InMemory returns the store with its rows in memory, and none on the disk. Everything else stays:
// the changelog, the rows, the queries, and that each record counts exactly once.
//
//   - A task restores the store in full from its changelog whenever it is opened: at each start of
//     the process, and each time that the task comes from another process. A store on the disk
//     reads only what it has missed. So a store in memory is for few rows, or for disks that are
//     gone after a restart.
//   - The rows may be at most as many as memory holds. They count to the memory budget of the state
//     (--state-memory), which they can use up: nothing else bounds them.
//   - A checkpoint of a task does not have the store, and commands that read the state directory of
//     a stopped instance say that it is in memory.
//   - The brokers must not delete records that the store still needs. [WindowStore] says what that
//     is for the kinds with a retention. A restart stops the task otherwise, where a store on the
//     disk continues with its rows.
//
// All nodes that name the store must name it so. The other stores of a task stay on the disk. It is
// a mistake for a global table, and with [RestoreFromTopic]. Either form can become the other one:
// the store is then restored in full once more.
func (s Store[S]) InMemory() Store[S] {
	s.inMemory = true
	return s
}

// LostOnRestart returns the store with its rows in memory and without a changelog. All rows are
// lost whenever a task is opened: at each start of the process, when the task comes from another
// process, and when a stopped task is resumed. Only the code of [Stateful], [Process] and
// [ProcessValues] may use such a store, for what can be missing: the answers of another system, or
// what would only be done once more.
//
//   - While a task is open, the store is like any other: a failed record and an aborted round leave
//     nothing in it, and queries read committed rows.
//   - The offsets stay committed when the rows are lost. Records, outputs and other stores still
//     count exactly once. But what a record does can depend on rows, and so on the time of the last
//     restart or move.
//   - A record that a node has deferred in such a store ([DeferredOf]) is lost with it.
//   - Stream time of the kinds with a retention begins again with the rows.
//   - There is no topic, nothing is restored, and nothing is purged. The rows count to the memory
//     budget, as with InMemory.
//
// Tables, aggregations and global tables refuse such a store, because they promise results of all
// records. The store of a table whose topic can restore it needs no changelog either: see
// [RestoreFromTopic].
//
// A store that gets LostOnRestart leaves its changelog behind. Delete that topic before the option
// is taken away again, or give the store another name.
func (s Store[S]) LostOnRestart() Store[S] {
	s.inMemory, s.lost = true, true
	return s
}

// Open returns the typed view of bytes, which must be the bytes of this store. It is for tools and
// tests. A node gets its stores from [Store.In].
func (s Store[S]) Open(bytes state.Bytes) S { return s.open(bytes) }

// In returns the store of the task that t prepares. The node must name the store when it is
// declared. Otherwise NewGraph fails.
//
// A store that fails, or a row that cannot be decoded, stops the task, also if the handler ignores
// the error: other records would fail as well. An entry that is too large for the changelog is a
// Validation failure of the record.
func (s Store[S]) In(t *Setup) S { return s.in(t) }

// errNoStore is the mistake of a Store that was not made by a function such as KeyValueStore.
var errNoStore = errors.New("the store is the zero Store; a function such as KeyValueStore makes one")

// codecOf returns a codec of a store with its type.
func codecOf[T any](codec any) schemas.Codec[T] {
	c, _ := codec.(schemas.Codec[T])
	return c
}

func (s Store[S]) info() (storeInfo, error) {
	if s.describe == nil {
		return storeInfo{}, errNoStore
	}
	info, err := s.describe()
	info.inMemory, info.lost = s.inMemory, s.lost
	return info, err
}

// watch returns the bytes of a store for the node that t prepares, and its codecs, which report
// their failures. A store that the node did not declare is noted as a mistake.
func watch[K, V any](
	t *Setup, name string, key schemas.Codec[K], value schemas.Codec[V],
) (state.Bytes, state.Codec[K], state.Codec[V]) {
	bytes, layout, err := t.store(name)
	if err != nil {
		t.errs = append(t.errs, err)
		return missingStore{err}, state.Codec[K](key), state.Codec[V](value)
	}
	watched := &watchedStore{graph: t.graph, name: name, bytes: bytes, layout: layout}
	if limit := t.graph.config.MaxMessageBytes; limit != nil {
		watched.maxMessageBytes = int(limit(t.graph.topology.changelog(name)))
	}
	return watched, watchedCodec[K]{store: watched, codec: key}, watchedCodec[V]{store: watched, codec: value}
}

// infoOf describes a store, and says what is wrong with it.
func infoOf[K, V any](
	name string, layout state.Layout, retention time.Duration, key schemas.Codec[K], value schemas.Codec[V],
) (storeInfo, error) {
	info := storeInfo{name: name, layout: layout}
	var err error
	if info.formats, err = formatsOf(key, value); err != nil {
		return info, err
	}
	_, keyNull := key.(interface{ Null(v K) bool })
	_, valueNull := value.(interface{ Null(v V) bool })
	if keyNull || valueNull {
		return info, errors.New("Nullable codecs are for topics; a store has no nulls")
	}
	info.rows = rowsOf(key, value)
	if err := layout.Validate(); err != nil {
		return info, err
	}
	if retention%time.Millisecond != 0 {
		return info, fmt.Errorf("the retention of a %s store is a whole number of milliseconds, not %s", layout.Kind, retention)
	}
	return info, nil
}

// AnyStore is a [Store] of any kind and types.
type AnyStore interface {
	Name() string
	info() (storeInfo, error)
}

type storeInfo struct {
	name     string
	layout   state.Layout
	formats  formats
	rows     graph.Rows
	inMemory bool
	// lost implies inMemory.
	lost bool
}

// place is where the rows are, in words.
func (s storeInfo) place() string {
	switch {
	case s.lost:
		return graph.LostOnRestart
	case s.inMemory:
		return graph.InMemory
	}
	return graph.OnDisk
}

// formats are the names of the codecs of a topic or store.
type formats struct{ key, value string }

func (f formats) String() string { return "(" + f.key + ", " + f.value + ")" }

func formatsOf[K, V any](key schemas.Codec[K], value schemas.Codec[V]) (formats, error) {
	switch {
	case key == nil && value == nil:
		return formats{}, errors.New("the key codec and the value codec are nil")
	case key == nil:
		return formats{}, errors.New("the key codec is nil")
	case value == nil:
		return formats{}, errors.New("the value codec is nil")
	}
	return formats{key: key.Name(), value: value.Name()}, nil
}

// watchedStore reports failures of a store to the graph, so that user code cannot swallow them or
// have them taken for its own.
type watchedStore struct {
	graph  *Graph
	name   string
	bytes  state.Bytes
	layout state.Layout
	// maxMessageBytes is the limit of the changelog, 0 if it is not known.
	maxMessageBytes int
}

func (s *watchedStore) fault(op string, err error) error {
	class := Fatal
	if errors.Is(err, state.ErrCorrupt) {
		class = Corruption
	}
	err = fmt.Errorf("store %s: %s: %w", s.name, op, err)
	return s.graph.fail(s.graph.node, Fail(class, err))
}

func (s *watchedStore) Get(key []byte) ([]byte, bool, error) {
	value, ok, err := s.bytes.Get(key)
	if err != nil {
		return nil, false, s.fault("get", err)
	}
	if ok {
		if err := s.check(key, value); err != nil {
			return nil, false, s.fault("get", err)
		}
	}
	return value, ok, nil
}

// check looks at the parts of a row that no codec sees, so that what is wrong with them is the
// store's fault too.
func (s *watchedStore) check(key, value []byte) error {
	if s.layout == (state.Layout{}) {
		return nil
	}
	_, err := s.layout.Record(state.Write{Key: key, Value: value})
	return err
}

// Put refuses an entry that the changelog would refuse at commit time: one that is too large, or
// has a time too far ahead of the clock. The record fails.
func (s *watchedStore) Put(key, value []byte) error {
	record, err := s.record(state.Write{Key: key, Value: value})
	if err != nil {
		return s.fault("put", err)
	}
	if record.Timestamp != state.NoTime {
		if err := s.graph.checkTimestamp(record.Timestamp); err != nil {
			return s.graph.fail(s.graph.node, err)
		}
	}
	if err := s.fits(record); err != nil {
		return err
	}
	if err := s.bytes.Put(key, value); err != nil {
		return s.fault("put", err)
	}
	s.graph.wrote = true
	return nil
}

// Delete refuses a key that is too large for the changelog, as Put does: the tombstone of a missing
// key is a record too.
func (s *watchedStore) Delete(key []byte) error {
	record, err := s.record(state.Write{Key: key, Delete: true})
	if err != nil {
		return s.fault("delete", err)
	}
	if err := s.fits(record); err != nil {
		return err
	}
	if err := s.bytes.Delete(key); err != nil {
		return s.fault("delete", err)
	}
	s.graph.wrote = true
	return nil
}

// record returns what a write will be in the changelog.
func (s *watchedStore) record(w state.Write) (state.ChangelogRecord, error) {
	if s.layout == (state.Layout{}) {
		return state.ChangelogRecord{Key: w.Key, Value: w.Value, Timestamp: state.NoTime}, nil
	}
	return s.layout.Record(w)
}

// fits fails the record whose write is too large for the changelog.
func (s *watchedStore) fits(record state.ChangelogRecord) error {
	if s.maxMessageBytes <= 0 {
		return nil
	}
	size := batchBytes(&graph.Output{Key: record.Key, Value: record.Value})
	if size <= s.maxMessageBytes {
		return nil
	}
	return s.graph.fail(s.graph.node, Fail(Validation, schemas.Reason(fmt.Sprintf(
		"an entry of store %s has %d bytes as a batch of its own, its changelog takes %d "+
			"(max.message.bytes)", s.name, size, s.maxMessageBytes))))
}

func (s *watchedStore) StreamTime() int64 { return s.bytes.StreamTime() }

// Advance refuses a time that is too far ahead of the clock, as Put does. A stream time never goes
// back, so one wrong clock would expire everything in the store. The record fails, whatever it
// writes next.
func (s *watchedStore) Advance(ms int64) {
	if err := s.graph.checkTimestamp(ms); err != nil {
		_ = s.graph.fail(s.graph.node, err)
		return
	}
	s.bytes.Advance(ms)
}

func (s *watchedStore) Scan(r state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for entry, err := range s.bytes.Scan(r) {
			if err == nil {
				err = s.check(entry.Key, entry.Value)
			}
			if err != nil {
				yield(state.Entry{}, s.fault("scan", err))
				return
			}
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// KeyRows implements [state.KeyReader] if the store does.
func (s *watchedStore) KeyRows(dst []state.Entry, r state.KeyRange) ([]state.Entry, bool, error) {
	reader, ok := s.bytes.(state.KeyReader)
	if !ok {
		return dst, false, nil
	}
	n := len(dst)
	dst, ok, err := reader.KeyRows(dst, r)
	for i := n; i < len(dst) && err == nil; i++ {
		err = s.check(dst[i].Key, dst[i].Value)
	}
	if err != nil {
		return dst[:n], false, s.fault("scan", err)
	}
	return dst, ok, nil
}

// watchedCodec reports rows that cannot be decoded as corruption. A value that cannot be encoded is
// the record's fault.
type watchedCodec[T any] struct {
	store *watchedStore
	codec schemas.Codec[T]
}

func (c watchedCodec[T]) Append(dst []byte, v T) ([]byte, error) { return c.codec.Append(dst, v) }

func (c watchedCodec[T]) Decode(b []byte) (T, error) {
	v, err := c.codec.Decode(b)
	if err != nil {
		err = fmt.Errorf("store %s: %w", c.store.name, err)
		err = c.store.graph.fail(c.store.graph.node, Fail(Corruption, err))
	}
	return v, err
}

// missingStore stands in for a store that a node did not declare, so that a factory can run to its
// end and all its mistakes are reported together.
type missingStore struct{ err error }

func (s missingStore) Get([]byte) ([]byte, bool, error) { return nil, false, s.err }
func (s missingStore) Put([]byte, []byte) error         { return s.err }
func (s missingStore) Delete([]byte) error              { return s.err }
func (s missingStore) StreamTime() int64                { return 0 }
func (s missingStore) Advance(int64)                    {}
func (s missingStore) Scan(state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) { yield(state.Entry{}, s.err) }
}
