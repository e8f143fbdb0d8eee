package restore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
)

// fill adds a write with the pages that it needs.
func fill(c *chunk, key, value []byte) {
	if !c.fits(key, value) {
		c.grow(make([]byte, max(pageSize, writeMax+len(key)+len(value))))
	}
	if c.indexFull() {
		c.growIndex(make([]entry, 0, cap(c.entries)+entriesPerPage))
	}
	c.add(key, value)
}

// keyKinds are shapes of keys that take different ways through the sort.
var keyKinds = []struct {
	name string
	key  func(rng *rand.Rand) []byte
}{
	{"random", func(rng *rand.Rand) []byte { return randomKey(rng, 16, 256) }},
	{"short, of two bytes", func(rng *rand.Rand) []byte { return randomKey(rng, rng.IntN(4), 2) }},
	{"around the size of a prefix", func(rng *rand.Rand) []byte { return randomKey(rng, 9+rng.IntN(5), 2) }},
	{"long with a common part", func(rng *rand.Rand) []byte {
		return append(bytes.Repeat([]byte("x"), 40), randomKey(rng, rng.IntN(30), 2)...)
	}},
	{"numbers", func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "account-%08d", rng.IntN(3000)) }},
	{"few hot keys", func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "%d a key of more than one prefix", rng.IntN(3)) }},
	{"one key", func(*rand.Rand) []byte { return []byte("k") }},
	{"no key", func(*rand.Rand) []byte { return nil }},
	{"zeros of any number", func(rng *rand.Rand) []byte { return make([]byte, rng.IntN(40)) }},
}

func randomKey(rng *rand.Rand, n, values int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.IntN(values))
	}
	return b
}

// TestChunkIsLastWritePerKeyInOrder: against a map, for every shape of keys.
func TestChunkIsLastWritePerKeyInOrder(t *testing.T) {
	var c chunk
	for _, kind := range keyKinds {
		for _, n := range []int{0, 1, 2, insertionMax, insertionMax + 1, 300, 20_000} {
			rng := rand.New(rand.NewPCG(uint64(n), 1))
			want := map[string]string{}
			for i := range n {
				key, value := kind.key(rng), fmt.Appendf(nil, "value %d", i)
				switch rng.IntN(10) {
				case 0:
					value = nil
				case 1:
					value = []byte{}
				case 2:
					value = bytes.Repeat(value, 30) // more than one byte of length
				}
				fill(&c, key, value)
				want[string(key)] = describe(value)
			}
			last := ""
			got := 0
			for w := range c.all(7) {
				if w.Store != 7 || w.Delete != (w.Value == nil) || want[string(w.Key)] != describe(w.Value) {
					t.Fatalf("%s, %d writes: key %x has %s, want %s", kind.name, n, w.Key, describe(w.Value), want[string(w.Key)])
				}
				if got > 0 && string(w.Key) <= last {
					t.Fatalf("%s, %d writes: key %x follows %x", kind.name, n, w.Key, last)
				}
				last = string(w.Key)
				got++
			}
			if got != len(want) {
				t.Errorf("%s, %d writes: %d keys, want %d", kind.name, n, got, len(want))
			}
			c.reset()
		}
	}
}

func describe(value []byte) string {
	if value == nil {
		return "a deletion"
	}
	return "the value " + string(value)
}

// TestChunkTakesLargeWrites: a write that is larger than a page has one of its own, and those
// around it are not touched.
func TestChunkTakesLargeWrites(t *testing.T) {
	var c chunk
	large := strings.Repeat("l", 3*pageSize)
	for i := range 5 {
		fill(&c, fmt.Appendf(nil, "small %d", i), []byte("v"))
		fill(&c, fmt.Appendf(nil, "large %d", i), []byte(large))
		fill(&c, fmt.Appendf(nil, "%d%s", i, large), nil)
	}
	var keys []string
	for w := range c.all(0) {
		if key := string(w.Key); strings.HasPrefix(key, "large") != (len(w.Value) == len(large)) {
			t.Errorf("key %.10s has %d bytes", key, len(w.Value))
		}
		keys = append(keys, string(w.Key))
	}
	if len(keys) != 15 || !slices.IsSorted(keys) {
		t.Errorf("%d keys, in order: %t", len(keys), slices.IsSorted(keys))
	}
}

// TestChunkStopsWhenAsked: a range over it may end early.
func TestChunkStopsWhenAsked(t *testing.T) {
	var c chunk
	for i := range 10 {
		fill(&c, []byte{byte(i)}, nil)
	}
	n := 0
	for range c.all(0) {
		if n++; n == 3 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d writes", n)
	}
}

// BenchmarkChunk is what a record costs between the decoder and the database.
func BenchmarkChunk(b *testing.B) {
	for _, kind := range []string{"random", "numbers", "few hot keys", "one key"} {
		i := slices.IndexFunc(keyKinds, func(k struct {
			name string
			key  func(rng *rand.Rand) []byte
		}) bool {
			return k.name == kind
		})
		const n = 400_000
		rng := rand.New(rand.NewPCG(1, 1))
		keys := make([][]byte, n)
		for j := range keys {
			keys[j] = keyKinds[i].key(rng)
		}
		b.Run(kind, func(b *testing.B) {
			var c chunk
			var free [][]byte
			value := make([]byte, 12)
			for b.Loop() {
				for _, key := range keys {
					if !c.fits(key, value) {
						if len(free) == 0 {
							free = append(free, make([]byte, pageSize))
						}
						c.grow(free[len(free)-1])
						free = free[:len(free)-1]
					}
					if c.indexFull() {
						c.growIndex(make([]entry, 0, max(2*cap(c.entries), entriesPerPage)))
					}
					c.add(key, value)
				}
				for w := range c.all(state.StoreID(1)) {
					_ = w
				}
				free, _ = c.reset()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
	}
}
