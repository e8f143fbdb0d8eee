package check

import "hash/fnv"

// Hash returns a hash of a record's key or value that is never 0, which stands for a tombstone's
// value.
func Hash(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b) // never fails
	return max(mix(h.Sum64()), 1)
}

// HashEntry combines the hashes of an entry's key and value. Digests are the XOR of it over all
// entries, so that they do not depend on the order and an entry can be taken out again.
func HashEntry(key, value uint64) uint64 { return mix(key ^ mix(value)) }

// HashID is the hash of a message's id for digests of ids.
func HashID(id uint32) uint64 { return mix(uint64(id)) }

// mix spreads every bit of x over all bits (the finaliser of SplitMix64), because FNV alone leaves
// similar inputs similar.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
