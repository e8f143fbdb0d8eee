package latency

import (
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

const (
	// accounts is the number of keys; events go round through them.
	accounts = 10_000
	// valueBytes is the size of an event's value: 8 bytes of zero, the event's number, an amount, padding.
	valueBytes = 100
)

// encode returns key and value of an event.
func encode(event uint64) (key, value []byte) {
	value = make([]byte, valueBytes)
	binary.BigEndian.PutUint64(value[8:], event)
	binary.BigEndian.PutUint64(value[16:], event%1000)
	return binary.BigEndian.AppendUint64(nil, event%accounts), value
}

var errNotOurs = errors.New("the balance does not name an event")

// eventOf returns which event led to a balance.
func eventOf(value []byte) (uint64, error) {
	b, err := ledger.BalanceCodec().Decode(value)
	if err != nil {
		return 0, err
	}
	id, err := hex.DecodeString(b.Contribution)
	if err != nil || len(id) != 8 {
		return 0, errNotOurs
	}
	return binary.BigEndian.Uint64(id), nil
}

type record = topology.Record[[]byte, []byte]

// contribution is named after the event, so that the balance is too.
func contribution(r record) (ledger.Contribution, error) {
	amount := int64(binary.BigEndian.Uint64(r.Value[16:]))
	return ledger.Contribution{ID: hex.EncodeToString(r.Value[8:16]), Amounts: []int64{amount}}, nil
}

// Topology returns inbox dedupe and ledger over the topics.
func Topology(application string, topics Topics) (*topology.Topology, error) {
	b := topology.NewBuilder(application, topology.DeadLetters(topics.Dead))
	in := topology.From(b, topology.Topic(topics.In, schemas.Bytes(), schemas.Bytes()))
	once := inbox.Dedupe(in, "inbox", func(r record) (string, error) { return hex.EncodeToString(r.Value[:16]), nil })
	posted := ledger.Post(once.Accepted(), "balances", contribution)
	posted.Changes().Into(topology.Topic(topics.Out, schemas.Bytes(), ledger.BalanceCodec()))
	return b.Build()
}
