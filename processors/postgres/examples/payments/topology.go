package main

import (
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

type (
	fact    = transition.Fact[string]
	refusal = transition.Refused[string, Step]
)

// topics are the topics between the processes. The keys are payments, and accounts in balances.
type topics struct {
	prefix   string
	steps    topology.TopicOf[string, Step]
	facts    topology.TopicOf[string, fact]
	refused  topology.TopicOf[string, refusal]
	balances topology.TopicOf[string, ledger.Balance]
	dead     string
}

func topicsOf(prefix string) topics {
	return topics{
		prefix:   prefix,
		steps:    topology.Topic(prefix+"steps", schemas.String(), schemas.JSON[Step]()),
		facts:    topology.Topic(prefix+"facts", schemas.String(), schemas.JSON[fact]()),
		refused:  topology.Topic(prefix+"refused", schemas.String(), schemas.JSON[refusal]()),
		balances: topology.Topic(prefix+"balances", schemas.String(), schemas.JSON[ledger.Balance]()),
		dead:     prefix + "dead",
	}
}

// topology decides about steps, and keeps the balance of each account.
func (t topics) topology() (*topology.Topology, error) {
	b := topology.NewBuilder(t.prefix+"topology", topology.DeadLetters(t.dead))
	t.decide(once(topology.From(b, t.steps)))
	return b.Build()
}

// once drops the copies that a relay leaves when it dies between publishing a step and storing that
// the step is published.
func once(all topology.Stream[string, Step]) topology.Stream[string, Step] {
	return inbox.Dedupe(all, "inbox", envelope.EventID, inbox.Forever()).Accepted()
}

// decide lets payments take the steps that the machine allows. Captures and refunds change the
// balance of the account.
func (t topics) decide(asked topology.Stream[string, Step]) {
	guard := transition.Guard(asked, "payments", machine, stepOf, transition.EmitRefused())
	guard.Facts().Into(t.facts)
	// A dead letter would undo the row of the inbox, and a copy of the step would be refused again.
	guard.Refused().Into(t.refused)

	moving := guard.Accepted().Filter("moving", func(r topology.Record[string, Step]) (bool, error) {
		return r.Value.To == captured || r.Value.To == refunded, nil
	})
	byAccount := topology.SelectKey(moving, "account", func(r topology.Record[string, Step]) (string, error) { return r.Value.Account, nil })
	accounts := topology.RepartitionWith(byAccount, "accounts", schemas.String(), schemas.JSON[Step]())
	ledger.Post(accounts, "balances", contribution).Changes().Into(t.balances)
}

func stepOf(r topology.Record[string, Step]) (transition.Transition[string], error) {
	id, err := envelope.EventID(r)
	return transition.Transition[string]{ID: id, From: r.Value.From, To: r.Value.To}, err
}

// contribution adds the cents of a capture, and takes them back at a refund.
func contribution(r topology.Record[string, Step]) (ledger.Contribution, error) {
	capture := r.Value.Payment + "-captured"
	if r.Value.To == refunded {
		return ledger.Contribution{ID: r.Value.Payment + "-refunded", Reverses: capture}, nil
	}
	return ledger.Contribution{ID: capture, Amounts: []int64{r.Value.Cents}}, nil
}
