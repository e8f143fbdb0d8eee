package cli_test

import (
	"context"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/processors/transition"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// deed is a fact about an account.
type deed struct {
	ID      string `json:"id"`
	Version int64  `json:"version"`
	// From and To are a step of the account; To is empty if it takes none.
	From string `json:"from,omitzero"`
	To   string `json:"to,omitzero"`
	// Amount is what the account gains, and Corrects the deed that was told with a wrong one.
	Amount   int64  `json:"amount,omitzero"`
	Corrects string `json:"corrects,omitzero"`
	// Pays says that the amount is paid to a person.
	Pays bool `json:"pays,omitzero"`
}

// decidingTopology has a processor of each kind, whose decisions are evidence. Behind the inbox the
// records go through a topic of the application's own, so that nothing there knows where they came
// from; the accounts wait for versions that are missing.
func decidingTopology() *topology.Topology {
	type record = topology.Record[string, deed]
	b := topology.NewBuilder("deciding", topology.DeadLetters("dead"))
	write := func(name string, decisions topology.Stream[[]byte, decision.Decision]) {
		evidence.Record(decisions, name+"-audit", evidence.Topic("audit"))
	}
	deeds := func(name string) topology.TopicOf[string, deed] {
		return topology.Topic(name, schemas.String(), schemas.JSON[deed]())
	}

	once := inbox.Dedupe(topology.From(b, deeds("deeds")), "inbox", func(r record) (string, error) { return r.Value.ID, nil }, inbox.Forever(),
		inbox.EmitConflicts())
	once.Conflicts().Into(deeds("disputed"))
	write("inbox", once.Decisions())

	byAccount := topology.RepartitionWith(once.Accepted(), "by-account", schemas.String(), schemas.JSON[deed]())
	last := func(_ deed, _ bool, r record) (deed, error) { return r.Value, nil }
	accounts := projection.Latest(byAccount, "accounts", func(r record) (int64, error) { return r.Value.Version, nil }, last,
		schemas.JSON[deed](), projection.FirstVersion(1), projection.ParkGaps(schemas.JSON[deed](), projection.Limits{
			Records: 100, StreamTime: 1000 * time.Hour, Then: projection.FailFast,
		}))
	accounts.Abandoned().Into(topology.Topic("abandoned", schemas.String(), schemas.JSON[projection.Abandoned[deed]]()))
	write("accounts", accounts.Decisions())
	ordered := topology.MapValues(accounts.Changes(), "ordered", func(v projection.Row[deed]) (deed, error) {
		return v.Value, nil
	})

	steps := ordered.Filter("steps", func(r record) (bool, error) { return r.Value.To != "", nil })
	machine := transition.Machine[string]{Initial: []string{"open"}, Next: map[string][]string{"open": {"closed"}, "closed": nil}}
	lifecycle := transition.Guard(steps, "lifecycle", machine, func(r record) (transition.Transition[string], error) {
		return transition.Transition[string]{ID: r.Value.ID, From: r.Value.From, To: r.Value.To}, nil
	}, transition.EmitRefused())
	lifecycle.Refused().Into(topology.Topic("refused", schemas.String(), schemas.JSON[transition.Refused[string, deed]]()))
	write("lifecycle", lifecycle.Decisions())

	money := ordered.Filter("money", func(r record) (bool, error) { return r.Value.Amount != 0, nil })
	balances := ledger.Post(money, "balances", func(r record) (ledger.Contribution, error) {
		return ledger.Contribution{ID: r.Value.ID, Amounts: []int64{r.Value.Amount}, Corrects: r.Value.Corrects}, nil
	})
	write("balances", balances.Decisions())

	paid := ordered.Filter("paid", func(r record) (bool, error) { return r.Value.Pays, nil })
	payouts := effect.Perform(paid, "payouts", func(r record) (effect.Request, error) {
		return effect.Request{ID: r.Value.ID, Type: "payout", Target: "bank", Payload: []byte(r.Key)}, nil
	}, func(context.Context, effect.Call) ([]byte, error) { return []byte("receipt"), nil })
	write("requests", payouts.Requests())
	write("outcomes", payouts.Outcomes())
	return mustBuild(b)
}
