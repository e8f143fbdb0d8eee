package pipeline

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// written adds a record of an output topic to the outcome, in the form of the recount. What depends on the order in which the facts of an
// account happen to arrive, such as what has waited, has no line.
func (o outcome) written(topic string, key, value []byte, headers []topology.Header) error {
	account := "/" + string(key)
	switch topic {
	case TopicLate:
		e, err := decode[Event](value)
		o.add(topic, "%s", e.ID)
		return err
	case TopicArchive:
		e, err := decode[inbox.Entry](value)
		o.add(topic, "%s %s %d", key, e.Outcome, e.FirstSeen)
		return err
	case TopicAccounts:
		row, err := decode[projection.Row[Account]](value)
		o.add(topic+account, "%d %d %d %+v", row.Version, row.Value.Facts, row.Value.Total, row.Value.Last)
		return err
	case TopicRepairs:
		r, err := decode[projection.Repair](value)
		o.add(placeAsked, "%s %d %d", key, r.From, r.To)
		return err
	case TopicFacts:
		f, err := decode[transition.Fact[Standing]](value)
		o.add(topic+account, "%s %q %q %d", f.ID, f.From, f.To, f.Version)
		return err
	case TopicRefused:
		r, err := decode[transition.Refused[Standing, Event]](value)
		o.add(topic+account, "%s %s", r.Refusal, r.Transition.ID)
		return err
	case TopicAgain:
		e, err := decode[Event](value)
		first, _ := headerOf(headers, inbox.HeaderFirstID)
		o.add(topic+account, "%s of %s", e.ID, first)
		return err
	case TopicStandings:
		row, err := decode[projection.Row[string]](value)
		o.add(topic+account, "%d %s", row.Version, row.Value)
		return err
	case TopicChosen:
		row, err := decode[projection.Row[string]](value)
		o.add(topic+account, "%d %s", row.Version, row.Value)
		return err
	case TopicAnswers:
		a, err := decode[projection.Answer](value)
		o.add(topic, "%s %s %d", a.Command.ID, a.Outcome, a.Active)
		return err
	case TopicBalances:
		return o.balanced(topic+account, value)
	case TopicFlows:
		w, err := ledger.WindowCodec(schemas.String()).Decode(key)
		return errors.Join(err, o.balanced(topic+"/"+windowText(w.Key, w.Start), value))
	case TopicDisputed:
		e, err := decode[Event](value)
		o.add(topic+account, "%s", e.ID)
		return err
	case TopicDoubted:
		return nil // on the way to an end
	case TopicPaid, TopicHeld, TopicNoticed:
		r, err := decode[effect.Result](value)
		o.add(topic, "%s %s", r.Status, r.ID)
		return err
	case TopicAudit:
		return o.audited(key, value)
	case TopicDead:
		return o.died(value, headers)
	default:
		o.add(topic, "%s", value)
		return nil
	}
}

func (o outcome) balanced(place string, value []byte) error {
	b, err := decode[ledger.Balance](value)
	switch {
	case err != nil:
		return err
	case len(b.Amounts) != 1:
		return fmt.Errorf("a balance has %d amounts", len(b.Amounts))
	}
	o.add(place, "%d %d %s", b.Count, b.Amounts[0], b.Contribution)
	return nil
}

func decode[V any](value []byte) (v V, err error) { return v, json.Unmarshal(value, &v) }

// headerOf returns the value of a header; ok is false if there is none.
func headerOf(headers []topology.Header, key string) (value []byte, ok bool) {
	for _, h := range headers {
		if h.Key == key {
			return h.Value, true
		}
	}
	return nil, false
}

// auditTopic reads evidence.
var auditTopic = evidence.Topic(TopicAudit)

func (o outcome) audited(key, value []byte) error {
	row, e, err := auditTopic.Decode(key, value)
	if err != nil {
		return err
	}
	switch {
	case e.Node == nodeAccounts && e.Outcome != "applied": // parked, or stale, or a copy of what waits
		o.add(placeAside, "%s %s", e.Outcome, row)
	case e.Node == nodeAccounts, e.Node == nodeStandings, e.Node == nodeNext:
		if e.After == nil {
			return fmt.Errorf("the evidence of %s has no version: %s", e.Node, value)
		}
		o.add(TopicAudit, "%s %s %s %d", e.Node, e.Outcome, row, *e.After)
	case e.Outcome == effect.FailedRetryable.String(), e.Outcome == effect.Unknown.String(): // on the way to an end
	default:
		o.add(TopicAudit, "%s %s %s", e.Node, e.Outcome, e.Subject)
	}
	return nil
}

// Places of what depends on the order in which the facts of an account happen to arrive, so that no recount knows of it.
const (
	// placeWorld has the dead letters of what was wrong with the world.
	placeWorld = "the world"
	// placeAside has what the projection of accounts has not applied when it came.
	placeAside = "aside"
	// placeAsked has what the source was asked for.
	placeAsked = "asked"
)

// placeEntered has the ids that were accepted, from the archive or the queue of what is to be archived.
const placeEntered = "entered"

// archived adds the ids of an archive to those of its queue. How far the two are apart depends on the order of the partitions.
func (o outcome) archived(lines []string) outcome {
	for _, line := range lines {
		id, _, _ := strings.Cut(line, " ")
		o.add(placeEntered, "%s", id)
	}
	return o.sorted()
}

// placeDefinitions has by which definition the standing of each account was told last.
const placeDefinitions = "definitions"

// chosen adds the standings of an account as they were told, without what depends on when a command has switched: each is there once, and
// once more for a switch behind it. Anything else has a line that no recount has.
func (o outcome) chosen(account string, lines []string) {
	before, definition := "", 0
	for i, line := range lines {
		standing, _, second := strings.Cut(line, " by ")
		by := 1
		if second {
			by = 2
		}
		if again := standing == before; i > 0 && again != (by != definition) {
			o.add(TopicChosen+"/"+account, "%s behind %s by definition %d", line, before, definition)
		} else if !again {
			o.add(TopicChosen+"/"+account, "%s", standing)
		}
		before, definition = standing, by
	}
	o.add(placeDefinitions, "%s %d", account, definition)
}

// asked calls f for each range of versions that the source was asked for, from some line on.
func (o outcome) asked(from int, f func(account string, first, last int64)) error {
	for _, line := range o[placeAsked][from:] {
		var account string
		var first, last int64
		if _, err := fmt.Sscanf(line, "%s %d %d", &account, &first, &last); err != nil {
			return err
		}
		f(account, first, last)
	}
	return nil
}

// askedOnce wants no version to have been asked for twice. A frail account may lack one again that it had, since a record was abandoned.
func (o outcome) askedOnce() error {
	times := map[string]int{}
	var errs []error
	err := o.asked(0, func(account string, first, last int64) {
		for v := first; v <= last && !strings.HasPrefix(account, frail); v++ {
			name := fmt.Sprint(account, "-", v)
			if times[name]++; times[name] == 2 {
				errs = append(errs, fmt.Errorf("the source was asked for %s twice", name))
			}
		}
	})
	return errors.Join(append(errs, err)...)
}

// known is the outcome without what no recount knows of.
func (o outcome) known() outcome {
	c := outcome{}
	for place, lines := range o {
		account, chosen := strings.CutPrefix(place, TopicChosen+"/")
		switch {
		case place == placeWorld, place == placeAside, place == placeAsked:
		case chosen:
			c.chosen(account, lines)
		default:
			c[place] = lines
		}
	}
	return c.sorted()
}

func (o outcome) died(value []byte, headers []topology.Header) error {
	if _, mark := headerOf(headers, admin.HeaderRedriven); mark {
		return nil // an operator's mark, and no letter
	}
	info, err := topology.ParseDeadLetter(headers)
	switch {
	case err != nil:
		return err
	case info.Node == nodeWorld:
		o.add(placeWorld, "%s", value)
	case info.Class == topology.Poison:
		o.add(TopicDead, "%s %s", info.Class, value)
	default:
		e, err := decode[Event](value)
		o.add(TopicDead, "%s %+v", info.Class, e)
		return err
	}
	return nil
}

// findOut is how a person finds out what has become of a call: whether there is what it was to make.
func findOut(doubted []byte, post *Gateway) (effect.Resolution, error) {
	r, err := decode[effect.Result](doubted)
	found := effect.Resolution{ID: r.ID, Attempts: r.Attempts, Status: effect.FailedRetryable, By: "clerk"}
	if post.times(r.IdempotencyKey) > 0 {
		found.Status = effect.Completed
	}
	return found, err
}

// reading adds what one partition of a store has.
type reading func(partition int32) error

// The stores of what waits for facts that are missing, whose codecs are the projection's own.
var (
	parkedStore = topology.Store(nodeAccounts+"-parked", schemas.Bytes(), schemas.Bytes())
	queuesStore = topology.Store(nodeAccounts+"-queues", schemas.String(), schemas.Bytes())
)

// positionBytes is how a key of parkedStore ends: with a separator, an incarnation and a version.
const positionBytes = 2 + 8 + 8

// archiveStore has the ids that are to be archived: rows that begin with a byte, and have so many before the id.
var archiveStore = topology.Store(nodeInbox+"-archive", schemas.Int64(), schemas.Bytes())

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

// claimsStore has who was the first to ask for an order, in the form in which package inbox says that it is stored: behind so many bytes
// comes the id.
var claimsStore = topology.Store(nodeOrders+"-business", schemas.String(), schemas.Bytes())

const claimBytes = 1 + 8 + 32

// rowsStore has the rows of both definitions of the standings. Behind the account its keys have so many bytes, the last two of which are
// the definition, and before the standing its values have so many, the last eight of which are the version.
var rowsStore = topology.Store(nodeChoice+"-rows", schemas.Bytes(), schemas.Bytes())

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
				// One partition says it for all of them: those that have had no record yet say nothing.
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

// opener gives access to the stores of a pipeline: those of a driver, or those of lives of an application, each partition from the life
// that serves it.
type opener struct {
	driver *topologytest.Driver
	lives  []*instance.App
}

// each reads a store as a whole.
func each[S any](o opener, store topology.TypedStore[S], f func(S) error) reading {
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
		return fmt.Errorf("nobody serves partition %d of store %s", partition, store.Name())
	}
}

// eachRow reads the rows of a store.
func eachRow[K, V any](o opener, store topology.StoreOf[K, V], f func(K, V)) reading {
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
