package ledger

import (
	"bytes"
	"fmt"
	"iter"
	"math/big"
	"slices"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// DifferenceError is the first ledger whose balance is not what its contributions come to. Its text names
// neither the key nor an amount, which are payload.
type DifferenceError struct {
	// Key is the encoded key of the ledger.
	Key []byte
	// Reason says what differs.
	Reason string
}

// Error returns the reason, and the length of the key.
func (e *DifferenceError) Error() string {
	return fmt.Sprintf("ledger: the balance of a ledger (its key has %d bytes) is not what its contributions "+
		"come to: %s", len(e.Key), e.Reason)
}

// Check recomputes the balances of the ledger with that name, in the state of one task, from their
// contributions. It returns a [*DifferenceError] for the first one that differs, in the order of the keys.
// Other errors come from reading.
//
// It reads both stores once, and holds one ledger in memory at a time. The state must not change
// meanwhile: a running task is checked through a state.View.
//
// Where r can list its stores, as a state.Database can, a ledger that it does not have is an error that wraps
// state.ErrUnknownStore. To other readers a wrong name looks like a ledger without contributions.
func Check(r state.Reader, name string) error {
	contributions, balances := contributionsOf(name), balancesOf(name)
	if lister, ok := r.(interface {
		Stores() ([]state.Declaration, error)
	}); ok {
		stores, err := lister.Stores()
		if err != nil {
			return fmt.Errorf("ledger: check: %w", err)
		}
		for _, store := range []string{contributions, balances} {
			if !slices.ContainsFunc(stores, func(d state.Declaration) bool { return d.Name == store }) {
				return fmt.Errorf("ledger: check: %w %q; there are %s", state.ErrUnknownStore, store, state.Names(stores))
			}
		}
	}
	return check(r.Scan(state.IDOf(contributions), state.Range{}), r.Scan(state.IDOf(balances), state.Range{}))
}

// CheckStores is [Check] for stores that are open already, such as those of topologytest.
func CheckStores[K any](
	contributions state.KeyValue[ContributionKey[K], Posting], balances state.KeyValue[K, Sum],
) error {
	return check(entries(contributions, postingCodec{}), entries(balances, sumCodec{}))
}

// entries returns the content of a store as it is stored.
func entries[K, V any](store state.KeyValue[K, V], values schemas.Codec[V]) iter.Seq2[state.Entry, error] {
	return func(yield func(state.Entry, error) bool) {
		for pair, err := range store.All() {
			var e state.Entry
			if err == nil {
				e.Key, err = store.EncodeKey(pair.Key)
			}
			if err == nil {
				e.Value, err = values.Append(nil, pair.Value)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// check walks both stores side by side: they have the same order of ledgers.
func check(contributions, balances iter.Seq2[state.Entry, error]) error {
	next, stop := iter.Pull2(balances)
	defer stop()
	var t tally
	for e, err := range contributions {
		var ledger []byte
		if err == nil {
			ledger, _, err = splitKey(e.Key)
		}
		var posting Posting
		if err == nil {
			posting, err = postingCodec{}.Decode(e.Value)
		}
		if err != nil {
			return fmt.Errorf("ledger: check: contributions: %w", err)
		}
		if t.count > 0 && !bytes.Equal(ledger, t.ledger) {
			if err := t.compare(next()); err != nil {
				return err
			}
			t = tally{}
		}
		if err := t.add(ledger, posting); err != nil {
			return err
		}
	}
	if t.count > 0 {
		if err := t.compare(next()); err != nil {
			return err
		}
	}
	e, err, more := next()
	switch {
	case !more:
		return nil
	case err != nil:
		return fmt.Errorf("ledger: check: balances: %w", err)
	}
	return &DifferenceError{Key: e.Key, Reason: "there are no contributions"}
}

// tally adds up one ledger. The sums are of any size, because they grow in another order than they did when
// the contributions came, and may leave the range of 64 bits on the way.
type tally struct {
	ledger []byte
	count  int64
	sums   []big.Int
}

func (t *tally) add(ledger []byte, p Posting) error {
	if t.count == 0 {
		t.ledger = bytes.Clone(ledger)
		t.sums = make([]big.Int, len(p.Amounts))
	}
	if len(p.Amounts) != len(t.sums) {
		return &DifferenceError{Key: t.ledger, Reason: "its contributions have different numbers of columns"}
	}
	t.count++
	for i, amount := range p.Amounts {
		t.sums[i].Add(&t.sums[i], big.NewInt(amount))
	}
	return nil
}

// compare takes the next balance, as iter.Pull2 gives it.
func (t *tally) compare(e state.Entry, err error, more bool) error {
	if err != nil {
		return fmt.Errorf("ledger: check: balances: %w", err)
	}
	if !more || bytes.Compare(e.Key, t.ledger) > 0 {
		return &DifferenceError{Key: t.ledger, Reason: "there is no balance"}
	}
	if !bytes.Equal(e.Key, t.ledger) {
		return &DifferenceError{Key: e.Key, Reason: "there are no contributions"}
	}
	sum, err := sumCodec{}.Decode(e.Value)
	if err != nil {
		return fmt.Errorf("ledger: check: balances: %w", err)
	}
	if len(sum.Amounts) != len(t.sums) {
		return &DifferenceError{Key: t.ledger, Reason: "the balance has another number of columns"}
	}
	if sum.Count != t.count {
		return &DifferenceError{Key: t.ledger, Reason: fmt.Sprintf(
			"the balance counts %d contributions, there are %d", sum.Count, t.count)}
	}
	for i, amount := range sum.Amounts {
		if !t.sums[i].IsInt64() || t.sums[i].Int64() != amount {
			return &DifferenceError{Key: t.ledger, Reason: fmt.Sprintf("column %d of %d", i+1, len(sum.Amounts))}
		}
	}
	return nil
}
