package pebblestore

import (
	"testing"

	"github.com/onceward/onceward/state"
)

// FuzzParseNameKey: a key is that of a store's name only in the one form in which it is written.
func FuzzParseNameKey(f *testing.F) {
	f.Add(nameKey(0))
	f.Add(nameKey(state.IDOf("store")))
	f.Add(nameKey(1<<32 - 1))
	f.Add([]byte(storePrefix))
	f.Add([]byte(storePrefix + "+0000001"))
	f.Add([]byte(storePrefix + "0000000A"))
	f.Fuzz(func(t *testing.T, key []byte) {
		id, ok := parseNameKey(key)
		if ok && string(nameKey(id)) != string(key) {
			t.Fatalf("%q is taken for the name of %08x", key, uint32(id))
		}
	})
}
