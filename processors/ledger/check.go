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

// DifferenceError is a ledger whose balance is not what its contributions come to. Its text names
// neither the key nor an amount, which are payload.
type DifferenceError struct {
	// Key is the encoded key of the ledger.
	Key []byte
	// Reason says what differs.
	Reason string
	// Balance is what is stored, zero where there is no balance.
	Balance Sum
	// Contributions is how many there are, and Sums is what they come to in each column, of any
	// size. There are no sums without contributions, nor where these have different numbers of
	// columns.
	Contributions int64
	Sums          []*big.Int
}

// Error returns the reason, and the length of the key.
func (e *DifferenceError) Error() string {
	return fmt.Sprintf("ledger: the balance of a ledger (its key has %d bytes) is not what its contributions "+
		"come to: %s", len(e.Key), e.Reason)
}

// Checked is what a check that goes on has found.
type Checked struct {
	// Ledgers are the keys that have a balance, contributions or both, and Contributions is the
	// number of all of theirs.
	Ledgers, Contributions int64
	// Differences is the number of ledgers that differ, and First has the first of them.
	Differences int64
	First       []*DifferenceError
}

// Check recomputes the balances of the ledger with that name, in the state of one task, from their
// contributions. It returns a [*DifferenceError] for the first difference in the order of the keys.
// Other errors come from reading. An error about a row that cannot belong to a ledger wraps
// state.ErrCorrupt.
//
// It reads both stores once, and holds one ledger in memory at a time. The state must not change
// meanwhile: a running task is checked through a state.View.
//
// If r can list its stores, as a state.Database can, an unknown ledger is an error that wraps
// state.ErrUnknownStore. For other readers a wrong name looks like a ledger without contributions.
func Check(r state.Reader, name string) error {
	contributions, balances := Stores(name)
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
	_, err := compare(r.Scan(state.IDOf(contributions), state.Range{}), r.Scan(state.IDOf(balances), state.Range{}), firstOnly)
	return err
}

// firstOnly ends a check with the first difference.
func firstOnly(d *DifferenceError) error { return d }

// CheckStores is [Check] for stores that are open already, such as those of topologytest.
func CheckStores[K any](
	contributions state.KeyValue[ContributionKey[K], Posting], balances state.KeyValue[K, Sum],
) error {
	_, err := compare(entries(contributions, postingCodec{}), entries(balances, sumCodec{}), firstOnly)
	return err
}

// CheckRows is [Check] for the rows of both stores, each in the order of the keys and both of one
// moment, and goes on behind a difference: it keeps firstMax of them and counts all. Its errors
// come from reading alone, and what it has found before one is not all there is.
func CheckRows(contributions, balances iter.Seq2[state.Entry, error], firstMax int) (Checked, error) {
	var kept []*DifferenceError
	found, err := compare(contributions, balances, func(d *DifferenceError) error {
		if len(kept) < firstMax {
			kept = append(kept, d)
		}
		return nil
	})
	found.First = kept
	return found, err
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

// comparison walks contributions and balances side by side: they have the same order of ledgers.
type comparison struct {
	next func() (state.Entry, error, bool)
	// balance is the next one that was not compared, if there is more.
	balance state.Entry
	more    bool
	found   Checked
	// differs is told of each difference, and its error ends the comparison.
	differs func(*DifferenceError) error
}

func compare(
	contributions, balances iter.Seq2[state.Entry, error], differs func(*DifferenceError) error,
) (Checked, error) {
	next, stop := iter.Pull2(balances)
	defer stop()
	c := comparison{next: next, differs: differs}
	err := c.all(contributions)
	return c.found, err
}

func (c *comparison) all(contributions iter.Seq2[state.Entry, error]) error {
	if err := c.advance(); err != nil {
		return err
	}
	var t recomputed
	for e, err := range contributions {
		if err != nil {
			return fmt.Errorf("ledger: check: contributions: %w", err)
		}
		ledger, posting, err := readContribution(e)
		if err != nil {
			return fmt.Errorf("ledger: check: contributions: %w: %w", state.ErrCorrupt, err)
		}
		if t.count > 0 && !bytes.Equal(ledger, t.ledger) {
			if err := c.settle(&t); err != nil {
				return err
			}
			t = recomputed{}
		}
		t.add(ledger, posting)
	}
	if t.count > 0 {
		if err := c.settle(&t); err != nil {
			return err
		}
	}
	for c.more {
		if err := c.withoutContributions(); err != nil {
			return err
		}
	}
	return nil
}

func readContribution(e state.Entry) (ledger []byte, p Posting, err error) {
	if ledger, _, err = splitKey(e.Key); err == nil {
		p, err = postingCodec{}.Decode(e.Value)
	}
	return ledger, p, err
}

// advance goes to the next balance.
func (c *comparison) advance() error {
	e, err, more := c.next()
	if err != nil {
		return fmt.Errorf("ledger: check: balances: %w", err)
	}
	c.balance, c.more = e, more
	return nil
}

// sum is the balance that is next.
func (c *comparison) sum() (Sum, error) {
	sum, err := sumCodec{}.Decode(c.balance.Value)
	if err != nil {
		return Sum{}, fmt.Errorf("ledger: check: balances: %w: %w", state.ErrCorrupt, err)
	}
	return sum, nil
}

// settle compares a ledger whose contributions are complete, after the balances that come before
// it.
func (c *comparison) settle(t *recomputed) error {
	for c.more && bytes.Compare(c.balance.Key, t.ledger) < 0 {
		if err := c.withoutContributions(); err != nil {
			return err
		}
	}
	c.found.Ledgers++
	c.found.Contributions += t.count
	if !c.more || !bytes.Equal(c.balance.Key, t.ledger) {
		return c.report(t.difference(Sum{}, "there is no balance"))
	}
	sum, err := c.sum()
	if err != nil {
		return err
	}
	if reason := t.compare(sum); reason != "" {
		if err := c.report(t.difference(sum, reason)); err != nil {
			return err
		}
	}
	return c.advance()
}

// withoutContributions checks a balance without contributions.
func (c *comparison) withoutContributions() error {
	sum, err := c.sum()
	if err != nil {
		return err
	}
	c.found.Ledgers++
	if err := c.report(&DifferenceError{Key: c.balance.Key, Reason: "there are no contributions", Balance: sum}); err != nil {
		return err
	}
	return c.advance()
}

func (c *comparison) report(d *DifferenceError) error {
	c.found.Differences++
	return c.differs(d)
}

// recomputed is one ledger as its contributions make it. Its sums are of any size: contributions
// are added in another order than they came, so a sum may leave the range of 64 bits on the way.
type recomputed struct {
	ledger []byte
	count  int64
	sums   []big.Int
	// mixed says that contributions have different numbers of columns, so that there are no sums.
	mixed bool
}

func (t *recomputed) add(ledger []byte, p Posting) {
	if t.count == 0 {
		t.ledger = bytes.Clone(ledger)
		t.sums = make([]big.Int, len(p.Amounts))
	}
	t.count++
	if len(p.Amounts) != len(t.sums) {
		t.mixed = true
		return
	}
	for i, amount := range p.Amounts {
		t.sums[i].Add(&t.sums[i], big.NewInt(amount))
	}
}

// compare says in which way the balance is another one, and nothing if it is the same.
func (t *recomputed) compare(sum Sum) (reason string) {
	switch {
	case t.mixed:
		return "its contributions have different numbers of columns"
	case len(sum.Amounts) != len(t.sums):
		return "the balance has another number of columns"
	case sum.Count != t.count:
		return fmt.Sprintf("the balance counts %d contributions, there are %d", sum.Count, t.count)
	}
	for i, amount := range sum.Amounts {
		if !t.sums[i].IsInt64() || t.sums[i].Int64() != amount {
			return fmt.Sprintf("column %d of %d", i+1, len(sum.Amounts))
		}
	}
	return ""
}

func (t *recomputed) difference(balance Sum, reason string) *DifferenceError {
	d := &DifferenceError{Key: t.ledger, Reason: reason, Balance: balance, Contributions: t.count}
	if !t.mixed {
		for i := range t.sums {
			d.Sums = append(d.Sums, &t.sums[i])
		}
	}
	return d
}
