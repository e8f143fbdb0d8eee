package graph

import "testing"

// TestMurmur2 has the vectors of Kafka's own test of its hash.
func TestMurmur2(t *testing.T) {
	for key, hash := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != hash {
			t.Errorf("murmur2(%q) is %d, want %d", key, got, hash)
		}
	}
}

// TestPartitionOf: the sign bit is dropped, as Kafka's toPositive does, and not the sign changed.
func TestPartitionOf(t *testing.T) {
	for key, want := range map[string]int32{
		"21":     (-973932308 & 0x7fffffff) % 6,
		"foobar": (-790332482 & 0x7fffffff) % 6,
		"abc":    479470107 % 6,
		"":       275646681 % 6,
	} {
		if got := PartitionOf([]byte(key), 6); got != want {
			t.Errorf("PartitionOf(%q, 6) is %d, want %d", key, got, want)
		}
	}
}
