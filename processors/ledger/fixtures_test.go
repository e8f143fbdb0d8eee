package ledger_test

import (
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Entry is what the tests post: a contribution as it travels.
type Entry struct {
	ID       string  `json:"id"`
	Amounts  []int64 `json:"amounts"`
	Corrects string  `json:"corrects,omitempty"`
	Reverses string  `json:"reverses,omitempty"`
	// Note is a part of the payload that the ledger does not add up.
	Note string `json:"note,omitempty"`
}

type (
	entry   = topology.Record[string, Entry]
	entries = topology.Stream[string, Entry]
)

var (
	entryTopic    = topology.Topic("entries", schemas.String(), schemas.JSON[Entry]())
	balanceTopic  = topology.Topic("balances", schemas.String(), schemas.JSON[ledger.Balance]())
	dupTopic      = topology.Topic("duplicates", schemas.String(), schemas.JSON[Entry]())
	conflictTopic = topology.Topic("conflicts", schemas.String(), schemas.JSON[Entry]())
)

func contribution(r entry) (ledger.Contribution, error) {
	return ledger.Contribution{
		ID: r.Value.ID, Amounts: r.Value.Amounts, Corrects: r.Value.Corrects, Reverses: r.Value.Reverses,
	}, nil
}

// routed declares a ledger all of whose outcomes go to topics. A record with the header fail fails
// behind it.
func routed(b *topology.Builder, opts ...ledger.Option) ledger.Ledger[string, Entry] {
	return routedFrom(b, contribution, opts...)
}

func routedFrom(
	b *topology.Builder, read func(r entry) (ledger.Contribution, error), opts ...ledger.Option,
) ledger.Ledger[string, Entry] {
	l := ledger.Post(topology.From(b, entryTopic), "ledger", read, append([]ledger.Option{ledger.EmitConflicts()}, opts...)...)
	l.Changes().Into(balanceTopic)
	l.Changes().Peek("fragile", func(r topology.Record[string, ledger.Balance]) error {
		if _, ok := r.Header("fail"); ok {
			return schemas.Reason("asked to")
		}
		return nil
	})
	l.Duplicates().Into(dupTopic)
	l.Conflicts().Into(conflictTopic)
	return l
}
