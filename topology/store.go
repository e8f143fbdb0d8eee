package topology

import (
	"errors"
	"fmt"
	"iter"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// StoreOf is a key-value store with its types: a value that is made once, with [Store], and named by the
// nodes that use it. Every task has a store of its own, whose changelog is <application>-<name>-changelog.
// It is immutable.
type StoreOf[K, V any] struct {
	name  string
	key   schemas.Codec[K]
	value schemas.Codec[V]
}

// Store describes a key-value store. The name is for ever: it finds the data again after an upgrade. Keys
// are found by their bytes and scanned in the order of their bytes.
func Store[K, V any](name string, key schemas.Codec[K], value schemas.Codec[V]) StoreOf[K, V] {
	return StoreOf[K, V]{name: name, key: key, value: value}
}

// Name returns the name of the store.
func (s StoreOf[K, V]) Name() string { return s.name }

// Open returns the typed view of bytes, which must be the bytes of this store. It is for tools and tests; a
// node gets its stores from [StoreOf.In].
func (s StoreOf[K, V]) Open(bytes state.Bytes) state.KeyValue[K, V] {
	return state.NewKeyValue(bytes, state.Codec[K](s.key), state.Codec[V](s.value))
}

// In returns the store of the task that t prepares. The node must have named the store when it was
// declared; if not, NewGraph fails.
//
// A store that fails, or a row that cannot be decoded, stops the task whatever the handler makes of the
// error: it is no fault of the record, and a neighbouring record would not fare better. An entry that is too
// large for the changelog is a Validation failure of the record.
func (s StoreOf[K, V]) In(t *Setup) state.KeyValue[K, V] {
	bytes, key, value := watch(t, s.name, s.key, s.value)
	return state.NewKeyValue(bytes, key, value)
}

// watch returns the bytes of a store for the node that t prepares, and its codecs, which report their
// failures. A store that the node did not declare is noted as a mistake.
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

func (s StoreOf[K, V]) info() (storeInfo, error) {
	return infoOf(s.name, state.Layout{}, s.key, s.value)
}

// infoOf describes a store, and says what is wrong with it.
func infoOf[K, V any](name string, layout state.Layout, key schemas.Codec[K], value schemas.Codec[V]) (storeInfo, error) {
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
	return info, layout.Validate()
}

// AnyStore is a store of any kind and types, such as a [StoreOf].
type AnyStore interface {
	Name() string
	info() (storeInfo, error)
}

// TypedStore is a store of any kind whose rows are read and written as an S: a [StoreOf] as a state.KeyValue, a
// [WindowStoreOf] as a state.Window, and so on. It is what a function takes that works with every kind; S is
// inferred from the store that it is called with:
//
//	var hits topology.WindowStoreOf[string, int64]
//	view, err := txn.Read(app, hits, 0) // view.Store() is a state.Window[string, int64]
//
// Like every description of a store it is immutable.
type TypedStore[S any] interface {
	AnyStore
	// In returns the store of the task that t prepares, for the handlers of the node; see [StoreOf.In].
	In(t *Setup) S
	// Open returns the typed view of bytes, which must be the bytes of this store.
	Open(bytes state.Bytes) S
}

type storeInfo struct {
	name    string
	layout  state.Layout
	formats formats
	rows    graph.Rows
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

// watchedStore reports failures of a store to the graph, so that user code cannot swallow them or have them
// taken for its own.
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

// check looks at the parts of a row that no codec sees, so that what is wrong with them is the store's fault too.
func (s *watchedStore) check(key, value []byte) error {
	if s.layout == (state.Layout{}) {
		return nil
	}
	_, err := s.layout.Record(state.Write{Key: key, Value: value})
	return err
}

// Put refuses what the changelog would refuse at commit time: an entry that is too large, a time that is too
// far ahead of the clock. That is the fault of the record.
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

// Delete refuses a key that is too large for the changelog, as Put does: the tombstone of a key that was never there
// is a record too.
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

// Advance refuses a time that is too far ahead of the clock, as Put does: a stream time never goes back, so that one
// bad clock would expire all that the store holds. It is the fault of the record, which fails whatever is written
// next.
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

// watchedCodec reports rows that cannot be decoded as corruption. A value that cannot be encoded is the
// record's fault.
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

// missingStore stands in for a store that a node did not declare, so that a factory can run to its end and
// all its mistakes are reported together.
type missingStore struct{ err error }

func (s missingStore) Get([]byte) ([]byte, bool, error) { return nil, false, s.err }
func (s missingStore) Put([]byte, []byte) error         { return s.err }
func (s missingStore) Delete([]byte) error              { return s.err }
func (s missingStore) StreamTime() int64                { return 0 }
func (s missingStore) Advance(int64)                    {}
func (s missingStore) Scan(state.Range) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) { yield(state.Entry{}, s.err) }
}
