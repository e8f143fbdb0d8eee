package state

import (
	"hash/maphash"
	"iter"
	"math"
	"strconv"
)

// Versioned is a typed view of a store of VersionedKind. It keeps the present value of each key for
// ever, and earlier values for the history retention. A version is valid from a time on, in
// milliseconds since the epoch, until the next version of its key. It has a value, or says that the
// key was deleted. It corresponds to a versioned key-value store of Kafka Streams (KIP-889), with
// the same changelog.
//
// # Time
//
// The store's stream time is the largest time ever put. The history begins at stream time -
// retention. Times from then on can be asked for. A version that was superseded then or earlier is
// out of sight at once, whether its row is still there or not. The latest version of a key never
// is. A version that would begin before the history is not stored: Put and Delete say so.
//
// # The changelog
//
// Compaction keeps the last record of each key of a changelog, and all versions of one key have the
// same record key. So the last record has to be that of the latest version, or a restore would
// bring back an old value. A version that comes out of order is followed by the latest version of
// its key, written again in the same round. A round writes its rows in their order, the latest of a
// key last.
//
// # Cost
//
// A Put at or after the stream time reads nothing; an earlier one looks up the next version. A
// lookup is one short scan, backwards from the stream time or from the given time. The rows of two
// keys can be mixed if one key is the other one followed by bytes that look like a past time (at
// least two zero bytes). Rows are told apart exactly, but a scan steps over those of the other key.
//
// A view and its copies are for one goroutine, like the Bytes below.
type Versioned[K, V any] struct {
	bytes  Bytes
	layout Layout
	codecs codecs[K, V]
	bounds *versionBounds
}

// versionBounds are the buffers for the bounds of lookups, and where the last ones ended.
type versionBounds struct {
	from, to []byte
	// recent has, by a hash of the key, the begin of its latest version when it was last read. It
	// is only a place to start: a lookup that finds a version from there on has found the latest
	// one, even if the entry is of another key. Without it, each lookup of a key with thousands of
	// versions in the open round would collect all of them.
	recent [256]recentVersion
	seed   maphash.Seed
}

type recentVersion struct {
	hash uint64
	at   int64
}

// slot returns the place of a key, which another key may have.
func (b *versionBounds) slot(key []byte) (slot *recentVersion, hash uint64) {
	hash = maphash.Bytes(b.seed, key)
	return &b.recent[hash%uint64(len(b.recent))], hash
}

// Placement says where Put and Delete have put a version.
type Placement uint8

const (
	// NotPlaced says that nothing was written: the version would begin before the history.
	NotPlaced Placement = iota
	// PlacedInHistory says that the key has a later version.
	PlacedInHistory
	// PlacedLatest says that the version is the latest of its key.
	PlacedLatest
)

var placementNames = [...]string{"not placed", "placed in the history", "placed latest"}

// String returns the placement in words.
func (p Placement) String() string {
	if int(p) < len(placementNames) {
		return placementNames[p]
	}
	return "placement " + strconv.Itoa(int(p))
}

// Forever is the end of a version that is the latest of its key.
const Forever int64 = math.MaxInt64

// Version is a value with the times at which it was valid: From <= t < To.
type Version[V any] struct {
	Value V
	// From is in milliseconds since the epoch, and so is To, which is Forever for the latest
	// version.
	From, To int64
}

// VersionedPair is the latest version of one key.
type VersionedPair[K, V any] struct {
	Key   K
	Value V
	// From is where the version begins, in milliseconds since the epoch.
	From int64
}

// NewVersioned returns the typed view of b, a store with the layout l, which is of VersionedKind.
func NewVersioned[K, V any](b Bytes, k Codec[K], v Codec[V], l Layout) Versioned[K, V] {
	return Versioned[K, V]{bytes: b, layout: l, codecs: newCodecs(k, v),
		bounds: &versionBounds{seed: maphash.MakeSeed()}}
}

// Put makes value the one of key from validFrom on, until the next version that there is, in place
// of a version that begins at the same time. The version is NotPlaced when validFrom is before the
// history. The error wraps ErrTime for a time that no record can have.
func (s Versioned[K, V]) Put(key K, value V, validFrom int64) (Placement, error) {
	row, err := s.codecs.value(append(s.codecs.buffer(), versionValue), value)
	if err != nil {
		return NotPlaced, err
	}
	return s.put(key, row, validFrom)
}

// Delete makes key have no value from validFrom on, until the next version that there is. It is a
// version too, and stored as Put says.
func (s Versioned[K, V]) Delete(key K, validFrom int64) (Placement, error) {
	return s.put(key, []byte{versionDeleted}, validFrom)
}

func (s Versioned[K, V]) put(key K, row []byte, validFrom int64) (Placement, error) {
	if err := checkTime("put", validFrom); err != nil {
		return NotPlaced, err
	}
	k, err := s.codecs.key(key)
	if err != nil {
		return NotPlaced, err
	}
	s.bytes.Advance(validFrom)
	now := s.bytes.StreamTime()
	if !s.layout.Live(validFrom, now) {
		return NotPlaced, nil
	}
	if err := s.bytes.Put(appendTime(k, validFrom), row); err != nil {
		return NotPlaced, err
	}
	// No version begins behind the stream time, so that what begins there is the latest.
	if validFrom < now {
		latest, ok, err := s.last(k, validFrom+1, now)
		if err != nil {
			return NotPlaced, err
		}
		if ok {
			if err := s.bytes.Put(latest.Key, latest.Value); err != nil {
				return NotPlaced, err
			}
			return PlacedInHistory, nil
		}
	}
	slot, hash := s.bounds.slot(k)
	*slot = recentVersion{hash, validFrom}
	return PlacedLatest, nil
}

// Get returns the value of key now, and since when it is valid; ok is false when there is none.
func (s Versioned[K, V]) Get(key K) (value V, from int64, ok bool, err error) {
	return s.at(key, s.bytes.StreamTime())
}

// GetAsOf returns the value that key had at time t, and since when. ok is false when it had none.
// For t before the history, ok is false unless the latest version of the key was valid then. Times
// ahead of the stream time are like now.
func (s Versioned[K, V]) GetAsOf(key K, t int64) (value V, from int64, ok bool, err error) {
	now := s.bytes.StreamTime()
	if t < 0 {
		return value, 0, false, nil
	}
	if s.layout.Live(t, now) {
		return s.at(key, min(t, now))
	}
	v, from, ok, err := s.at(key, now)
	if err != nil || !ok || from > t {
		return value, 0, false, err
	}
	return v, from, true, nil
}

func (s Versioned[K, V]) at(key K, t int64) (value V, from int64, ok bool, err error) {
	k, err := s.codecs.key(key)
	if err != nil {
		return value, 0, false, err
	}
	e, ok, err := s.last(k, 0, t)
	if err != nil || !ok {
		return value, 0, false, err
	}
	value, ok, err = s.value(e)
	return value, versionTime(e.Key), ok, err
}

// History returns the versions of key that were valid at some time in from..to, both included,
// oldest first, as far as they are in the history. The latest version is always there. Times
// without a value are left out: they are where one version ends before the next one begins. Ranging
// starts the scan, as for Bytes.Scan. An error is the last thing that is yielded.
func (s Versioned[K, V]) History(key K, from, to int64) iter.Seq2[Version[V], error] {
	return s.history(key, from, to, false)
}

// HistoryReverse returns what History does, latest first.
func (s Versioned[K, V]) HistoryReverse(key K, from, to int64) iter.Seq2[Version[V], error] {
	return s.history(key, from, to, true)
}

func (s Versioned[K, V]) history(key K, from, to int64, reverse bool) iter.Seq2[Version[V], error] {
	return func(yield func(Version[V], error) bool) {
		k, err := s.codecs.encodeKey(key)
		if err != nil {
			yield(Version[V]{}, err)
			return
		}
		now := s.bytes.StreamTime()
		oldest := s.layout.oldestReadable(now)
		if from > to || to < 0 {
			return
		}
		if to < oldest {
			s.latest(k, to, now, yield)
			return
		}
		from := max(from, oldest, 0)
		// The first version is the one that was valid at from. The last one ends where the first
		// behind to begins.
		first, last := from, now
		e, ok, err := s.find(k, 0, min(from, now), true)
		if ok {
			first = versionTime(e.Key)
		}
		if err == nil && to < now {
			if e, ok, err = s.find(k, to+1, now, false); ok {
				last = versionTime(e.Key)
			}
		}
		if err != nil {
			yield(Version[V]{}, err)
			return
		}
		walk := s.forward
		if reverse {
			walk = s.backward
		}
		walk(k, first, last, to, yield)
	}
}

// latest yields the latest version of a key if it began at to or before it.
func (s Versioned[K, V]) latest(key []byte, to, now int64, yield func(Version[V], error) bool) {
	e, ok, err := s.find(key, 0, now, true)
	switch {
	case err != nil:
		yield(Version[V]{}, err)
	case ok && versionTime(e.Key) <= to:
		s.emit(e, Forever, yield)
	}
}

// forward yields the versions that begin in first..last and not after to.
func (s Versioned[K, V]) forward(key []byte, first, last, to int64, yield func(Version[V], error) bool) {
	var open Entry
	emit := func(end int64) bool {
		if open.Key == nil || versionTime(open.Key) > to {
			return true
		}
		return s.emit(open, end, yield)
	}
	for e, err := range s.rows(key, first, last, false) {
		if err != nil {
			yield(Version[V]{}, err)
			return
		}
		if !emit(versionTime(e.Key)) {
			return
		}
		open = e
	}
	emit(Forever)
}

// backward is forward, latest first.
func (s Versioned[K, V]) backward(key []byte, first, last, to int64, yield func(Version[V], error) bool) {
	end := Forever
	for e, err := range s.rows(key, first, last, true) {
		if err != nil {
			yield(Version[V]{}, err)
			return
		}
		if versionTime(e.Key) <= to && !s.emit(e, end, yield) {
			return
		}
		end = versionTime(e.Key)
	}
}

// emit yields a row as the version that ends there, if it has a value, and reports whether to go
// on.
func (s Versioned[K, V]) emit(e Entry, end int64, yield func(Version[V], error) bool) bool {
	value, ok, err := s.value(e)
	switch {
	case err != nil:
		yield(Version[V]{}, err)
		return false
	case !ok:
		return true
	default:
		return yield(Version[V]{Value: value, From: versionTime(e.Key), To: end}, nil)
	}
}

// All returns the latest version of every key that has a value; see Scan.
func (s Versioned[K, V]) All() iter.Seq2[VersionedPair[K, V], error] { return s.Scan(Range{}) }

// EncodeKey returns the encoded form of key in new memory.
func (s Versioned[K, V]) EncodeKey(key K) ([]byte, error) { return s.codecs.encodeKey(key) }

// last returns the last row of key with a time in from..to.
func (s Versioned[K, V]) last(key []byte, from, to int64) (Entry, bool, error) {
	slot, hash := s.bounds.slot(key)
	if slot.hash == hash && slot.at > from && slot.at <= to {
		if e, ok, err := s.find(key, slot.at, to, true); ok || err != nil {
			return e, ok, err
		}
	}
	e, ok, err := s.find(key, from, to, true)
	if ok {
		*slot = recentVersion{hash, versionTime(e.Key)}
	}
	return e, ok, err
}

// find returns the first row of key with a time in from..to, or the last one. The row's key is
// valid for ever.
func (s Versioned[K, V]) find(key []byte, from, to int64, reverse bool) (Entry, bool, error) {
	if from > to {
		return Entry{}, false, nil
	}
	b := s.bounds
	b.from = appendTime(append(b.from[:0], key...), from)
	b.to = append(appendTime(append(b.to[:0], key...), to), 0)
	for e, err := range s.bytes.Scan(Range{From: b.from, To: b.to, Reverse: reverse}) {
		if err != nil {
			return Entry{}, false, err
		}
		if len(e.Key) == len(key)+timeSize {
			return e, true, nil
		}
	}
	return Entry{}, false, nil
}

// rows returns the rows of key with a time in from..to. Within these bounds a row of that length is
// of that key: all that is between key and key is key.
func (s Versioned[K, V]) rows(key []byte, from, to int64, reverse bool) iter.Seq2[Entry, error] {
	r := Range{
		From:    versionKey(key, from),
		To:      append(versionKey(key, to), 0),
		Reverse: reverse,
	}
	return func(yield func(Entry, error) bool) {
		if from > to {
			return
		}
		for e, err := range s.bytes.Scan(r) {
			if err == nil && len(e.Key) != len(key)+timeSize {
				continue
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// value returns the value of a version; ok is false for a deleted one.
func (s Versioned[K, V]) value(e Entry) (value V, ok bool, err error) {
	b, ok := versionOf(e.Value)
	if !ok {
		return value, false, errShortRow
	}
	if b == nil {
		return value, false, nil
	}
	value, err = s.codecs.decodeValue(b)
	return value, err == nil, err
}

// versionKey returns the key of a row in new memory, with room for one more byte.
func versionKey(key []byte, ms int64) []byte {
	return appendTime(append(make([]byte, 0, len(key)+timeSize+1), key...), ms)
}

// versionTime is where the version of a row begins.
func versionTime(row []byte) int64 { return timeAt(row[len(row)-timeSize:]) }
