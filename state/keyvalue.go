package state

import "iter"

// KeyValue is a typed view of a store: keys and values of Go types through codecs. Copies share a
// buffer, so that a KeyValue and its copies are for one goroutine, like the Bytes below.
//
// Entries are ordered by the encoded keys, byte by byte. That is the order of the Go values only
// for codecs that keep it (strings, big-endian integers).
type KeyValue[K, V any] struct {
	bytes  Bytes
	codecs codecs[K, V]
}

// Pair is one typed entry.
type Pair[K, V any] struct {
	Key   K
	Value V
}

// NewKeyValue returns the typed view of b.
func NewKeyValue[K, V any](b Bytes, k Codec[K], v Codec[V]) KeyValue[K, V] {
	return KeyValue[K, V]{bytes: b, codecs: newCodecs(k, v)}
}

// Get returns the value of key; ok is false when there is none.
func (s KeyValue[K, V]) Get(key K) (value V, ok bool, err error) {
	k, err := s.codecs.key(key)
	if err != nil {
		return value, false, err
	}
	return s.get(k)
}

// Put sets the value of key.
func (s KeyValue[K, V]) Put(key K, value V) error {
	k, err := s.codecs.key(key)
	if err != nil {
		return err
	}
	return s.put(k, value)
}

// PutIfAbsent sets the value of key unless it has one, in which case that one is returned with
// present true and nothing is written.
func (s KeyValue[K, V]) PutIfAbsent(key K, value V) (existing V, present bool, err error) {
	k, err := s.codecs.key(key)
	if err != nil {
		return existing, false, err
	}
	if existing, present, err = s.get(k); err != nil || present {
		return existing, present, err
	}
	return existing, false, s.put(k, value)
}

// Delete removes key.
func (s KeyValue[K, V]) Delete(key K) error {
	k, err := s.codecs.key(key)
	if err != nil {
		return err
	}
	return s.bytes.Delete(k)
}

// All returns every entry, in the order of the encoded keys.
func (s KeyValue[K, V]) All() iter.Seq2[Pair[K, V], error] { return s.Scan(Range{}) }

// Scan returns the entries whose encoded keys are in r; EncodeKey makes its bounds. Ranging starts
// the scan, as for Bytes.Scan. An error, also one of a codec, is the last thing a scan yields.
func (s KeyValue[K, V]) Scan(r Range) iter.Seq2[Pair[K, V], error] {
	return func(yield func(Pair[K, V], error) bool) {
		for e, err := range s.bytes.Scan(r) {
			var p Pair[K, V]
			if err == nil {
				p, err = s.decode(e)
			}
			if err != nil {
				yield(Pair[K, V]{}, err)
				return
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// EncodeKey returns the encoded form of key in new memory.
func (s KeyValue[K, V]) EncodeKey(key K) ([]byte, error) { return s.codecs.encodeKey(key) }

func (s KeyValue[K, V]) get(key []byte) (value V, ok bool, err error) {
	b, ok, err := s.bytes.Get(key)
	if err != nil || !ok {
		return value, false, err
	}
	if value, err = s.codecs.decodeValue(b); err != nil {
		return value, false, err
	}
	return value, true, nil
}

func (s KeyValue[K, V]) put(key []byte, value V) error {
	b, err := s.codecs.value(s.codecs.buffer(), value)
	if err != nil {
		return err
	}
	return s.bytes.Put(key, b)
}

func (s KeyValue[K, V]) decode(e Entry) (p Pair[K, V], err error) {
	if p.Key, err = s.codecs.decodeKey(e.Key); err == nil {
		p.Value, err = s.codecs.decodeValue(e.Value)
	}
	return p, err
}
