package processing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
	"github.com/onceward/onceward/txn"
)

// reading adds what one partition of a store has.
type reading func(partition int32) error

// The stores of what waits for facts that are missing, whose codecs are the projection's own.
var (
	parkedStore = topology.KeyValueStore(nodeAccounts+"-parked", schemas.Bytes(), schemas.Bytes())
	queuesStore = topology.KeyValueStore(nodeAccounts+"-queues", schemas.String(), schemas.Bytes())
)

// positionBytes is how a key of parkedStore ends: with a separator, an incarnation and a version.
const positionBytes = 2 + 8 + 8

// archiveStore has the ids that are to be archived: rows that begin with a byte, and have so many
// before the id.
var archiveStore = topology.KeyValueStore(nodeInbox+"-archive", schemas.Int64(), schemas.Bytes())

const (
	archiveEntry      = 2
	archiveEntryBytes = 1 + 42
)

// queueOf reads what is to be archived.
func queueOf(p parts, open opener, o outcome) reading {
	if p.queue == nil {
		return eachRow(open, archiveStore, func(_ int64, row []byte) {
			if row[0] == archiveEntry {
				o.add(placeEntered, "%s", row[archiveEntryBytes:])
			}
		})
	}
	return func(partition int32) error {
		if partition == 0 { // it is one for all
			o[placeEntered] = append(o[placeEntered], p.queue.waiting()...)
		}
		return nil
	}
}

// claimsStore has who was the first to ask for an order, in the form in which package inbox says
// that it is stored: behind so many bytes comes the id.
var claimsStore = topology.KeyValueStore(nodeOrders+"-business", schemas.String(), schemas.Bytes())

const claimBytes = 1 + 8 + 32

// rowsStore has the rows of both definitions of the standings. Behind the account its keys have so
// many bytes, the last two of which are the definition, and before the standing its values have so
// many, the last eight of which are the version.
var rowsStore = topology.KeyValueStore(nodeChoice+"-rows", schemas.Bytes(), schemas.Bytes())

const (
	definedBytes = 2 + 2
	rowBytes     = 1 + 2 + 1 + 8
)

// waitingOf reads what waits, by the form in which package projection says that it is stored.
func waitingOf(open opener, o outcome) []reading {
	return []reading{
		eachRow(open, parkedStore, func(key, _ []byte) {
			version := binary.BigEndian.Uint64(key[len(key)-8:]) ^ 1<<63
			o.add(parkedStore.Name(), "%s %d", key[:len(key)-positionBytes], version)
		}),
		eachRow(open, queuesStore, func(account string, queue []byte) {
			o.add(queuesStore.Name(), "%s %d", account, binary.BigEndian.Uint64(queue[1:]))
		}),
	}
}

// stored reads all stores of a pipeline. open gives access to the stores of a partition.
func stored(p parts, open opener) (o outcome, err error) {
	o = outcome{}
	var waiting []reading
	if p.waits {
		waiting = waitingOf(open, o)
	}
	for partition := range int32(Partitions) {
		for _, read := range append(waiting, []reading{
			queueOf(p, open, o),
			each(open, p.inbox.RetainedStore(), func(s state.Dedupe[string, inbox.Entry]) error {
				for pair, err := range s.All() {
					if err != nil {
						return err
					}
					o.add(nodeInbox, "%s", pair.ID)
				}
				return nil
			}),
			eachRow(open, p.accounts.Store(), func(account string, r projection.Row[Account]) {
				o.add(nodeAccounts, "%s %d %d %d %+v", account, r.Version, r.Value.Facts, r.Value.Total, r.Value.Last)
			}),
			eachRow(open, p.lifecycle.AggregateStore(), func(account string, a transition.Aggregate[Standing]) {
				o.add(nodeLifecycle, "%s %s %d", account, a.State, a.Version)
			}),
			eachRow(open, p.lifecycle.FactStore(), func(k transition.FactKey[string], _ transition.Fact[Standing]) {
				o.add("facts", "%s %s", k.Aggregate, k.ID)
			}),
			eachRow(open, p.orders.Store(), func(id string, e inbox.Entry) { o.add(nodeOrders, "%s %s", id, e.Outcome) }),
			eachRow(open, claimsStore, func(order string, claim []byte) {
				o.add(claimsStore.Name(), "%s %s", order, claim[claimBytes:])
			}),
			eachRow(open, p.standings.Store(), func(account string, r projection.Row[string]) {
				o.add(nodeStandings, "%s %d %s", account, r.Version, r.Value)
			}),
			eachRow(open, p.next.Store(), func(account string, r projection.Row[string]) {
				o.add(nodeNext, "%s %d %s", account, r.Version, r.Value)
			}),
			eachRow(open, rowsStore, func(key, row []byte) {
				account, definition := key[:len(key)-definedBytes], binary.BigEndian.Uint16(key[len(key)-2:])
				o.add(rowsStore.Name(), "%s %d %d %s", account, definition, binary.BigEndian.Uint64(row[rowBytes-8:rowBytes]), row[rowBytes:])
			}),
			eachRow(open, p.choice.AnswerStore(), func(id string, a projection.Answer) {
				o.add(nodeChoice+"-answers", "%s %s %d", id, a.Outcome, a.Active)
			}),
			eachRow(open, p.choice.ActiveStore(), func(_ string, definition int64) {
				// One partition says it for all of them: those that have had no record yet say
				// nothing.
				if line := fmt.Sprint(definition); !slices.Contains(o[nodeChoice+"-active"], line) {
					o.add(nodeChoice+"-active", "%s", line)
				}
			}),
			eachRow(open, p.balances.BalanceStore(), func(account string, s ledger.Sum) {
				o.add(nodeBalances, "%s %d %d", account, s.Count, s.Amounts[0])
			}),
			eachRow(open, p.balances.ContributionStore(), func(k ledger.ContributionKey[string], c ledger.Posting) {
				o.add(nodeBalances+"-contributions", "%s %s %d %q", k.Ledger, k.ID, c.Amounts[0], c.ReversedBy)
			}),
			eachRow(open, p.flows.BalanceStore(), func(w ledger.Window[string], s ledger.Sum) {
				o.add(nodeFlows, "%s %d %d", windowText(w.Key, w.Start), s.Count, s.Amounts[0])
			}),
			eachRow(open, p.flows.ContributionStore(), func(k ledger.ContributionKey[ledger.Window[string]], c ledger.Posting) {
				o.add(nodeFlows+"-contributions", "%s %s %d %q", windowText(k.Ledger.Key, k.Ledger.Start), k.ID, c.Amounts[0], c.ReversedBy)
			}),
			eachRow(open, p.payouts.Store(), func(id string, e effect.Effect) { o.add(nodePayouts, "%s %s", e.Status, id) }),
			eachRow(open, p.notices.Store(), func(id string, e effect.Effect) { o.add(nodeNotices, "%s %s", e.Status, id) }),
		}...) {
			if err := read(partition); err != nil {
				return nil, err
			}
		}
	}
	return o.sorted(), nil
}

// opener gives access to the stores of a pipeline: those of a driver, or those of lives of an
// application, each partition from the life that serves it.
type opener struct {
	driver *topologytest.Driver
	lives  []*instance.App
}

// each reads a store as a whole.
func each[S any](o opener, store topology.Store[S], f func(S) error) reading {
	return func(partition int32) error {
		if o.driver != nil {
			s, err := topologytest.Store(o.driver, store, partition)
			if err != nil {
				return err
			}
			return f(s)
		}
		for _, l := range o.lives {
			view, err := txn.Read(l.App, store, partition)
			if errors.Is(err, txn.ErrNotServing) {
				continue
			}
			if err != nil {
				return err
			}
			return errors.Join(f(view.Store()), view.Close())
		}
		return fmt.Errorf("no life serves partition %d of store %s", partition, store.Name())
	}
}

// eachRow reads the rows of a store.
func eachRow[K, V any](o opener, store topology.Store[state.KeyValue[K, V]], f func(K, V)) reading {
	return each(o, store, func(s state.KeyValue[K, V]) error {
		for pair, err := range s.All() {
			if err != nil {
				return err
			}
			f(pair.Key, pair.Value)
		}
		return nil
	})
}
