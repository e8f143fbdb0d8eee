package state_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

var errKeyRows = errors.New("the rows of a key are not those of a scan")

// keyRowsProgram makes random writes, savepoints and rounds, and compares reads of the rows of a
// key with scans.
type keyRowsProgram struct {
	task   *state.Task
	rng    *rand.Rand
	revert func(*state.Task)
	// layers are frozen and not retired.
	layers []*state.Layer
	next   int64
	undo   func()
	// found counts rows. hot is the largest number of rows of one key.
	found, hot int
}

// keyRowsStores have suffixes, but for the first one.
var keyRowsStores = []state.Declaration{
	{Name: "plain"},
	{Name: "series", Layout: state.Layout{Kind: state.SeriesKind, Retention: 1 << 40}},
	{Name: "others", Layout: state.Layout{Kind: state.SeriesKind, Retention: 1 << 40}},
}

func newKeyRowsProgram(t *testing.T, seed uint64) *keyRowsProgram {
	task, err := state.NewTask(memstore.New(), keyRowsStores)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	})
	return &keyRowsProgram{task: task, rng: rand.New(rand.NewPCG(25, seed)), revert: (*state.Task).Revert}
}

// key is one of a few, some of which continue others as a suffix would.
func (p *keyRowsProgram) key() []byte {
	key := fmt.Appendf(binary.BigEndian.AppendUint32(nil, 0), "k%d", p.rng.IntN(6))
	switch n := p.rng.IntN(8); n {
	case 0, 1:
		return append(key, make([]byte, 4*n+4)...)
	case 2, 3, 4:
		return append(key[:4], "hot"...)
	}
	return key
}

func (p *keyRowsProgram) suffix(ms int) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(ms)), uint32(ms%2))
}

func (p *keyRowsProgram) step() error {
	switch p.rng.IntN(12) {
	case 0:
		p.task.Mark()
		p.undo = nil
	case 1:
		p.revert(p.task)
		p.undo = nil
	case 2:
		p.undo = p.task.Savepoint()
	case 3:
		if p.undo != nil {
			p.undo()
		}
	case 4:
		p.undo = nil
		if len(p.layers) < 2 {
			p.layers = append(p.layers, p.task.Freeze())
			return nil
		}
		if err := p.task.Apply(p.layers[0], at(p.next), at(p.next+1)); err != nil {
			return err
		}
		p.next++
		p.task.Retire(p.layers[0])
		p.layers = p.layers[1:]
	case 5:
		if p.rng.IntN(8) == 0 {
			p.undo = nil
			p.task.DropOpen()
		}
	default:
		store := p.task.Store(keyRowsStores[p.rng.IntN(len(keyRowsStores))].Name)
		row := append(p.key(), p.suffix(p.rng.IntN(60))...)
		if p.rng.IntN(3) == 0 {
			return store.Delete(row)
		}
		return store.Put(row, fmt.Append(nil, p.rng.Uint32()))
	}
	return nil
}

func (p *keyRowsProgram) compare() error {
	for _, name := range []string{"series", "others"} {
		store := p.task.Store(name)
		from := p.rng.IntN(60)
		r := state.KeyRange{Key: p.key(), First: p.suffix(from), Last: p.suffix(from + p.rng.IntN(60)), Least: p.suffix(0), Most: p.suffix(200)}
		got, ok, err := store.(state.KeyReader).KeyRows([]state.Entry{{}}, r)
		if err != nil || !ok || len(got) == 0 || got[0].Key != nil {
			return fmt.Errorf("%q, %t, %w", got, ok, err)
		}
		var want []state.Entry
		for e, err := range store.Scan(r.Range()) {
			if err != nil {
				return err
			}
			if r.Contains(e.Key) {
				want = append(want, e)
			}
		}
		same := func(a, b state.Entry) bool { return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) }
		if !slices.EqualFunc(got[1:], want, same) {
			return fmt.Errorf("%w: %s, key %q: %q, want %q", errKeyRows, name, r.Key, got[1:], want)
		}
		p.found += len(want)
		if bytes.HasSuffix(r.Key, []byte("hot")) {
			p.hot = max(p.hot, len(want))
		}
	}
	return nil
}

func (p *keyRowsProgram) run() error {
	p.task.Mark()
	for range 20_000 {
		if err := p.step(); err != nil {
			return err
		}
		if err := p.compare(); err != nil {
			return err
		}
	}
	return nil
}

// TestKeyRowsAreThoseOfAScan: whatever is written, reverted, frozen and applied, the rows of a key
// are those of a scan, also of a key with many rows.
func TestKeyRowsAreThoseOfAScan(t *testing.T) {
	p := newKeyRowsProgram(t, 1)
	if err := p.run(); err != nil {
		t.Fatal(err)
	}
	if p.found == 0 || p.hot <= 32 {
		t.Errorf("%d rows were found, %d at a time: that is not what this is about", p.found, p.hot)
	}
}

// TestKeyRowsAfterABrokenRevert is the negative control.
func TestKeyRowsAfterABrokenRevert(t *testing.T) {
	p := newKeyRowsProgram(t, 1)
	p.revert = state.RevertBesideGroups
	run := func() (err error) {
		defer func() {
			if r := recover(); r != nil { // a list names an entry that is gone
				err = errKeyRows
			}
		}()
		return p.run()
	}
	if err := run(); !errors.Is(err, errKeyRows) {
		t.Errorf("a revert that leaves the lists as they are: %v", err)
	}
}
