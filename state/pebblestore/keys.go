package pebblestore

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"

	"github.com/onceward/onceward/state"
)

// The key space: 'm' is about the database, 's' is data. FORMAT.md describes both.
const (
	dataPrefix     = 's'
	dataPrefixSize = 1 + 4
	storePrefix    = "m/store/"
)

var (
	formatKey    = []byte("m/format")
	positionsKey = []byte("m/positions")
)

// formatMajor is the first byte of the value of formatKey. A database with another one is refused.
// Further bytes belong to a newer minor version and are ignored.
const formatMajor = 1

// putDataPrefix writes the prefix of a store's keys to the front of dst.
func putDataPrefix(dst []byte, store state.StoreID) {
	dst[0] = dataPrefix
	binary.BigEndian.PutUint32(dst[1:], uint32(store))
}

// appendDataKey appends the database's key for a key of a store.
func appendDataKey(dst []byte, store state.StoreID, key []byte) []byte {
	dst = append(dst, dataPrefix)
	dst = binary.BigEndian.AppendUint32(dst, uint32(store))
	return append(dst, key...)
}

// groupPrefix is where dataPrefix is, in memory, for all rows of a key together. No key in Pebble
// begins with it.
const groupPrefix = 'g'

// appendGroupKey appends the key of a group: the database key of one of its rows without the suffix
// of that size, and with the other prefix.
func appendGroupKey(dst, key []byte, suffix int) []byte {
	dst = append(dst, key[:len(key)-suffix]...)
	dst[len(dst)-len(key)+suffix] = groupPrefix
	return dst
}

// storeOf returns the store of a database key, if it is one of data.
func storeOf(key []byte) (state.StoreID, bool) {
	if len(key) < dataPrefixSize || key[0] != dataPrefix {
		return 0, false
	}
	return state.StoreID(binary.BigEndian.Uint32(key[1:])), true
}

// bounds returns the range of the database's keys for a range of a store's keys. Upper is
// exclusive.
func bounds(store state.StoreID, r state.Range) (lower, upper []byte) {
	lower = appendDataKey(nil, store, r.From)
	switch {
	case r.To != nil:
		upper = appendDataKey(nil, store, r.To)
	case store == 1<<32-1:
		upper = []byte{dataPrefix + 1}
	default:
		upper = appendDataKey(nil, store+1, nil)
	}
	return lower, upper
}

// nameKey returns the key under which the name of a store is kept.
func nameKey(id state.StoreID) []byte { return fmt.Appendf(nil, "%s%08x", storePrefix, uint32(id)) }

// parseNameKey is the inverse of nameKey.
func parseNameKey(key []byte) (state.StoreID, bool) {
	digits, ok := strings.CutPrefix(string(key), storePrefix)
	id, err := strconv.ParseUint(digits, 16, 32)
	return state.StoreID(id), ok && err == nil && string(nameKey(state.StoreID(id))) == string(key)
}

var hashSeed = maphash.MakeSeed()

// hashOf returns the hash of a database key by which everything in memory finds it.
func hashOf(key []byte) uint64 { return maphash.Bytes(hashSeed, key) }

// keyBuffers saves the allocation of a key for each Get: what is passed to Pebble escapes.
var keyBuffers = sync.Pool{New: func() any { return new([]byte) }}
