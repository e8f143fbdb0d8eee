package workload

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// The names of stores, and so of changelogs. Those of a ledger begin with its name.
const (
	countStore   = "counts"
	inboxStore   = "inbox"
	ledgerName   = "balances"
	balanceStore = ledgerName + "-balances"
	// shuffleName is the name of the repartitioning.
	shuffleName = "by-counterparty"
)

type (
	record = topology.Record[[]byte, []byte]
	stream = topology.Stream[[]byte, []byte]
)

// errNoEvent is about a record of another length than an event's.
const errNoEvent = schemas.Reason("the value does not have the length of an event")

func read(b *topology.Builder, t Topics) stream {
	return topology.From(b, topology.Topic[[]byte, []byte](t.In, schemas.BytesView(), schemas.BytesView()))
}

func pass(b *topology.Builder, t Topics) {
	read(b, t).Into(topology.Topic(t.Out, schemas.Bytes(), schemas.Bytes()))
}

func count(b *topology.Builder, t Topics) { counts(read(b, t), t) }

func repartition(b *topology.Builder, t Topics) { counts(byCounterparty(read(b, t)), t) }

// counts counts the records of each key.
func counts(s stream, t Topics) {
	store := topology.KeyValueStore(countStore, schemas.Bytes(), schemas.Int64())
	counted := topology.Process(s, "count", store, func(
		c *topology.Context, counts state.KeyValue[[]byte, int64], r record, emit topology.Emit[[]byte, int64],
	) error {
		n, _, err := counts.Get(r.Key)
		if err != nil {
			return err
		}
		n++
		if err := counts.Put(r.Key, n); err != nil {
			return err
		}
		return emit(c, topology.WithValue(r, n))
	})
	counted.Into(topology.Topic(t.Out, schemas.Bytes(), schemas.Int64()))
}

// byCounterparty brings all records with one counterparty together.
func byCounterparty(s stream) stream {
	keyed := topology.SelectKey(s, "counterparty", func(r record) ([]byte, error) {
		if len(r.Value) != ValueBytes {
			return nil, errNoEvent
		}
		return r.Value[counterpartyAt:paddingAt], nil
	})
	return topology.RepartitionWith(keyed, shuffleName, schemas.Bytes(), schemas.Bytes())
}

func post(b *topology.Builder, t Topics) { postAll(read(b, t), t) }

// postComparing does what postOnce does with one row for each record instead of two.
func postComparing(b *topology.Builder, t Topics) { postAll(read(b, t), t, ledger.ComparePayload()) }

func postOnce(b *topology.Builder, t Topics) { postAll(dedupe(read(b, t)).Accepted(), t) }

func postFlights(b *topology.Builder, t Topics) {
	postAll(byCounterparty(dedupe(read(b, t)).Accepted()), t)
}

// Balances returns the store of balances of the workload ledger, for queries of its rows.
func Balances() topology.Store[state.KeyValue[[]byte, ledger.Sum]] {
	return postAll(dedupe(read(topology.NewBuilder(ledgerName), Topics{})).Accepted(), Topics{}).BalanceStore()
}

// postWithEvidence is postOnce, and writes down every decision of both processors.
func postWithEvidence(b *topology.Builder, t Topics) {
	topic := evidence.Topic(EvidenceTopic(t.Out))
	once := dedupe(read(b, t))
	evidence.Record(once.Decisions(), inboxStore+"-evidence", topic)
	evidence.Record(postAll(once.Accepted(), t).Decisions(), ledgerName+"-evidence", topic)
}

func dedupe(s stream) inbox.Inbox[[]byte, []byte] {
	return inbox.Dedupe(s, inboxStore, func(r record) (string, error) {
		if len(r.Value) != ValueBytes {
			return "", errNoEvent
		}
		return string(r.Value[:IDBytes]), nil
	}, inbox.Forever())
}

// postAll adds each record to the ledger of its key.
func postAll(s stream, t Topics, opts ...ledger.Option) ledger.Ledger[[]byte, []byte] {
	posted := ledger.Post(s, ledgerName, func(r record) (ledger.Contribution, error) {
		if len(r.Value) != ValueBytes {
			return ledger.Contribution{}, errNoEvent
		}
		return ledger.Contribution{ID: contributionID(r.Value), Amounts: []int64{amountOf(r.Value)}}, nil
	}, opts...)
	sums := topology.MapValues(posted.Changes(), "sum", func(v ledger.Balance) ([]byte, error) {
		return appendSum(v)
	})
	sums.Into(topology.Topic(t.Out, schemas.Bytes(), schemas.Bytes()))
	return posted
}

// clockDigits is the length of a clock in base64.
const clockDigits = 11

// contributionID is the id of the event with its clock behind it, which the output is to have and a
// balance has no other place for. A contribution has one clock, so the id says no more and no less
// than the event's.
func contributionID(value []byte) string {
	var id [IDBytes + clockDigits]byte
	copy(id[:], value[:IDBytes])
	base64.RawURLEncoding.Encode(id[IDBytes:], value[clockAt:counterpartyAt])
	return string(id[:])
}

// appendSum is a balance as the output has it.
func appendSum(b ledger.Balance) ([]byte, error) {
	if len(b.Contribution) != IDBytes+clockDigits || len(b.Amounts) != 1 {
		return nil, errors.New("the balance is not that of an event")
	}
	sum := make([]byte, clockAt, sumBytes)
	binary.BigEndian.PutUint64(sum, uint64(b.Count))
	binary.BigEndian.PutUint64(sum[8:], uint64(b.Amounts[0]))
	return base64.RawURLEncoding.AppendDecode(sum, []byte(b.Contribution[IDBytes:]))
}
