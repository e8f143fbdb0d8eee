package statetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
)

// Round is one step: what Task.Apply, a restore or the end of a segment gives to a database.
type Round struct {
	Base, Next state.Positions
	Writes     []state.Write
	// Load is set for writes of one store in ascending order of their keys, for Database.Load.
	Load bool
	// Removed is the range of Database.Remove, nil for a round with writes.
	Removed *state.Range
	// Store is that of Load and Removed.
	Store state.StoreID
}

// History is a sequence of rounds, each on top of the one before, and the content of the stores
// after every one.
type History struct {
	Rounds []Round
	// after[i] is the content after i rounds.
	after []stores
	// keys has every key that was ever written.
	keys []string
}

// NewHistory makes up a history of n rounds with writesMax writes at most each. The same seed gives
// the same history. Keys repeat, some rounds delete, some are empty, some are loads and some remove
// a range, and values have up to valueMax bytes.
func NewHistory(rng *rand.Rand, n, writesMax, valueMax int) *History {
	h := &History{after: []stores{make(stores)}}
	for i := range 64 {
		h.keys = append(h.keys, fmt.Sprintf("key-%02d", i))
	}
	h.keys = append(h.keys, keys...)
	var at state.Positions
	for i := range n {
		round := Round{Base: at, Next: at.Clone()}
		content := h.after[i].clone()
		round.Load = rng.IntN(5) == 0
		if !round.Load && rng.IntN(6) == 0 {
			h.addRemove(rng, &round, content)
		} else {
			h.addWrites(rng, &round, content, i, rng.IntN(writesMax+1), valueMax)
		}
		round.Next.Round = state.RoundID{ProducerID: 1, Epoch: int16(i % 1000), Incarnation: uint32(i + 1)}
		round.Next.WrittenAt = int64(i)
		round.Next.SetInput(state.Input{Topic: "in", Offset: int64(10 * (i + 1)), StreamTime: int64(i)})
		at = round.Next
		h.Rounds = append(h.Rounds, round)
		h.after = append(h.after, content)
	}
	return h
}

// addRemove makes round remove a random range, which may select nothing.
func (h *History) addRemove(rng *rand.Rand, round *Round, content stores) {
	name := storeNames[rng.IntN(len(storeNames))]
	round.Store = state.IDOf(name)
	round.Removed = &state.Range{From: []byte(h.keys[rng.IntN(len(h.keys))]), To: []byte(h.keys[rng.IntN(len(h.keys))])}
	if rng.IntN(4) == 0 {
		round.Removed.To = nil
	}
	content.remove(name, *round.Removed)
}

// addWrites adds n random writes, those of a load to one store, sorted and without repetition.
func (h *History) addWrites(rng *rand.Rand, round *Round, content stores, i, n, valueMax int) {
	only := storeNames[rng.IntN(len(storeNames))]
	round.Store = state.IDOf(only)
	for range n {
		name := only
		if !round.Load {
			name = storeNames[rng.IntN(len(storeNames))]
		}
		w := state.Write{Store: state.IDOf(name), Key: []byte(h.keys[rng.IntN(len(h.keys))])}
		if rng.IntN(5) == 0 {
			w.Delete = true
		} else {
			w.Value = fmt.Appendf([]byte{}, "round %d ", i+1)
			w.Value = append(w.Value, strings.Repeat("v", rng.IntN(valueMax+1))...)
		}
		round.Writes = append(round.Writes, w)
	}
	if round.Load {
		byKey := func(a, b state.Write) int { return bytes.Compare(a.Key, b.Key) }
		slices.SortStableFunc(round.Writes, byKey)
		round.Writes = slices.CompactFunc(round.Writes, func(a, b state.Write) bool { return byKey(a, b) == 0 })
	}
	for _, w := range round.Writes {
		var value *string
		if !w.Delete {
			copied := string(w.Value)
			value = &copied
		}
		content.set(nameOf(w.Store), string(w.Key), value)
	}
}

// Stores returns the names of the stores that the history writes to.
func (h *History) Stores() []state.Declaration { return state.KeyValues(storeNames...) }

// nameOf is the inverse of state.IDOf.
func nameOf(id state.StoreID) string {
	i := slices.IndexFunc(storeNames, func(name string) bool { return state.IDOf(name) == id })
	return storeNames[i]
}

// Operations returns the number of writes of all rounds.
func (h *History) Operations() int {
	n := 0
	for _, r := range h.Rounds {
		n += len(r.Writes)
	}
	return n
}

// apply gives the round to db in its own way.
func (r Round) apply(db state.Database) error {
	switch {
	case r.Removed != nil:
		return db.Remove(r.Base, r.Next, r.Store, *r.Removed)
	case r.Load:
		return db.Load(r.Base, r.Next, r.Store, slices.Values(r.Writes))
	default:
		return db.Apply(r.Base, r.Next, slices.Values(r.Writes))
	}
}

// Apply applies the rounds from (inclusive) to (exclusive) to db, and stops at the first error.
func (h *History) Apply(db state.Database, from, to int) error {
	for i, r := range h.Rounds[from:to] {
		if err := r.apply(db); err != nil {
			return fmt.Errorf("round %d: %w", from+i+1, err)
		}
	}
	return nil
}

// Verify reports how many rounds db contains, by its own positions, and whether its content is
// exactly theirs.
func (h *History) Verify(db state.Reader) (rounds int, err error) {
	rounds, err = h.Locate(db.Positions())
	if err != nil {
		return 0, err
	}
	if err := compareReader(db, h.after[rounds], storeNames, h.keys...); err != nil {
		return rounds, fmt.Errorf("positions say %d rounds: %w", rounds, err)
	}
	return rounds, nil
}

// Locate returns the number of rounds after which the positions are p.
func (h *History) Locate(p state.Positions) (rounds int, err error) {
	if p.Equal(state.Positions{}) {
		return 0, nil
	}
	i := slices.IndexFunc(h.Rounds, func(r Round) bool { return r.Next.Equal(p) })
	if i < 0 {
		return 0, fmt.Errorf("the positions {%v} are of no round", p)
	}
	return i + 1, nil
}

// ExpectGet compares one random key with the content after so many rounds. It is cheap enough to
// run between rounds.
func (h *History) ExpectGet(db state.Reader, rounds int, rng *rand.Rand) error {
	name := storeNames[rng.IntN(len(storeNames))]
	key := h.keys[rng.IntN(len(h.keys))]
	var want *string
	if value, has := h.after[rounds][name][key]; has {
		want = &value
	}
	return expectGet(db, name, key, want)
}
