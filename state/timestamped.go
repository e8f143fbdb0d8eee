package state

import "iter"

// Timestamped is a typed view of a store of TimestampedKind: keys with values, each with the time
// that came with it, in milliseconds since the epoch. The store does nothing with the time but keep
// it: a value with a smaller time replaces one with a larger, and nothing expires. The time is the
// timestamp of the changelog record, as in the timestamped stores of Kafka Streams (KIP-258).
//
// As with KeyValue, entries are ordered by the encoded keys, and a view and its copies are for one
// goroutine.
type Timestamped[K, V any] struct {
	bytes  Bytes
	codecs codecs[K, V]
}

// TimestampedPair is one typed entry.
type TimestampedPair[K, V any] struct {
	Key   K
	Value V
	// Time is in milliseconds since the epoch.
	Time int64
}

// NewTimestamped returns the typed view of b, a store with the layout Layout{Kind:
// TimestampedKind}.
func NewTimestamped[K, V any](b Bytes, k Codec[K], v Codec[V]) Timestamped[K, V] {
	return Timestamped[K, V]{bytes: b, codecs: newCodecs(k, v)}
}

// Get returns the value of key and its time; ok is false when there is none.
func (s Timestamped[K, V]) Get(key K) (value V, ms int64, ok bool, err error) {
	k, err := s.codecs.key(key)
	if err != nil {
		return value, 0, false, err
	}
	return s.get(k)
}

// Put sets the value of key and its time. The error wraps ErrTime for a time that no record can
// have.
func (s Timestamped[K, V]) Put(key K, value V, ms int64) error {
	k, err := s.codecs.key(key)
	if err != nil {
		return err
	}
	return s.put(k, value, ms)
}

// PutIfAbsent sets the value of key and its time unless it has one, in which case that one is
// returned with present true and nothing is written.
func (s Timestamped[K, V]) PutIfAbsent(key K, value V, ms int64) (existing V, at int64, present bool, err error) {
	k, err := s.codecs.key(key)
	if err != nil {
		return existing, 0, false, err
	}
	if existing, at, present, err = s.get(k); err != nil || present {
		return existing, at, present, err
	}
	return existing, 0, false, s.put(k, value, ms)
}

// Delete removes key.
func (s Timestamped[K, V]) Delete(key K) error {
	k, err := s.codecs.key(key)
	if err != nil {
		return err
	}
	return s.bytes.Delete(k)
}

// All returns every entry, in the order of the encoded keys.
func (s Timestamped[K, V]) All() iter.Seq2[TimestampedPair[K, V], error] { return s.Scan(Range{}) }

// Scan returns the entries whose encoded keys are in r; EncodeKey makes its bounds. Ranging starts
// the scan, as for Bytes.Scan. An error, also one of a codec, is the last thing a scan yields.
func (s Timestamped[K, V]) Scan(r Range) iter.Seq2[TimestampedPair[K, V], error] {
	return func(yield func(TimestampedPair[K, V], error) bool) {
		for e, err := range s.bytes.Scan(r) {
			var p TimestampedPair[K, V]
			if err == nil {
				p, err = s.decode(e)
			}
			if err != nil {
				yield(TimestampedPair[K, V]{}, err)
				return
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// EncodeKey returns the encoded form of key in new memory.
func (s Timestamped[K, V]) EncodeKey(key K) ([]byte, error) { return s.codecs.encodeKey(key) }

func (s Timestamped[K, V]) get(key []byte) (value V, ms int64, ok bool, err error) {
	row, ok, err := s.bytes.Get(key)
	if err != nil || !ok {
		return value, 0, false, err
	}
	if value, ms, err = timedValue(s.codecs, row); err != nil {
		return value, 0, false, err
	}
	return value, ms, true, nil
}

func (s Timestamped[K, V]) put(key []byte, value V, ms int64) error {
	row, err := timedRow(s.codecs, value, ms)
	if err != nil {
		return err
	}
	return s.bytes.Put(key, row)
}

func (s Timestamped[K, V]) decode(e Entry) (p TimestampedPair[K, V], err error) {
	if p.Key, err = s.codecs.decodeKey(e.Key); err == nil {
		p.Value, p.Time, err = timedValue(s.codecs, e.Value)
	}
	return p, err
}

// timedRow returns the value of a row with a time in front, in new memory.
func timedRow[K, V any](c codecs[K, V], value V, ms int64) ([]byte, error) {
	if err := checkTime("put", ms); err != nil {
		return nil, err
	}
	return c.value(appendTime(c.buffer(), ms), value)
}

// timedValue takes apart what timedRow has made.
func timedValue[K, V any](c codecs[K, V], row []byte) (value V, ms int64, err error) {
	if len(row) < timeSize {
		return value, 0, errShortRow
	}
	value, err = c.decodeValue(row[timeSize:])
	return value, timeAt(row), err
}
