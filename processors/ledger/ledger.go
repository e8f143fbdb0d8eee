package ledger

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/processors/internal/payload"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

const (
	errConflict = schemas.Reason(
		"the contribution was posted before with other amounts or another correction")
	errReversed = schemas.Reason("the contribution reverses one that another contribution has reversed already")
	errCorrects = schemas.Reason("the contribution corrects one that its ledger does not have")
	errReverses = schemas.Reason("the contribution reverses one that its ledger does not have")
	errOpposite = schemas.Reason("the amounts of the reversal are not those of what it reverses, with the other sign")
	errBoth     = schemas.Reason("the contribution corrects and reverses; it does one of the two")
	errAmounts  = schemas.Reason("the contribution has amounts and decimals; it has one of the two")
	errPayload  = schemas.Reason("the contribution was posted before with another payload")
	errWindows  = schemas.Reason("the contribution was posted before with another time, which is in other windows")
	errItself   = schemas.Reason("the contribution names itself")
)

// Reasons of decisions about contributions that name another one.
const (
	reasonCorrects = schemas.Reason("it corrects another contribution")
	reasonReverses = schemas.Reason("it takes another contribution back")
)

// Ledger is a set of ledgers, one for each record key, in a topology that is being declared. Each
// of its streams may be used any number of times. Conflicts has records with [EmitConflicts] only,
// and something has to use it then.
type Ledger[K, V any] struct {
	contributions topology.Store[state.KeyValue[ContributionKey[K], Posting]]
	balances      topology.Store[state.KeyValue[K, Sum]]
	changes       topology.OutletOf[K, Balance]
	duplicates    topology.OutletOf[K, V]
	conflicts     topology.OutletOf[K, V]
	decisions     decision.Outlet
	scales        []uint8
}

// Post declares a ledger: a node of that name, with two stores whose names begin with it. The
// function contribution returns what a record contributes; its error is of class Validation unless
// it has a class.
func Post[K, V any](
	s topology.Stream[K, V], name string,
	contribution func(r topology.Record[K, V]) (Contribution, error), opts ...Option,
) Ledger[K, V] {
	set := newSettings(opts)
	if contribution == nil {
		set.Mistake(errNilContribution)
	}
	keys, err := identity.KeyCodec[K](set.Keys)
	set.Mistake(err)
	read := reader[K, V]{
		contribution: contribution,
		timeOf:       func(r topology.Record[K, V]) (int64, error) { return r.Timestamp, nil },
		newHasher:    hasherFor[K, V](set),
	}
	return post(s, name, read, set, keys)
}

var errNilContribution = errors.New("the function that reads the contribution is nil")

// reader is what a ledger reads of a record.
type reader[K, V any] struct {
	contribution func(r topology.Record[K, V]) (Contribution, error)
	timeOf       timeReader[K, V]
	// newHasher is nil if payloads are not compared.
	newHasher func() payload.Hasher[K, V]
}

// post declares a ledger with settings that were read, whose keys are nil if there was a mistake in
// them.
func post[K, V any](
	s topology.Stream[K, V], name string, read reader[K, V], set *settings, keys schemas.Codec[K],
) Ledger[K, V] {
	l := Ledger[K, V]{scales: set.scalesOf()}
	l.contributions, l.balances = storesOf(name, keys, set.format())
	var stores []topology.AnyStore
	if keys != nil { // else it would be one more mistake, about the same thing
		stores = append(stores, l.contributions, l.balances)
	}
	node := declare.Node(s, name, &set.Common, stores...)
	l.changes = topology.Outlet[K, Balance](node, "changes")
	l.duplicates = topology.Outlet[K, V](node, "duplicates")
	l.conflicts = topology.Outlet[K, V](node, "conflicts")
	l.decisions = decision.Declare(node)
	clauses(node, set)
	declare.CheckUse(node, &set.Common, l.conflicts, declare.Emitted("Conflicts", "a conflict", set.emitsConflicts))
	node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
		h := &handler[K, V]{
			contribution:      read.contribution,
			timeOf:            read.timeOf,
			step:              set.windows.step(),
			columns:           set.columns,
			scales:            l.scales,
			nullKey:           identity.Null[K](),
			contributions:     l.contributions.In(t),
			balances:          l.balances.In(t),
			change:            l.changes.In(t),
			duplicate:         l.duplicates.In(t),
			conflict:          l.conflicts.In(t),
			usesDuplicates:    l.duplicates.Connected(),
			emitsConflicts:    set.emitsConflicts,
			acceptedCounter:   t.Counter("accepted"),
			duplicatesCounter: t.Counter("duplicates"),
			conflictsCounter:  t.Counter("conflicts"),
			log:               l.decisions.In(t),
			store:             l.balances.Name(),
		}
		if read.newHasher != nil {
			h.payload = read.newHasher()
		}
		return h.handle, declare.Readable(h.balances)
	})
	return l
}

// Changes returns the stream of balances, one for each contribution that was accepted.
func (l Ledger[K, V]) Changes() topology.Stream[K, Balance] { return l.changes.Stream() }

// Duplicates returns the stream of the records whose contribution the ledger had already,
// unchanged.
func (l Ledger[K, V]) Duplicates() topology.Stream[K, V] { return l.duplicates.Stream() }

// Conflicts returns the stream of the records whose contribution id the ledger had already with
// other amounts or another correction, or with another payload if payloads are compared
// ([ComparePayload]). It also has the records that reverse what was reversed already. All are
// unchanged. It needs [EmitConflicts]; without the option a conflict fails.
func (l Ledger[K, V]) Conflicts() topology.Stream[K, V] { return l.conflicts.Stream() }

// Decisions returns the stream of what the ledger has decided: one for each record that did not
// fail.
func (l Ledger[K, V]) Decisions() topology.Stream[[]byte, decision.Decision] {
	return l.decisions.Stream()
}

// Decimals returns the amounts of a balance as decimals with the [Scale] of their columns.
func (l Ledger[K, V]) Decimals(b Balance) []Decimal {
	decimals := make([]Decimal, min(len(b.Amounts), len(l.scales)))
	for i := range decimals {
		decimals[i] = Decimal{Units: b.Amounts[i], Scale: l.scales[i]}
	}
	return decimals
}

// ContributionStore returns the store of the contributions, for queries and tests.
func (l Ledger[K, V]) ContributionStore() topology.Store[state.KeyValue[ContributionKey[K], Posting]] {
	return l.contributions
}

// BalanceStore returns the store of the balances, for queries and tests.
func (l Ledger[K, V]) BalanceStore() topology.Store[state.KeyValue[K, Sum]] { return l.balances }

// handler is the ledger of one task.
type handler[K, V any] struct {
	contribution func(r topology.Record[K, V]) (Contribution, error)
	timeOf       timeReader[K, V]
	// payload is nil if payloads are not compared. hash is what it returned last.
	payload payload.Hasher[K, V]
	hash    [hashBytes]byte
	// step is by how much the windows advance in milliseconds, 0 if a contribution is in one at
	// most.
	step          int64
	columns       []string
	scales        []uint8
	nullKey       func(K) bool
	contributions state.KeyValue[ContributionKey[K], Posting]
	balances      state.KeyValue[K, Sum]

	change              topology.Emit[K, Balance]
	duplicate, conflict topology.Emit[K, V]
	// usesDuplicates says that something uses the stream of duplicates.
	usesDuplicates, emitsConflicts bool

	acceptedCounter, duplicatesCounter, conflictsCounter *topology.Counter

	// log is nil if the decisions are not used. store is the name of the store of the balances.
	log   decision.Log
	store string
}

// tell tells of a decision about the balance of a ledger, whose version is its count; after is 0
// where the balance did not change.
func (h *handler[K, V]) tell(
	c *topology.Context, ledger K, outcome, id string, posting *Posting, why schemas.Reason, after int64,
) error {
	if h.log == nil {
		return nil
	}
	row, err := h.balances.EncodeKey(ledger)
	if err != nil {
		return err
	}
	d := decision.Decision{Outcome: outcome, Reason: string(why), Store: h.store, Row: row, Subject: id}
	if d.Names = posting.Corrects; d.Names == "" {
		d.Names = posting.Reverses
	}
	if after > 0 {
		d.Before, d.After = topology.Some(after-1), topology.Some(after)
	}
	return h.log(c, d)
}

func (h *handler[K, V]) handle(c *topology.Context, r topology.Record[K, V]) error {
	if h.nullKey(r.Key) {
		return identity.NullKey()
	}
	contribution, err := h.contribution(r)
	if err != nil {
		return identity.Refused(err)
	}
	if contribution.Decimals != nil {
		if contribution.Amounts, err = h.amounts(contribution); err != nil {
			return err
		}
	}
	if err := h.check(&contribution); err != nil {
		return err
	}
	at, err := h.timeOf(r)
	if err != nil {
		return identity.Refused(err)
	}
	posting := Posting{
		Amounts: contribution.Amounts, Timestamp: at, Corrects: contribution.Corrects, Reverses: contribution.Reverses,
	}
	if h.payload != nil {
		if h.hash, err = h.payload(r); err != nil {
			return identity.Refused(err)
		}
		posting.Payload = h.hash[:] // until the next record; the row is encoded before
	}
	if contribution.Reverses != "" {
		return h.reverse(c, &r, contribution.ID, posting)
	}
	key := ContributionKey[K]{Ledger: r.Key, ID: contribution.ID}
	first, seen, err := h.contributions.PutIfAbsent(key, posting)
	switch {
	case err != nil:
		return err
	case seen:
		return h.again(c, &r, contribution.ID, &first, &posting)
	case contribution.Corrects != "":
		corrected := ContributionKey[K]{Ledger: r.Key, ID: contribution.Corrects}
		if _, known, err := h.contributions.Get(corrected); err != nil {
			return err
		} else if !known {
			return topology.Fail(topology.Validation, errCorrects)
		}
	}
	return h.add(c, &r, contribution.ID, &posting)
}

// again processes a contribution whose id the ledger has.
func (h *handler[K, V]) again(
	c *topology.Context, r *topology.Record[K, V], id string, first, posting *Posting,
) error {
	switch {
	case len(first.Amounts) != len(h.columns):
		return h.otherColumns(len(first.Amounts))
	case h.step > 0 && first.Timestamp/h.step != posting.Timestamp/h.step:
		// Some windows have the contribution, and some that the record is in have not: as a
		// conflict it would be posted to those alone. Its failure undoes it in all of them.
		return topology.Fail(topology.Conflict, errWindows)
	case first.same(posting):
		h.duplicatesCounter.Inc()
		if h.log != nil {
			if err := h.tell(c, r.Key, "duplicates", id, posting, "", 0); err != nil {
				return err
			}
		}
		if !h.usesDuplicates {
			return nil
		}
		return h.duplicate(c, *r)
	case first.sameEffect(posting):
		return h.dispute(c, r, id, posting, errPayload)
	}
	return h.dispute(c, r, id, posting, errConflict)
}

// dispute processes a contribution that contradicts a stored one.
func (h *handler[K, V]) dispute(
	c *topology.Context, r *topology.Record[K, V], id string, posting *Posting, why schemas.Reason,
) error {
	if !h.emitsConflicts {
		return topology.Fail(topology.Conflict, why)
	}
	h.conflictsCounter.Inc()
	if err := h.tell(c, r.Key, "conflicts", id, posting, why, 0); err != nil {
		return err
	}
	return h.conflict(c, *r)
}

func (h *handler[K, V]) check(contribution *Contribution) error {
	if err := identity.CheckID(contribution.ID); err != nil {
		return err
	}
	if contribution.Corrects != "" || contribution.Reverses != "" {
		if err := checkNamed(contribution); err != nil {
			return err
		}
		if contribution.Reverses != "" && contribution.Amounts == nil {
			return nil
		}
	}
	if n := len(contribution.Amounts); n != len(h.columns) {
		return topology.Fail(topology.Config, schemas.Reason(fmt.Sprintf(
			"the contribution has %d amounts, and the ledger has %d columns", n, len(h.columns))))
	}
	return nil
}

// checkNamed looks at the contribution that another one names.
func checkNamed(contribution *Contribution) error {
	named := contribution.Corrects
	if contribution.Reverses != "" {
		if named != "" {
			return topology.Fail(topology.Validation, errBoth)
		}
		named = contribution.Reverses
	}
	if err := identity.CheckID(named); err != nil {
		return err
	}
	if named == contribution.ID {
		return topology.Fail(topology.Validation, errItself)
	}
	return nil
}

// add brings a contribution that was just posted into the balance. If it fails, the posting is
// undone with the record.
func (h *handler[K, V]) add(c *topology.Context, r *topology.Record[K, V], id string, posting *Posting) error {
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
	for i, amount := range posting.Amounts {
		total := sum.Amounts[i] + amount
		if total > sum.Amounts[i] != (amount > 0) {
			return h.overflow(i)
		}
		sum.Amounts[i] = total
	}
	if err := h.balances.Put(r.Key, sum); err != nil {
		return err
	}
	h.acceptedCounter.Inc()
	if h.log != nil {
		var why schemas.Reason
		switch {
		case posting.Corrects != "":
			why = reasonCorrects
		case posting.Reverses != "":
			why = reasonReverses
		}
		if err := h.tell(c, r.Key, "accepted", id, posting, why, sum.Count); err != nil {
			return err
		}
	}
	return h.change(c, topology.WithValue(*r, Balance{
		Count: sum.Count, Amounts: sum.Amounts, Contribution: id,
	}))
}

func (h *handler[K, V]) overflow(column int) error {
	return topology.Fail(topology.Validation, schemas.Reason(
		"the balance in column "+h.columns[column]+" would leave the range of 64 bits"))
}

func (h *handler[K, V]) otherColumns(n int) error {
	return topology.Fail(topology.Config, schemas.Reason(fmt.Sprintf(
		"the ledger's rows have %d columns, and the program has %d; a ledger with other columns needs another name",
		n, len(h.columns))))
}
