package statetest

import (
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
)

// timedRow names a row. A window starts and ends at the same time here, which makes it a session of one moment:
// what a store says of the times of its rows is then one thing for both kinds.
type timedRow struct {
	key        string
	start, end int64
}

type timedValue struct {
	value string
	// timestamp is 0 in sessions, which have none.
	timestamp int64
}

type timedEntry struct {
	timedRow
	timedValue
}

// timedStore is a window store or a session store.
type timedStore interface {
	put(r timedRow, v timedValue) (stored bool, err error)
	// putIfAbsent does nothing, with done false, where the kind has no such method.
	putIfAbsent(r timedRow, v timedValue) (existing string, present, stored, done bool, err error)
	get(r timedRow) (v timedValue, ok bool, err error)
	delete(r timedRow) error
	// fetch and scan return what ends at from or later and starts at to or earlier.
	fetch(key string, from, to int64, reverse bool) iter.Seq2[timedEntry, error]
	scan(r state.Range, from, to int64) iter.Seq2[timedEntry, error]
}

type windowStore struct {
	w state.Window[string, string]
}

func (s windowStore) put(r timedRow, v timedValue) (bool, error) {
	return s.w.Put(r.key, r.start, v.value, v.timestamp)
}

func (s windowStore) putIfAbsent(r timedRow, v timedValue) (existing string, present, stored, done bool, err error) {
	existing, present, stored, err = s.w.PutIfAbsent(r.key, r.start, v.value, v.timestamp)
	return existing, present, stored, true, err
}

func (s windowStore) get(r timedRow) (v timedValue, ok bool, err error) {
	v.value, v.timestamp, ok, err = s.w.Get(r.key, r.start)
	return v, ok, err
}

func (s windowStore) delete(r timedRow) error { return s.w.Delete(r.key, r.start) }

func (s windowStore) fetch(key string, from, to int64, reverse bool) iter.Seq2[timedEntry, error] {
	if reverse {
		return timedEntries(s.w.FetchReverse(key, from, to), entryOfWindow)
	}
	return timedEntries(s.w.Fetch(key, from, to), entryOfWindow)
}

func (s windowStore) scan(r state.Range, from, to int64) iter.Seq2[timedEntry, error] {
	return timedEntries(s.w.Scan(r, from, to), entryOfWindow)
}

func entryOfWindow(e state.WindowEntry[string, string]) timedEntry {
	return timedEntry{timedRow{e.Key, e.Start, e.Start}, timedValue{e.Value, e.Time}}
}

type sessionStore struct {
	s state.Session[string, string]
}

func (s sessionStore) put(r timedRow, v timedValue) (bool, error) {
	return s.s.Put(r.key, r.start, r.end, v.value)
}

func (sessionStore) putIfAbsent(timedRow, timedValue) (existing string, present, stored, done bool, err error) {
	return "", false, false, false, nil
}

func (s sessionStore) get(r timedRow) (v timedValue, ok bool, err error) {
	v.value, ok, err = s.s.Get(r.key, r.start, r.end)
	return v, ok, err
}

func (s sessionStore) delete(r timedRow) error { return s.s.Delete(r.key, r.start, r.end) }

func (s sessionStore) fetch(key string, from, to int64, reverse bool) iter.Seq2[timedEntry, error] {
	if reverse {
		return timedEntries(s.s.FindReverse(key, from, to), entryOfSession)
	}
	return timedEntries(s.s.Find(key, from, to), entryOfSession)
}

func (s sessionStore) scan(r state.Range, from, to int64) iter.Seq2[timedEntry, error] {
	return timedEntries(s.s.Scan(r, from, to), entryOfSession)
}

func entryOfSession(e state.SessionEntry[string, string]) timedEntry {
	return timedEntry{timedRow{e.Key, e.Start, e.End}, timedValue{value: e.Value}}
}

func timedEntries[E any](seq iter.Seq2[E, error], entry func(E) timedEntry) iter.Seq2[timedEntry, error] {
	return func(yield func(timedEntry, error) bool) {
		for e, err := range seq {
			if !yield(entry(e), err) {
				return
			}
		}
	}
}

// timedContent is all that a store is at one moment. Nothing is ever taken out because it expired: what can be seen
// is a matter of looking.
type timedContent struct {
	rows map[timedRow]timedValue
	now  int64
}

func (c timedContent) clone() timedContent { return timedContent{maps.Clone(c.rows), c.now} }

func (c timedContent) live(r timedRow, retention int64) bool { return r.end > c.now-retention }

// entries returns what a scan must give, in order.
func (c timedContent) entries(l state.Layout, in func(key string) bool, from, to int64, reverse bool) []timedEntry {
	var found []timedEntry
	for r, v := range c.rows {
		if c.live(r, l.Retention) && in(r.key) && r.end >= from && r.start <= to {
			found = append(found, timedEntry{r, v})
		}
	}
	slices.SortFunc(found, func(a, b timedEntry) int { return strings.Compare(orderOf(l, a.timedRow), orderOf(l, b.timedRow)) })
	if reverse {
		slices.Reverse(found)
	}
	return found
}

// orderOf is what rows are ordered by: the key of their record, of FORMAT.md.
func orderOf(l state.Layout, r timedRow) string {
	b := binary.BigEndian.AppendUint64([]byte(r.key), uint64(r.end))
	if l.Kind == state.WindowKind {
		return string(append(b, 0, 0, 0, 0))
	}
	return string(binary.BigEndian.AppendUint64(b, uint64(r.start)))
}

// timedModel is what the store must look like: each layer with the whole content up to it.
type timedModel struct {
	committed timedContent
	frozen    []timedLayer // oldest first
	open      timedContent
	saved     *timedContent
}

type timedLayer struct {
	content timedContent
	real    *state.Layer
	applied bool
}

func newTimedModel() *timedModel {
	empty := timedContent{rows: map[timedRow]timedValue{}}
	return &timedModel{committed: empty, open: empty.clone()}
}

// newest returns the content below the open round.
func (m *timedModel) newest() timedContent {
	if n := len(m.frozen); n > 0 {
		return m.frozen[n-1].content
	}
	return m.committed
}

// change carries out a write, and reports whether it does anything.
func (m *timedModel) change(r timedRow, v *timedValue, retention int64) bool {
	if !m.open.live(r, retention) {
		return false
	}
	m.open.now = max(m.open.now, r.end)
	if v == nil {
		delete(m.open.rows, r)
	} else {
		m.open.rows[r] = *v
	}
	return true
}

// keys returns every key that was ever written and is still known.
func (c timedContent) keys() []string {
	seen := map[string]bool{}
	for r := range c.rows {
		seen[r.key] = true
	}
	return slices.SortedFunc(maps.Keys(seen), cmp.Compare)
}
