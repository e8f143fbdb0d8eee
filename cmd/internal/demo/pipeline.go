package demo

import (
	"github.com/onceward/onceward/processors/deadletter"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

const classHeader = graph.HeaderClass

// PaymentEvent is a capture request or the reversal of one, as it arrives.
type PaymentEvent struct {
	MessageID        string `json:"message_id"`
	CorrelationID    string `json:"correlation_id"`
	SchemaVersion    int    `json:"schema_version"`
	CaptureRequestID string `json:"capture_request_id"`
	Kind             string `json:"kind"`
	AmountMinor      int64  `json:"amount_minor"`
	Version          int64  `json:"version"`
	Reverses         string `json:"reverses,omitempty"`
}

// Account is the row that is projected per account.
type Account struct {
	Version     int64  `json:"version"`
	LastMessage string `json:"last_message"`
}

// Balance is the balance of an account after one contribution.
type Balance struct {
	Count        int64  `json:"count"`
	AmountMinor  int64  `json:"amount_minor"`
	Contribution string `json:"contribution"`
}

var (
	reasonEnvelope = schemas.Reason("the envelope is incomplete")
	reasonConflict = "the message id was used before with another payload"
)

// event is a record of the drill.
type event = topology.Record[string, PaymentEvent]

// Topology is the pipeline of the drill.
func Topology() (*topology.Topology, error) {
	b := topology.NewBuilder(application, topology.DeadLetters(deadTopic))
	eventJSON := schemas.JSON[PaymentEvent]()
	events := topology.From(b, topology.Topic(eventsTopic, schemas.String(), eventJSON))
	valid := events.Peek("validate", validate)

	once := inbox.Dedupe(valid, "inbox", messageID, inbox.Forever(), inbox.EmitConflicts())
	once.Duplicates().Into(topology.Topic(duplicatesTopic, schemas.String(), eventJSON))
	deadletter.Send(once.Conflicts(), "conflict", topology.Conflict, reasonConflict)

	accounts := projection.Latest(once.Accepted(), "accounts", version, lastMessage, schemas.JSON[Account](),
		projection.OnGap(projection.AcceptLatest))
	topology.MapValues(accounts.Changes(), "account", func(v projection.Row[Account]) (Account, error) {
		return v.Value, nil
	}).Into(topology.Topic(accountsTopic, schemas.String(), schemas.JSON[Account]()))
	accounts.Stale().Into(topology.Topic(staleTopic, schemas.String(), schemas.JSON[projection.Skipped[PaymentEvent]]()))
	accounts.Gaps().Into(topology.Topic(gapsTopic, schemas.String(), schemas.JSON[projection.Gap[PaymentEvent]]()))

	balances := ledger.Post(once.Accepted(), "balances", contribution, ledger.Columns("amount_minor"), ledger.EmitConflicts())
	topology.MapValues(balances.Changes(), "balance", func(v ledger.Balance) (Balance, error) {
		return Balance{Count: v.Count, AmountMinor: v.Amounts[0], Contribution: v.Contribution}, nil
	}).Into(topology.Topic(balancesTopic, schemas.String(), schemas.JSON[Balance]()))
	balances.Duplicates().Into(topology.Topic(recapturedTopic, schemas.String(), eventJSON))
	balances.Conflicts().Into(topology.Topic(overTopic, schemas.String(), eventJSON))
	return b.Build()
}

func validate(r event) error {
	e := r.Value
	if e.MessageID == "" || e.CorrelationID == "" || e.SchemaVersion != 1 || e.CaptureRequestID == "" {
		return topology.Fail(topology.Validation, reasonEnvelope)
	}
	return nil
}

func version(r event) (int64, error) { return r.Value.Version, nil }

func lastMessage(_ Account, _ bool, r event) (Account, error) {
	return Account{Version: r.Value.Version, LastMessage: r.Value.MessageID}, nil
}

func contribution(r event) (ledger.Contribution, error) {
	return ledger.Contribution{ID: r.Value.CaptureRequestID, Amounts: []int64{r.Value.AmountMinor}, Corrects: r.Value.Reverses}, nil
}
