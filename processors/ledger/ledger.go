package ledger

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

const (
	errConflict = schemas.Reason(
		"the contribution was posted before with other amounts or another correction")
	errCorrects    = schemas.Reason("the contribution corrects one that its ledger does not have")
	errCorrectsOwn = schemas.Reason("the contribution corrects itself")
)

// Ledger is a set of ledgers, one for each record key, in a topology that is being declared. Each of its
// streams may be used any number of times, or not at all; the package documentation says what becomes of the
// records then.
type Ledger[K, V any] struct {
	contributions topology.StoreOf[ContributionKey[K], Posting]
	balances      topology.StoreOf[K, Sum]
	changes       topology.OutletOf[K, Balance]
	duplicates    topology.OutletOf[K, V]
	conflicts     topology.OutletOf[K, V]
}

// Post declares a ledger: a node of that name, with two stores whose names begin with it. The function
// contribution returns what a record contributes; its error is of class Validation unless it has a class.
func Post[K, V any](
	s topology.Stream[K, V], name string,
	contribution func(r topology.Record[K, V]) (Contribution, error), opts ...Option,
) Ledger[K, V] {
	set := newSettings(opts)
	if contribution == nil {
		set.Mistake(errors.New("the function that reads the contribution is nil"))
	}
	keys, err := identity.KeyCodec[K](set.Keys)
	set.Mistake(err)
	var l Ledger[K, V]
	l.contributions, l.balances = storesOf(name, keys, set.columns)
	var stores []topology.AnyStore
	if keys != nil { // else it would be one more mistake, about the same thing
		stores = append(stores, l.contributions, l.balances)
	}
	node := declare.Node(s, name, &set.Common, stores...)
	l.changes = topology.Outlet[K, Balance](node, "changes")
	l.duplicates = topology.Outlet[K, V](node, "duplicates")
	l.conflicts = topology.Outlet[K, V](node, "conflicts")
	node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
		h := &handler[K, V]{
			contribution:      contribution,
			columns:           set.columns,
			nullKey:           identity.Null[K](),
			contributions:     l.contributions.In(t),
			balances:          l.balances.In(t),
			change:            l.changes.In(t),
			duplicate:         l.duplicates.In(t),
			conflict:          l.conflicts.In(t),
			routesConflicts:   l.conflicts.Connected(),
			acceptedCounter:   t.Counter("accepted"),
			duplicatesCounter: t.Counter("duplicates"),
			conflictsCounter:  t.Counter("conflicts"),
		}
		return h.handle, nil
	})
	return l
}

// Changes returns the stream of balances, one for each contribution that was accepted.
func (l Ledger[K, V]) Changes() topology.Stream[K, Balance] { return l.changes.Stream() }

// Duplicates returns the stream of the records whose contribution the ledger had already, unchanged.
func (l Ledger[K, V]) Duplicates() topology.Stream[K, V] { return l.duplicates.Stream() }

// Conflicts returns the stream of the records whose contribution id the ledger had already with other
// amounts or another correction, unchanged. As long as nothing uses the stream, a conflict fails.
func (l Ledger[K, V]) Conflicts() topology.Stream[K, V] { return l.conflicts.Stream() }

// ContributionStore returns the store of the contributions, for queries and tests.
func (l Ledger[K, V]) ContributionStore() topology.StoreOf[ContributionKey[K], Posting] {
	return l.contributions
}

// BalanceStore returns the store of the balances, for queries and tests.
func (l Ledger[K, V]) BalanceStore() topology.StoreOf[K, Sum] { return l.balances }

// handler is the ledger of one task.
type handler[K, V any] struct {
	contribution  func(r topology.Record[K, V]) (Contribution, error)
	columns       []string
	nullKey       func(K) bool
	contributions state.KeyValue[ContributionKey[K], Posting]
	balances      state.KeyValue[K, Sum]

	change              topology.Emit[K, Balance]
	duplicate, conflict topology.Emit[K, V]
	routesConflicts     bool

	acceptedCounter, duplicatesCounter, conflictsCounter *topology.Counter
}

func (h *handler[K, V]) handle(c *topology.Context, r topology.Record[K, V]) error {
	if h.nullKey(r.Key) {
		return identity.NullKey()
	}
	contribution, err := h.contribution(r)
	if err != nil {
		return identity.Refused(err)
	}
	if err := h.check(contribution); err != nil {
		return err
	}
	posting := Posting{
		Amounts: contribution.Amounts, Timestamp: r.Timestamp, Corrects: contribution.Corrects,
	}
	key := ContributionKey[K]{Ledger: r.Key, ID: contribution.ID}
	first, seen, err := h.contributions.PutIfAbsent(key, posting)
	switch {
	case err != nil:
		return err
	case !seen:
		return h.add(c, r, contribution)
	case len(first.Amounts) != len(h.columns):
		return h.otherColumns(len(first.Amounts))
	case first.same(posting):
		h.duplicatesCounter.Inc()
		return h.duplicate(c, r)
	case !h.routesConflicts:
		return topology.Fail(topology.Conflict, errConflict)
	}
	h.conflictsCounter.Inc()
	return h.conflict(c, r)
}

func (h *handler[K, V]) check(contribution Contribution) error {
	if err := identity.CheckID(contribution.ID); err != nil {
		return err
	}
	if contribution.Corrects != "" {
		if err := identity.CheckID(contribution.Corrects); err != nil {
			return err
		}
		if contribution.Corrects == contribution.ID {
			return topology.Fail(topology.Validation, errCorrectsOwn)
		}
	}
	if n := len(contribution.Amounts); n != len(h.columns) {
		return topology.Fail(topology.Config, schemas.Reason(fmt.Sprintf(
			"the contribution has %d amounts, and the ledger has %d columns", n, len(h.columns))))
	}
	return nil
}

// add brings a contribution that was just posted into the balance. If it fails, the posting is undone with
// the record.
func (h *handler[K, V]) add(c *topology.Context, r topology.Record[K, V], contribution Contribution) error {
	if contribution.Corrects != "" {
		corrected := ContributionKey[K]{Ledger: r.Key, ID: contribution.Corrects}
		if _, known, err := h.contributions.Get(corrected); err != nil {
			return err
		} else if !known {
			return topology.Fail(topology.Validation, errCorrects)
		}
	}
	sum, has, err := h.balances.Get(r.Key)
	switch {
	case err != nil:
		return err
	case !has:
		sum.Amounts = make([]int64, len(h.columns))
	case len(sum.Amounts) != len(h.columns):
		return h.otherColumns(len(sum.Amounts))
	}
	// The sum was decoded into memory of its own, so it can be changed in place and emitted.
	sum.Count++
	for i, amount := range contribution.Amounts {
		total := sum.Amounts[i] + amount
		if total > sum.Amounts[i] != (amount > 0) {
			return topology.Fail(topology.Validation, schemas.Reason(
				"the balance in column "+h.columns[i]+" would leave the range of 64 bits"))
		}
		sum.Amounts[i] = total
	}
	if err := h.balances.Put(r.Key, sum); err != nil {
		return err
	}
	h.acceptedCounter.Inc()
	return h.change(c, topology.WithValue(r, Balance{
		Count: sum.Count, Amounts: sum.Amounts, Contribution: contribution.ID,
	}))
}

func (h *handler[K, V]) otherColumns(n int) error {
	return topology.Fail(topology.Config, schemas.Reason(fmt.Sprintf(
		"the ledger's rows have %d columns, and the program has %d; a ledger with other columns needs another name",
		n, len(h.columns))))
}
