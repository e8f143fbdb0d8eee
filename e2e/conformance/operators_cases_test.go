package conformance

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology"
)

// The windows of all operators, the interval of punctuations, and where the wall clock begins, in
// milliseconds; the Java program has the same.
const (
	windowSize     = 10
	windowAdvance  = 3
	windowGrace    = 5
	punctuateEvery = 7
	clockStart     = 1_000_000
)

// caseRecord is an input. A key or value that is absent is null.
type caseRecord struct {
	topic   string
	at      int64
	key     topology.Option[string]
	value   topology.Option[int64]
	headers []topology.Header
	// clock is not 0 where the wall clock moves on by so many milliseconds, and there is no record.
	clock int64
}

// operatorCase is one run of one operator.
type operatorCase struct {
	operator, name string
	caseTraits
	records []caseRecord
	// leaps has the wall clock of Kafka Streams leap. Otherwise it moves by the millisecond, so
	// that what is due in between is due there too.
	leaps bool
}

// caseOutputs are lines of topic, timestamp, key, value and headers, topic by topic in the order of
// their names. The last line says how many records were dropped.
type caseOutputs []string

// text is the form of the case that the Java program reads.
func (c operatorCase) text() string {
	var s strings.Builder
	s.WriteString("case " + c.operator)
	if !c.headerless {
		s.WriteString(" headers")
	}
	if !c.uncounted {
		s.WriteString(" dropped")
	}
	s.WriteString("\n")
	for _, r := range c.records {
		switch {
		case r.clock == 0:
			fmt.Fprintf(&s, "%s %d %s %s%s\n", r.topic, r.at, hexOf(r.keyBytes()), hexOf(r.valueBytes()), headersText(r.headers))
		case c.leaps:
			fmt.Fprintf(&s, "clock %d\n", r.clock)
		default:
			s.WriteString(strings.Repeat("clock 1\n", int(r.clock)))
		}
	}
	s.WriteString("end\n")
	return s.String()
}

// headersText writes a blank, the name and the value of each header. A nil value is null.
func headersText(headers []topology.Header) string {
	var s strings.Builder
	for _, h := range headers {
		fmt.Fprintf(&s, " %s=%s", h.Key, hexOf(h.Value))
	}
	return s.String()
}

// people writes the records for people.
func (c operatorCase) people() string {
	var s strings.Builder
	for _, r := range c.records {
		if r.clock > 0 {
			fmt.Fprintf(&s, "  the wall clock moves on by %d ms\n", r.clock)
			continue
		}
		value := "null"
		if v, ok := r.value.Get(); ok {
			value = fmt.Sprint(v)
		}
		fmt.Fprintf(&s, "  %s at %d: %s = %s%s\n", r.topic, r.at, r.key.Or("null"), value, headersText(r.headers))
	}
	return s.String()
}

func (r caseRecord) keyBytes() []byte {
	key, ok := r.key.Get()
	if !ok {
		return nil
	}
	return []byte(key)
}

func (r caseRecord) valueBytes() []byte {
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

func keyValue(topic string, at int64, key string, value int64) caseRecord {
	return caseRecord{topic: topic, at: at, key: topology.Some(key), value: topology.Some(value)}
}

func deletion(topic string, at int64, key string) caseRecord {
	return caseRecord{topic: topic, at: at, key: topology.Some(key)}
}

func keyless(topic string, at, value int64) caseRecord {
	return caseRecord{topic: topic, at: at, value: topology.Some(value)}
}

// clockMoves is where the wall clock moves on.
func clockMoves(millis int64) caseRecord { return caseRecord{clock: millis} }

// with returns r with one more header. A nil value is null.
func (r caseRecord) with(name string, value []byte) caseRecord {
	r.headers = append(slices.Clip(r.headers), topology.Header{Key: name, Value: value})
	return r
}

// caseTraits are what an operator's cases may have in them.
type caseTraits struct {
	// topics are what it reads.
	topics []string
	// negative allows negative timestamps, valueTimes makes the values times; with both of them it
	// is the values that are negative.
	negative, valueTimes bool
	// headerless leaves out the headers of what is written.
	headerless bool
	// wallClock has the wall clock move between the records.
	wallClock bool
	// uncounted leaves out how many records were dropped.
	uncounted bool
	// nullsBehind has no record with a null come with a time that is ahead of the others.
	nullsBehind bool
	// deletesApart has no delete come with the timestamp of an earlier record of its key.
	deletesApart bool
	// settled compares what the outputs add up to: the last record of each key that is no delete.
	settled bool
}

// limitNulls makes records with a null no later than the latest one before them.
func limitNulls(records []caseRecord) []caseRecord {
	records = slices.Clone(records)
	latest := int64(0)
	for i, r := range records {
		_, key := r.key.Get()
		_, value := r.value.Get()
		if key && value {
			latest = max(latest, r.at)
		} else {
			records[i].at = min(r.at, latest)
		}
	}
	return records
}

// partDeletes gives later timestamps to deletes that have the one of an earlier record of their
// key.
func partDeletes(records []caseRecord) []caseRecord {
	type moment struct {
		topic, key string
		at         int64
	}
	records = slices.Clone(records)
	taken := map[moment]bool{}
	for i, r := range records {
		key, _ := r.key.Get()
		m := moment{r.topic, key, r.at}
		if _, value := r.value.Get(); !value {
			for taken[m] {
				m.at++
			}
		}
		records[i].at, taken[m] = m.at, true
	}
	return records
}

// randomRecords makes a case from a seed.
func randomRecords(r *rand.Rand, t caseTraits) []caseRecord {
	records := make([]caseRecord, 1+r.IntN(40))
	now := int64(1000)
	if r.IntN(4) == 0 {
		now = 0 // the first windows do not begin before the epoch
	}
	latest := now
	for i := range records {
		if t.wallClock && r.IntN(4) == 0 {
			records[i] = clockMoves(1 + int64(r.IntN(3*punctuateEvery)))
			continue
		}
		switch r.IntN(10) {
		case 0: // equal
		case 1: // late by up to more than everything keeps
			now = max(latest-int64(r.IntN(3*(windowSize+windowGrace))), 0)
		case 2: // at a boundary
			now = max(latest-latest%windowSize+int64(r.IntN(3))-1-int64(r.IntN(2))*windowGrace, 0)
		case 3: // ahead
			now = latest + int64(r.IntN(5*windowSize))
		default:
			now = latest + int64(r.IntN(4))
		}
		latest = max(latest, now)
		rec := keyValue(t.topics[r.IntN(len(t.topics))], now, string("abcd"[r.IntN(4)]), int64(r.IntN(25)-5))
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
			if before := -1 - int64(r.IntN(5)); t.valueTimes {
				rec.value = topology.Some(before)
			} else {
				rec.at = before
			}
		}
		for range r.IntN(4) {
			rec = rec.with([]string{"id", "trace", "drop"}[r.IntN(3)], [][]byte{nil, {}, {byte(r.IntN(256))}}[r.IntN(3)])
		}
		records[i] = rec
	}
	return records
}

// namedRecords are the cases that every operator has, beside the random ones.
func namedRecords(t caseTraits) map[string][]caseRecord {
	first, last := t.topics[0], t.topics[len(t.topics)-1]
	cases := map[string][]caseRecord{
		"no records": {},
		"out of order": {
			keyValue(first, 1020, "a", 1), keyValue(last, 1005, "a", 2), keyValue(first, 1011, "b", 3), keyValue(first, 1003, "a", 4),
			keyValue(last, 1019, "b", 5),
		},
		// The window of 1000 closes at 1000+size+grace.
		"late at the grace boundary": {
			keyValue(first, 1000, "a", 1), keyValue(first, 1000+windowSize+windowGrace-1, "b", 2), keyValue(first, 1009, "a", 3),
			keyValue(first, 1000+windowSize+windowGrace, "b", 4), keyValue(first, 1009, "a", 5), keyValue(first, 1000+windowSize+windowGrace+1, "b", 6),
			keyValue(first, 1009, "a", 7), keyValue(first, 1010, "a", 8),
		},
		"null keys": {
			keyless(first, 1000, 1), keyValue(first, 1001, "a", 2), keyless(last, 1100, 3), keyValue(last, 1001, "a", 4),
			keyValue(first, 1002, "", 5),
		},
		"null values": {
			deletion(first, 1000, "a"), keyValue(first, 1001, "a", 1), deletion(first, 1002, "a"), keyValue(last, 1003, "a", 2),
			deletion(last, 1004, "b"),
		},
		"tombstones": {
			keyValue(first, 1000, "a", 1), keyValue(last, 1001, "a", 2), deletion(first, 1002, "a"), deletion(first, 1003, "a"),
			deletion(last, 1004, "a"), deletion(last, 1005, "a"), keyValue(last, 1006, "a", 3), keyValue(first, 1007, "a", 4),
			deletion(last, 999, "a"),
		},
		"equal timestamps": {
			keyValue(first, 1000, "a", 1), keyValue(last, 1000, "a", 2), keyValue(first, 1000, "b", 3), keyValue(first, 1000, "a", 1),
			deletion(first, 1000, "a"), keyValue(last, 1000, "b", 4),
		},
		"key changes": {
			keyValue(first, 1000, "a", 1), keyValue(first, 1001, "a", 2), keyValue(first, 1002, "a", 4), keyValue(last, 1003, "b", 4),
			keyValue(first, 1004, "a", 1), deletion(first, 1005, "a"), keyValue(first, 1006, "b", 1), keyValue(last, 1007, "a", 7),
		},
		"windows at the epoch": {
			keyValue(first, 0, "a", 1), keyValue(first, 2, "a", 2), keyValue(first, 9, "a", 3), keyValue(first, 10, "a", 4),
			keyValue(first, 0, "a", 5), keyValue(first, 15, "b", 6), keyValue(first, 1, "a", 7),
		},
		"a jump over many windows": {
			keyValue(first, 1000, "b", 1), keyValue(first, 1004, "a", 2), keyValue(first, 1012, "c", 3), keyValue(first, 5000, "a", 4),
			keyValue(first, 1012, "c", 5), keyValue(first, 9000, "d", 6),
		},
		"headers": {
			keyValue(first, 1000, "a", 2).with("id", []byte{1}).with("trace", []byte{2}), keyValue(last, 1001, "b", 4),
			keyValue(first, 1002, "a", 6).with("drop", []byte{3}).with("id", nil).with("drop", nil).with("id", []byte{}).with("id", nil),
			deletion(last, 1003, "a").with("trace", []byte{}), keyless(first, 1004, 8).with("id", []byte("a longer value")),
		},
	}
	if t.negative {
		cases["negative timestamps"] = []caseRecord{
			keyValue(first, 1000, "a", 1), keyValue(first, -1, "a", 2), keyValue(first, 1005, "a", 3), keyValue(first, -1000, "b", 4),
			keyValue(first, 1001, "a", 5),
		}
	}
	if t.negative && t.valueTimes {
		cases["negative times in the values"] = []caseRecord{
			keyValue(first, 1, "a", 1000), keyValue(first, 2, "b", -1), keyValue(first, 3, "a", 1005), keyValue(first, 4, "b", -1000), keyValue(first, 5, "a", 1001),
		}
	}
	if t.wallClock {
		cases["the wall clock passes"] = []caseRecord{
			clockMoves(punctuateEvery - 1), clockMoves(1), keyValue(first, 1000, "a", 1), clockMoves(punctuateEvery), keyValue(first, 1001, "b", 2), keyValue(last, 1002, "a", 4),
			clockMoves(punctuateEvery - 1), keyValue(first, 1003, "c", 3), clockMoves(1), clockMoves(3 * punctuateEvery), deletion(first, 1004, "b"), clockMoves(punctuateEvery + 1),
			clockMoves(punctuateEvery - 1), clockMoves(1),
		}
		cases["the wall clock passes, and no record comes"] = []caseRecord{clockMoves(10 * punctuateEvery)}
	}
	if t.valueTimes {
		cases["times in the values"] = []caseRecord{
			keyValue(first, 5, "a", 1000), keyValue(first, 4, "a", 1005), keyValue(first, 3, "a", 1020), keyValue(first, 2, "a", 1003),
			keyValue(first, 1, "a", 7), keyValue(first, 9000, "a", 1021), keyValue(first, 1, "a", -5),
		}
	}
	return cases
}
