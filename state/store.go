package state

import (
	"hash/fnv"
	"iter"
)

// StoreID is the 4-byte FNV-1a hash of a store's stable name. It prefixes the store's keys on disk.
// So renaming a Go variable or reordering a builder never moves data, and the length of the name
// costs nothing. NewTask and Database.Declare refuse two names of one task with the same hash.
type StoreID uint32

// IDOf returns the id of the store of that name.
func IDOf(name string) StoreID {
	h := fnv.New32a()
	h.Write([]byte(name)) // a hash.Hash never returns an error
	return StoreID(h.Sum32())
}

// Entry is one key with its value.
type Entry struct {
	// Key and Value must not be modified. Both stay valid for ever.
	Key, Value []byte
}

// Range selects keys, compared byte by byte. The zero value selects all of them in ascending order.
type Range struct {
	// From is the first key; nil is open.
	From []byte
	// To is the first key behind the range; nil is open. An empty To that is not nil selects
	// nothing.
	To []byte
	// Reverse gives the same entries, last one first.
	Reverse bool
}

// Contains reports whether key is in r.
func (r Range) Contains(key []byte) bool {
	return string(key) >= string(r.From) && (r.To == nil || string(key) < string(r.To))
}

// Prefix returns the range of all keys that begin with prefix.
func Prefix(prefix []byte) Range {
	to := append([]byte(nil), prefix...)
	for i := len(to) - 1; i >= 0; i-- {
		if to[i] < 0xff {
			to[i]++
			return Range{From: prefix, To: to[:i+1]}
		}
	}
	// The prefix has only 0xff bytes: no key is behind all keys with it.
	return Range{From: prefix}
}

// Bytes is one store of one task as a processor sees it: the open round over the rounds in flight
// over the committed state.
//
// A key may be empty; nil is the same as empty. A value may be empty, which is not the same as
// absent; nil is stored as empty. Like its Task, a Bytes belongs to one goroutine.
type Bytes interface {
	// Get returns the value of key; ok is false when there is none. The value must not be modified.
	// It stays valid for ever: its memory is never reused.
	Get(key []byte) (value []byte, ok bool, err error)
	// Put sets the value of key. It copies key and takes ownership of value: the caller must not
	// change it afterwards.
	Put(key, value []byte) error
	// Delete removes key. Deleting an absent key is a write too: it becomes a tombstone in the
	// changelog.
	Delete(key []byte) error
	// Scan returns the entries in r in the order of their keys. Ranging over the sequence starts a
	// scan; it sees the writes made before it started and none made during it. An error is the last
	// element of a scan.
	Scan(r Range) iter.Seq2[Entry, error]
	// StreamTime returns the largest time that was given to Advance, in milliseconds since the
	// epoch, 0 before the first one. It is part of the state: a failed record does not change it,
	// and Positions have the committed value.
	StreamTime() int64
	// Advance raises the stream time to ms; a smaller ms changes nothing. Stores with a retention
	// (Kind.Expires) call it with the time of each write.
	Advance(ms int64)
}

// Codec turns values into bytes and back. A codec of package schemas satisfies it without importing
// this package.
type Codec[T any] interface {
	// Append appends the encoded form of v to dst.
	Append(dst []byte, v T) ([]byte, error)
	// Decode returns the value encoded in b. It must not keep b.
	Decode(b []byte) (T, error)
}
