package measure

// HashEntry is the 64-bit FNV-1a of key and value, which Contents.java in package streams has, too:
// the sum of the hashes of all entries is the digest of a store, whatever their order. Keys are of
// one length, so it takes no separator.
func HashEntry(key, value []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, part := range [][]byte{key, value} {
		for _, b := range part {
			h = (h ^ uint64(b)) * 0x100000001b3
		}
	}
	return h
}
