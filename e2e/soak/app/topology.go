// Package app is the application that the long tests run, in processes of its own that can be killed and frozen.
//
// Every output record is a JSON document with the id of the input that it comes from, so that package check can follow each input
// through the application. The soak's topology uses everything that has to be right together: an inbox, a ledger, a copy, dead letters,
// and a repartitioning with a store behind it.
//
//	in ─► parse ─┬► inbox ─┬ accepted ─┬► ledger ─► balances
//	             │         │           └► by-other (repartition) ─► counts (store) ─► counts
//	             │         └ duplicates ─► repeated
//	             └► strict (poison fails here, after all of the above) ─► copied
//
// The copy's topology is the last line alone.
package app

import (
	"crypto/sha256"
	"strconv"
	"time"

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

// Soak is the soak's topology with the stores that can be read.
type Soak struct {
	Topology *topology.Topology
	Balances topology.StoreOf[string, ledger.Sum]
	Counts   topology.StoreOf[string, Total]
}

// NewSoak returns the soak's topology.
func NewSoak(prefix string) (Soak, error) {
	b := topology.NewBuilder("soak", topology.DeadLetters(prefix+Dead))
	text, input, total := schemas.String(), schemas.JSON[Input](), schemas.JSON[Total]()
	source := topology.From(b, topology.Topic(prefix+In, text, input))

	once := inbox.Dedupe(source, Inbox, messageID, inbox.PayloadHash(payloadOf))
	once.Duplicates().Into(topology.Topic(prefix+Repeated, text, input))

	sums := ledger.Post(once.Accepted(), Ledger, contributionOf, ledger.Columns("amount"))
	topology.MapValues(sums.Changes(), "balance", balanceOf).Into(topology.Topic(prefix+Balances, text, total))

	others := topology.Repartition(topology.SelectKey(once.Accepted(), "other", otherOf), ByOther, text, input)
	counts := topology.Store(CountsStore, text, total)
	topology.Process(others, "count", counts, count).Into(topology.Topic(prefix+Counts, text, total))

	source.Filter("strict", notPoison).Into(topology.Topic(prefix+Copied, text, input))
	t, err := b.Build()
	return Soak{t, sums.BalanceStore(), counts}, err
}

// NewCopy returns the copy's topology. Each record takes pace to copy: a copy is over in a second otherwise, and nothing could happen to
// it.
func NewCopy(prefix string, pace time.Duration) (*topology.Topology, error) {
	b := topology.NewBuilder("copy")
	source := topology.From(b, topology.Topic(prefix+In, schemas.String(), schemas.Bytes()))
	source.Peek("pace", func(topology.Record[string, []byte]) error {
		time.Sleep(pace)
		return nil
	}).Into(topology.Topic(prefix+Copied, schemas.String(), schemas.Bytes()))
	return b.Build()
}

type inputRecord = topology.Record[string, Input]

func messageID(r inputRecord) (string, error) {
	return brokenMessageID(r, strconv.FormatUint(uint64(r.Value.Message), 10)), nil
}

// payloadOf is what repeated deliveries of a message have in common: all but the delivery's id.
func payloadOf(r inputRecord) ([32]byte, error) {
	return sha256.Sum256(strconv.AppendInt(nil, r.Value.Amount, 10)), nil
}

// contributionOf names the contribution after the delivery: if the inbox lets a message pass twice, the ledger must not hide it.
func contributionOf(r inputRecord) (ledger.Contribution, error) {
	return ledger.Contribution{ID: strconv.FormatUint(uint64(r.Value.ID), 10), Amounts: []int64{r.Value.Amount}}, nil
}

func balanceOf(r topology.Record[string, ledger.Balance]) (Total, error) {
	id, err := strconv.ParseUint(r.Value.Contribution, 10, 32)
	return Total{ID: uint32(id), Count: r.Value.Count, Sum: r.Value.Amounts[0]}, err
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

// notPoison comes last in the graph: a record that fails here has written to every store and topic, and all of it has to vanish.
func notPoison(r inputRecord) (bool, error) {
	if r.Value.Poison {
		return false, topology.Fail(topology.Validation, schemas.Reason("the input is marked as poison"))
	}
	return true, nil
}
