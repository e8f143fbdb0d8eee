package differential

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/onceward/onceward/topology"
)

// The windows of all operators, in milliseconds; the Java program has the same.
const (
	size    = 10
	advance = 3
	grace   = 5
)

// record is an input. A key or value that is absent is null.
type record struct {
	topic string
	at    int64
	key   topology.Option[string]
	value topology.Option[int64]
}

// testCase is one run of one operator.
type testCase struct {
	operator, name string
	records        []record
}

// outputs are lines of topic, timestamp, key and value, topic by topic in the order of their names.
type outputs []string

// text is the form of the records that the Java program reads.
func (c testCase) text() string {
	var s strings.Builder
	for _, r := range c.records {
		fmt.Fprintf(&s, "%s %d %s %s\n", r.topic, r.at, hexOf(r.keyBytes()), hexOf(r.valueBytes()))
	}
	return s.String()
}

// people writes the records for people.
func (c testCase) people() string {
	var s strings.Builder
	for _, r := range c.records {
		value := "null"
		if v, ok := r.value.Get(); ok {
			value = fmt.Sprint(v)
		}
		fmt.Fprintf(&s, "  %s at %d: %s = %s\n", r.topic, r.at, r.key.Or("null"), value)
	}
	return s.String()
}

func (r record) keyBytes() []byte {
	key, ok := r.key.Get()
	if !ok {
		return nil
	}
	return []byte(key)
}

func (r record) valueBytes() []byte {
	value, ok := r.value.Get()
	if !ok {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(value))
}

func hexOf(b []byte) string {
	if b == nil {
		return "-"
	}
	return "x" + hex.EncodeToString(b)
}

func some(topic string, at int64, key string, value int64) record {
	return record{topic, at, topology.Some(key), topology.Some(value)}
}

func deletion(topic string, at int64, key string) record {
	return record{topic, at, topology.Some(key), topology.None[int64]()}
}

func keyless(topic string, at, value int64) record {
	return record{topic, at, topology.None[string](), topology.Some(value)}
}

// traits are what an operator's cases may have in them.
type traits struct {
	// topics are what it reads.
	topics []string
	// negative allows negative timestamps, valueTimes makes the values times.
	negative, valueTimes bool
}

// random makes a case from a seed.
func random(r *rand.Rand, t traits) []record {
	records := make([]record, 1+r.IntN(40))
	now := int64(1000)
	if r.IntN(4) == 0 {
		now = 0 // the first windows do not begin before the epoch
	}
	latest := now
	for i := range records {
		switch r.IntN(10) {
		case 0: // equal
		case 1: // late by up to more than everything keeps
			now = max(latest-int64(r.IntN(3*(size+grace))), 0)
		case 2: // at a boundary
			now = max(latest-latest%size+int64(r.IntN(3))-1-int64(r.IntN(2))*grace, 0)
		case 3: // ahead
			now = latest + int64(r.IntN(5*size))
		default:
			now = latest + int64(r.IntN(4))
		}
		latest = max(latest, now)
		rec := some(t.topics[r.IntN(len(t.topics))], now, string("abcd"[r.IntN(4)]), int64(r.IntN(25)-5))
		if t.valueTimes {
			rec.value = topology.Some(now + int64(r.IntN(7)-3))
		}
		if r.IntN(8) == 0 {
			rec.value = topology.None[int64]()
		}
		if r.IntN(25) == 0 {
			rec.key = topology.None[string]()
		}
		if t.negative && i > 0 && r.IntN(8) == 0 {
			rec.at = -1 - int64(r.IntN(5))
		}
		records[i] = rec
	}
	return records
}

// named are the cases that every operator has, beside the random ones.
func named(t traits) map[string][]record {
	first, last := t.topics[0], t.topics[len(t.topics)-1]
	cases := map[string][]record{
		"no records": {},
		"out of order": {
			some(first, 1020, "a", 1), some(last, 1005, "a", 2), some(first, 1011, "b", 3), some(first, 1003, "a", 4),
			some(last, 1019, "b", 5),
		},
		// The window of 1000 closes at 1000+size+grace.
		"late at the grace boundary": {
			some(first, 1000, "a", 1), some(first, 1000+size+grace-1, "b", 2), some(first, 1009, "a", 3),
			some(first, 1000+size+grace, "b", 4), some(first, 1009, "a", 5), some(first, 1000+size+grace+1, "b", 6),
			some(first, 1009, "a", 7), some(first, 1010, "a", 8),
		},
		"null keys": {
			keyless(first, 1000, 1), some(first, 1001, "a", 2), keyless(last, 1100, 3), some(last, 1001, "a", 4),
			some(first, 1002, "", 5),
		},
		"null values": {
			deletion(first, 1000, "a"), some(first, 1001, "a", 1), deletion(first, 1002, "a"), some(last, 1003, "a", 2),
			deletion(last, 1004, "b"),
		},
		"tombstones": {
			some(first, 1000, "a", 1), some(last, 1001, "a", 2), deletion(first, 1002, "a"), deletion(first, 1003, "a"),
			deletion(last, 1004, "a"), deletion(last, 1005, "a"), some(last, 1006, "a", 3), some(first, 1007, "a", 4),
			deletion(last, 999, "a"),
		},
		"equal timestamps": {
			some(first, 1000, "a", 1), some(last, 1000, "a", 2), some(first, 1000, "b", 3), some(first, 1000, "a", 1),
			deletion(first, 1000, "a"), some(last, 1000, "b", 4),
		},
		"key changes": {
			some(first, 1000, "a", 1), some(first, 1001, "a", 2), some(first, 1002, "a", 4), some(last, 1003, "b", 4),
			some(first, 1004, "a", 1), deletion(first, 1005, "a"), some(first, 1006, "b", 1), some(last, 1007, "a", 7),
		},
		"windows at the epoch": {
			some(first, 0, "a", 1), some(first, 2, "a", 2), some(first, 9, "a", 3), some(first, 10, "a", 4),
			some(first, 0, "a", 5), some(first, 15, "b", 6), some(first, 1, "a", 7),
		},
		"a jump over many windows": {
			some(first, 1000, "b", 1), some(first, 1004, "a", 2), some(first, 1012, "c", 3), some(first, 5000, "a", 4),
			some(first, 1012, "c", 5), some(first, 9000, "d", 6),
		},
	}
	if t.negative {
		cases["negative timestamps"] = []record{
			some(first, 1000, "a", 1), some(first, -1, "a", 2), some(first, 1005, "a", 3), some(first, -1000, "b", 4),
			some(first, 1001, "a", 5),
		}
	}
	if t.valueTimes {
		cases["times in the values"] = []record{
			some(first, 5, "a", 1000), some(first, 4, "a", 1005), some(first, 3, "a", 1020), some(first, 2, "a", 1003),
			some(first, 1, "a", 7), some(first, 9000, "a", 1021), some(first, 1, "a", -5),
		}
	}
	return cases
}
