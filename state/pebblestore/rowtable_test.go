package pebblestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// tableModel is a rowTable with what its rows have to be if they are there.
type tableModel struct {
	t     *testing.T
	table rowTable
	rows  map[string][]byte // nil for a deleted one
	limit int64
}

func newTableModel(t *testing.T, limit int64) *tableModel {
	m := &tableModel{t: t, rows: make(map[string][]byte), limit: limit}
	t.Cleanup(m.table.clear)
	return m
}

func (m *tableModel) get(key string) (found bool) {
	m.t.Helper()
	r := m.table.get(hashOf([]byte(key)), []byte(key))
	if r == nil {
		return false
	}
	want, ok := m.rows[key]
	if !ok || r.is(rowDeleted) != (want == nil) || !bytes.Equal(r.value(), want) {
		m.t.Fatalf("key %s: a row of %d bytes, deleted %t; want %d bytes, deleted %t", key, r.valueLen(), r.is(rowDeleted), len(want), want == nil)
	}
	return true
}

func (m *tableModel) put(key string, value []byte) {
	m.rows[key] = value
	if m.table.find(hashOf([]byte(key)), []byte(key)) < 0 {
		m.table.put(hashOf([]byte(key)), []byte(key), value, m.limit)
	}
}

func (m *tableModel) update(key string, value []byte, deleted bool) {
	m.rows[key] = value
	if deleted {
		m.rows[key] = nil
	}
	m.table.update(hashOf([]byte(key)), []byte(key), value, deleted, m.limit)
}

// check looks at every slot and every row once.
func (m *tableModel) check() {
	m.t.Helper()
	t, places := &m.table, map[int]bool{}
	for number, s := range t.segments {
		if s.data == nil && s.used > 0 || s.used > segmentBytes {
			m.t.Fatalf("segment %d has %d bytes", number, s.used)
		}
		for at := 0; at < s.used; at += row(s.data[at:]).size() {
			places[number*segmentBytes+at] = true
		}
	}
	referred := 0
	for at, s := range t.slots {
		if s.at == 0 {
			continue
		}
		referred++
		if !places[int(s.at-1)*8] {
			m.t.Fatalf("slot %d refers to no row", at)
		}
		if r := t.row(s); tagOf(hashOf(r.key())) != s.tag || t.find(hashOf(r.key()), r.key()) != at {
			m.t.Fatalf("slot %d refers to a row that it should not", at)
		}
	}
	if referred != t.count {
		m.t.Fatalf("%d rows, %d slots", t.count, referred)
	}
}

// TestRowTable: whatever is done, a row that is found is the last one that was written, and the
// table is whole and within its memory.
func TestRowTable(t *testing.T) {
	seeds := uint64(20)
	if RaceDetector {
		seeds = 4 // each in one goroutine
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			m := newTableModel(t, int64(64+rng.IntN(400))<<10)
			keys, size := 200+rng.IntN(8000), 1+rng.IntN(600)
			value := func() []byte {
				v := make([]byte, rng.IntN(size))
				for i := range v {
					v[i] = byte(rng.Uint32())
				}
				return v
			}
			found := 0
			for n := range 30_000 {
				key := fmt.Sprint(rng.IntN(keys))
				switch kind := rng.IntN(100); {
				case kind < 50:
					if m.get(key) {
						found++
					} else if v, ok := m.rows[key]; !ok || v != nil {
						m.put(key, value())
					}
				case kind < 85:
					m.update(key, value(), false)
				case kind < 95:
					m.update(key, nil, true)
				case kind < 97:
					m.update(key, make([]byte, rowBytesMax-len(key)+rng.IntN(2)), false)
				case kind == 99 && rng.IntN(200) == 0:
					m.limit = int64(64+rng.IntN(1000)) << 10
				}
				if n%1000 == 0 {
					m.check()
				}
			}
			m.check()
			if found < 1000 {
				t.Errorf("%d lookups found a row", found)
			}
			for n := range 2 * keys { // whatever the limit was
				key := fmt.Sprint("more ", n)
				m.put(key, value())
			}
			m.check()
			if held := m.table.held(); held > m.limit+int64(segmentBytes) {
				t.Errorf("%d bytes are held of %d", held, m.limit)
			}
		})
	}
}

// TestRowTableUsesItsMemory: as long as rows fit, with what each of them takes beside its bytes,
// they all stay; when there are more, those that are asked for do, and of those that nobody prefers
// as many as there is room for.
func TestRowTableUsesItsMemory(t *testing.T) {
	if RaceDetector {
		t.Skip("looks up hundreds of thousands of rows, in one goroutine")
	}
	scale := 4
	if testing.Short() {
		scale = 1
	}
	limit := int64(scale) << 20
	fill := func(keys, lookups, hot int) (hits float64, m *tableModel) {
		m, lookups, hot = newTableModel(t, limit), lookups*scale, hot*scale
		rng, value := rand.New(rand.NewPCG(3, uint64(keys))), make([]byte, 24)
		asked, found := 0, 0
		for n := range lookups {
			k := rng.IntN(keys)
			if hot > 0 && n%2 == 0 {
				k = rng.IntN(hot)
			}
			key := fmt.Sprintf("key%010d", k)
			there := m.get(key)
			if !there {
				m.put(key, value)
			}
			if n > lookups/2 && (hot == 0 || k < hot) {
				asked++
				if there {
					found++
				}
			}
		}
		m.check()
		return float64(found) / float64(asked), m
	}
	// 37 bytes, 8 before them, 3 for the next to begin where it should, and 10 to 15 in the table
	// of slots.
	const each = 48 + 15
	if hits, m := fill(int(limit)*9/10/each, 250_000, 0); hits < 0.999 || m.table.reclaimed > 0 {
		t.Errorf("rows that fit: %.3f of lookups found one, %d segments were reclaimed", hits, m.table.reclaimed)
	}
	if hits, _ := fill(2*int(limit)/each, 250_000, 0); hits < 0.4 {
		t.Errorf("twice as many rows: %.3f of lookups found one", hits)
	}
	if hits, _ := fill(50*int(limit)/each, 500_000, 1250); hits < 0.98 {
		t.Errorf("hot rows among many: %.3f of lookups found one", hits)
	}
}

// TestRowTableOfOneRowIsSmall, for a process with hundreds of databases.
func TestRowTableOfOneRowIsSmall(t *testing.T) {
	m := newTableModel(t, 1<<30)
	m.put("k", []byte("v"))
	if held := m.table.held(); held > segmentBytes+8*slotsMin {
		t.Errorf("%d bytes are held for a row", held)
	}
}
