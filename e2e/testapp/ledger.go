package testapp

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// The topics, behind the prefix that the application is told.
const (
	In       = "in"
	Copied   = "copied"
	Repeated = "repeated"
	Balances = "balances"
	Counts   = "counts"
	Dead     = "dead"
)

// The stores, and the repartitioning.
const (
	Inbox       = "inbox"
	Ledger      = "ledger"
	CountsStore = "counts"
	ByOther     = "by-other"
)

// Input is an input record's value.
type Input struct {
	ID      uint32 `json:"id"`
	Message uint32 `json:"m"`
	Key     uint32 `json:"k"`
	Other   uint32 `json:"x"`
	Amount  int64  `json:"v"`
	Poison  bool   `json:"poison,omitempty"`
}

// Total is the value of balances and counts, and of the store of counts.
type Total struct {
	ID    uint32 `json:"id"`
	Count int64  `json:"count"`
	Sum   int64  `json:"sum"`
}

// Accounts is the topology with the stores that can be read.
type Accounts struct {
	Topology *topology.Topology
	Parts    Parts
	Balances topology.Store[state.KeyValue[string, ledger.Sum]]
	Counts   topology.Store[state.KeyValue[string, Total]]
	prefix   string
}

// Parts says which parts of the topology there are. The copy is always there.
type Parts struct {
	// Ledger is the inbox with the ledger behind it.
	Ledger bool
	// Repartition is the second subtopology. Behind an inbox it counts messages, without one it
	// counts deliveries.
	Repartition bool
	// LeakDuplicates breaks the inbox on purpose: every delivery has an id of its own.
	LeakDuplicates bool
}

// Everything are all parts.
var Everything = Parts{Ledger: true, Repartition: true}

// NewAccounts returns the topology. The prefix is that of the topics' names.
func NewAccounts(application, prefix string, parts Parts) (Accounts, error) {
	a := Accounts{Parts: parts, prefix: prefix}
	b := topology.NewBuilder(application, topology.DeadLetters(prefix+Dead))
	text, input, total := schemas.String(), schemas.JSON[Input](), schemas.JSON[Total]()
	source := topology.From(b, topology.Topic(prefix+In, text, input))
	messages := source
	if parts.Ledger {
		once := inbox.Dedupe(source, Inbox, messageID(parts.LeakDuplicates), inbox.Forever(), inbox.PayloadHash(payloadOf))
		once.Duplicates().Into(topology.Topic(prefix+Repeated, text, input))
		messages = once.Accepted()
		sums := ledger.Post(messages, Ledger, contributionOf, ledger.Columns("amount"))
		topology.MapValues(sums.Changes(), "balance", balanceOf).Into(topology.Topic(prefix+Balances, text, total))
		a.Balances = sums.BalanceStore()
	}
	if parts.Repartition {
		others := topology.RepartitionWith(topology.SelectKey(messages, "other", otherOf), ByOther, text, input)
		a.Counts = topology.KeyValueStore(CountsStore, text, total)
		topology.Process(others, "count", a.Counts, count).Into(topology.Topic(prefix+Counts, text, total))
	}
	source.Filter("strict", notPoison).Into(topology.Topic(prefix+Copied, text, input))
	var err error
	a.Topology, err = b.Build()
	return a, err
}

// RepartitionTopic is the topic between the two subtopologies.
func (a Accounts) RepartitionTopic() string {
	return a.Topology.Application() + "-" + ByOther + "-repartition"
}

// Topics returns the topics that an observer reads, and how: the application's own ones are among
// them.
func (a Accounts) Topics() map[string]Kind {
	topics := map[string]Kind{a.prefix + In: Inputs, a.prefix + Copied: Inputs, a.prefix + Dead: Inputs}
	if a.Parts.Ledger {
		topics[a.prefix+Repeated], topics[a.prefix+Balances] = Inputs, Totals
	}
	if a.Parts.Repartition {
		topics[a.prefix+Counts], topics[a.RepartitionTopic()] = Totals, Inputs
	}
	for _, sub := range a.Topology.Subtopologies() {
		for _, st := range sub.Stores {
			topics[st.ChangelogTopic] = Changelog
		}
	}
	return topics
}

// UserTopics returns those of Topics that have to exist before the application starts.
func (a Accounts) UserTopics() []string {
	var names []string
	for topic := range a.Topics() {
		if !strings.HasPrefix(topic, a.Topology.Application()+"-") {
			names = append(names, topic)
		}
	}
	slices.Sort(names)
	return names
}

// Spec tells package check what the topology does. openMax is how long a transaction may be open.
func (a Accounts) Spec(openMax time.Duration) check.Spec {
	in := a.prefix + In
	s := check.Spec{
		Input: in, OpenMax: openMax,
		Outputs: []check.Output{
			{Topic: a.prefix + Copied, From: in, Which: check.Deliveries, By: check.ByPartition},
			{Topic: a.prefix + Dead, From: in, Which: check.Poison, By: check.ByPartition},
		},
	}
	messages, store := check.Deliveries, ""
	if a.Parts.Ledger {
		messages, store = check.Messages, Inbox
		s.Outputs = append(s.Outputs,
			check.Output{Topic: a.prefix + Repeated, From: in, Which: check.Repeats, By: check.ByPartition},
			check.Output{
				Topic: a.prefix + Balances, From: in, Which: messages, By: check.ByKey, Totals: true, Store: a.Balances.Name(),
			})
	}
	if a.Parts.Repartition {
		s.Repartition = a.RepartitionTopic()
		s.Outputs = append(s.Outputs,
			check.Output{Topic: s.Repartition, From: in, Which: messages, By: check.ByOther, Store: store},
			check.Output{
				Topic: a.prefix + Counts, From: s.Repartition, Which: messages, By: check.ByOther, Totals: true, Store: CountsStore,
			})
	}
	for _, sub := range a.Topology.Subtopologies() {
		for _, st := range sub.Stores {
			d := check.Store{Name: st.Name, Changelog: st.ChangelogTopic, From: in, By: check.ByKey}
			switch {
			case st.Name == Inbox:
				d.IDs = true
			case st.Name == CountsStore:
				d.From, d.By, d.Deliveries = s.Repartition, check.ByOther, !a.Parts.Ledger
			case a.Parts.Ledger && st.Name == a.Balances.Name():
			default:
				d.Opaque = true
			}
			s.Stores = append(s.Stores, d)
		}
	}
	return s
}

type inputRecord = topology.Record[string, Input]

// messageID names the message. A broken one names the delivery.
func messageID(broken bool) func(inputRecord) (string, error) {
	return func(r inputRecord) (string, error) {
		id := r.Value.Message
		if broken {
			id = r.Value.ID
		}
		return strconv.FormatUint(uint64(id), 10), nil
	}
}

// payloadOf is what repeated deliveries of a message have in common: all but the delivery's id.
func payloadOf(r inputRecord) ([32]byte, error) {
	return sha256.Sum256(strconv.AppendInt(nil, r.Value.Amount, 10)), nil
}

// contributionOf names the contribution after the delivery: if the inbox lets a message pass twice,
// the ledger must not hide it.
func contributionOf(r inputRecord) (ledger.Contribution, error) {
	return ledger.Contribution{ID: strconv.FormatUint(uint64(r.Value.ID), 10), Amounts: []int64{r.Value.Amount}}, nil
}

func balanceOf(b ledger.Balance) (Total, error) {
	id, err := strconv.ParseUint(b.Contribution, 10, 32)
	return Total{ID: uint32(id), Count: b.Count, Sum: b.Amounts[0]}, err
}

func otherOf(r inputRecord) (string, error) {
	return strconv.FormatUint(uint64(r.Value.Other), 10), nil
}

func count(
	c *topology.Context, counts state.KeyValue[string, Total], r inputRecord, emit topology.Emit[string, Total],
) error {
	t, _, err := counts.Get(r.Key)
	if err != nil {
		return err
	}
	t = Total{ID: r.Value.ID, Count: t.Count + 1, Sum: t.Sum + r.Value.Amount}
	if err := counts.Put(r.Key, t); err != nil {
		return err
	}
	return emit(c, topology.WithValue(r, t))
}

// notPoison comes last in the graph: a record that fails here has written to every store and topic,
// and all of it has to vanish.
func notPoison(r inputRecord) (bool, error) {
	if r.Value.Poison {
		return false, topology.Fail(topology.Validation, schemas.Reason("the input is marked as poison"))
	}
	return true, nil
}
