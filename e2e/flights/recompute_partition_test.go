package flights

// partitionOf returns the partition, of n, of a record with that key: Kafka's default partitioner,
// written here from the definition of 32-bit MurmurHash2 (Austin Appleby, public domain) with
// Kafka's seed.
func partitionOf(key string, n int32) int32 {
	const m uint32 = 0x5bd1e995
	hash := uint32(0x9747b28c) ^ uint32(len(key))
	whole := len(key) / 4 * 4
	for i := 0; i < whole; i += 4 {
		k := uint32(key[i]) | uint32(key[i+1])<<8 | uint32(key[i+2])<<16 | uint32(key[i+3])<<24
		k *= m
		k ^= k >> 24
		hash = hash*m ^ k*m
	}
	if rest := key[whole:]; rest != "" {
		for i := range rest {
			hash ^= uint32(rest[i]) << (8 * i)
		}
		hash *= m
	}
	hash ^= hash >> 13
	hash *= m
	hash ^= hash >> 15
	return int32(hash&0x7fffffff) % n
}
