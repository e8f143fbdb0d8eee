package pebblestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/onceward/onceward/state"
)

// series is the store of these tests. The rows of a key have a suffix of 12 bytes: time and number.
var series = state.Declaration{Name: "s", Layout: state.Layout{Kind: state.SeriesKind, Retention: 1 << 40}}

func seriesRow(key string, ms int) []byte {
	b := binary.BigEndian.AppendUint64([]byte(key), uint64(ms))
	return binary.BigEndian.AppendUint32(b, 0)
}

func seriesRange(key string, from, to int) state.KeyRange {
	bound := func(ms int) []byte { return seriesRow("", ms) }
	return state.KeyRange{Key: []byte(key), First: bound(from), Last: bound(to), Least: bound(0), Most: bound(1 << 20)}
}

func openSeries(t *testing.T, o Options) *database {
	t.Helper()
	d := openForTest(t, o)
	if err := d.Declare(series); err != nil {
		t.Fatal(err)
	}
	return d
}

// groupsProgram is random rounds on a store of a few keys, with reads of the rows of a key and of
// single rows in between.
type groupsProgram struct {
	d     *database
	rng   *rand.Rand
	model map[string]string
	next  int64
	// before is called before each change.
	before func()
	// known, large and absent count reads that were answered so.
	known, large, absent int
}

// keys are such that rows of longer keys lie between those of shorter ones. The last two have many
// rows.
func (p *groupsProgram) key() string {
	n := p.rng.IntN(260)
	switch {
	case n >= 200:
		return fmt.Sprintf("hot%d", n%2)
	case n%5 == 0:
		return fmt.Sprintf("k%03d\x00\x00\x00", n)
	}
	return fmt.Sprintf("k%03d", n)
}

func (p *groupsProgram) change() error {
	p.before()
	store := state.IDOf(series.Name)
	base := at(p.next)
	switch kind := p.rng.IntN(100); {
	case kind < 85:
		var writes []state.Write
		for range 1 + p.rng.IntN(8) {
			w := state.Write{Store: store, Key: seriesRow(p.key(), p.rng.IntN(40)), Delete: p.rng.IntN(3) == 0}
			delete(p.model, string(w.Key))
			if !w.Delete {
				w.Value = fmt.Appendf(nil, "%d %s", p.next, strings.Repeat("v", p.rng.IntN(200)))
				p.model[string(w.Key)] = string(w.Value)
			}
			writes = append(writes, w)
		}
		p.next++
		return p.d.Apply(base, at(p.next), slices.Values(writes))
	case kind < 90:
		from, to := []byte(p.key()), seriesRow(p.key(), p.rng.IntN(40))
		if p.rng.IntN(2) == 0 {
			from, to = from[:2], append(from[:2:2], '~')
		}
		maps.DeleteFunc(p.model, func(k, _ string) bool { return k >= string(from) && k < string(to) })
		p.next++
		return p.d.Remove(base, at(p.next), store, state.Range{From: from, To: to})
	case kind < 93:
		row := seriesRow(p.key(), p.rng.IntN(40))
		p.model[string(row)] = "loaded"
		p.next++
		return p.d.Load(base, at(p.next), store, slices.Values([]state.Write{{Store: store, Key: row, Value: []byte("loaded")}}))
	default:
		return p.d.Flush()
	}
}

var errOtherRows = errors.New("the rows of a key are not those of the model")

func (p *groupsProgram) read() error {
	store := state.IDOf(series.Name)
	from := p.rng.IntN(40)
	r := seriesRange(p.key(), from, from+p.rng.IntN(40))
	hits := p.d.rows.looks
	got, ok, err := p.d.KeyRows(nil, store, r)
	if err != nil {
		return err
	}
	if p.d.rows.looks > hits {
		p.known++
	}
	if !ok {
		p.large++
		return nil
	}
	var want []state.Entry
	for _, k := range slices.Sorted(maps.Keys(p.model)) {
		if r.Contains([]byte(k)) {
			want = append(want, state.Entry{Key: []byte(k), Value: []byte(p.model[k])})
		}
	}
	same := func(a, b state.Entry) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }
	if !slices.EqualFunc(got, want, same) {
		return fmt.Errorf("%w: key %q from %d: %q, want %q", errOtherRows, r.Key, from, got, want)
	}
	row := seriesRow(p.key(), p.rng.IntN(40))
	value, found, err := p.d.Get(store, row)
	if err != nil {
		return err
	}
	if old, there := p.model[string(row)]; found != there || string(value) != old {
		return fmt.Errorf("%w: row %q is %q, %t, want %q, %t", errOtherRows, row, value, found, old, there)
	}
	if !found {
		p.absent++
	}
	return nil
}

func (p *groupsProgram) run(rounds, reads int) error {
	for range rounds {
		if err := p.change(); err != nil {
			return err
		}
		for range reads {
			if err := p.read(); err != nil {
				return err
			}
		}
	}
	return nil
}

func newGroupsProgram(t *testing.T, shared *Shared, seed uint64, direct int) *groupsProgram {
	d := openSeries(t, Options{FS: vfs.NewMem(), Shared: shared, FlushBytes: 4 << 10, FlushInterval: time.Hour})
	d.direct = direct
	return &groupsProgram{d: d, rng: rand.New(rand.NewPCG(12, seed)), model: map[string]string{}, before: func() {}}
}

// TestGroupsFollowEveryChange: whichever way rows change, the rows of a key are those of the model,
// whether they are kept, in a filter or in Pebble.
func TestGroupsFollowEveryChange(t *testing.T) {
	for _, direct := range []int{0, 1 << 30} {
		t.Run(fmt.Sprintf("%d direct", direct), func(t *testing.T) {
			shared := NewShared(BudgetMin, 100)
			defer shared.Close()
			p := newGroupsProgram(t, shared, uint64(direct), direct)
			rounds := 3000
			if RaceDetector {
				rounds = 500 // all in one goroutine
			}
			if err := p.run(rounds, 20); err != nil {
				t.Fatal(err)
			}
			if p.known == 0 || p.large == 0 || p.absent == 0 {
				t.Errorf("%d reads were known, %d of large groups, %d absent: this was not about groups", p.known, p.large, p.absent)
			}
			closeForTest(t, p.d)
			if kept := shared.Spent().Kept; kept != 0 {
				t.Errorf("%d bytes are kept for a closed database", kept)
			}
		})
	}
}

// TestGroupsThatDoNotFollow is the negative control: changes that pass groups by are found.
func TestGroupsThatDoNotFollow(t *testing.T) {
	p := newGroupsProgram(t, nil, 1, 0)
	p.before = func() { clear(p.d.rows.groups) }
	if err := p.run(3000, 20); !errors.Is(err, errOtherRows) {
		t.Errorf("groups that are not changed: %v", err)
	}
	closeForTest(t, p.d)
}

// TestGroupsBesideApply: a reader beside Apply sees a row as it was before or after the round that
// is being applied. It never sees an older one.
func TestGroupsBesideApply(t *testing.T) {
	store := state.IDOf(series.Name)
	d := openSeries(t, Options{FS: vfs.NewMem(), FlushBytes: 128 << 10})
	const rounds, keys = 2000, 5
	row := func(key int) []byte { return seriesRow(fmt.Sprint("k", key), 7) }
	applied := make(chan int, rounds)
	var writer sync.WaitGroup
	writer.Go(func() {
		defer close(applied)
		for round := range rounds {
			var writes []state.Write
			for key := range keys {
				writes = append(writes, state.Write{Store: store, Key: row(key), Value: fmt.Append(nil, round)})
			}
			if err := d.Apply(at(int64(round)), at(int64(round+1)), slices.Values(writes)); err != nil {
				t.Error(err)
				return
			}
			applied <- round
		}
	})
	last := 0
	for round := range applied {
		last = max(last, round)
		key := round % keys
		got, ok, err := d.KeyRows(nil, store, seriesRange(fmt.Sprint("k", key), 0, 40))
		if err != nil || !ok || len(got) != 1 {
			t.Fatalf("round %d: %q, %t, %v", round, got, ok, err)
		}
		var seen int
		if _, err := fmt.Sscan(string(got[0].Value), &seen); err != nil || seen < last {
			t.Fatalf("round %d was applied, and round %d is seen", last, seen)
		}
	}
	writer.Wait()
	closeForTest(t, d)
}
