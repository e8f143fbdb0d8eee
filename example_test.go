package onceward_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Payment is an event as it arrives: perhaps twice, perhaps with the same id for something else.
type Payment struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

// Topics are typed values that are named once.
var (
	payments = topology.Topic("payments", schemas.String(), schemas.JSON[Payment]())
	balances = topology.Topic("balances", schemas.String(), ledger.BalanceCodec())
)

func pipeline() (*topology.Topology, error) {
	b := topology.NewBuilder("accounts", topology.DeadLetters("payments-dead"))
	once := inbox.Dedupe(topology.From(b, payments), "inbox", func(r topology.Record[string, Payment]) (string, error) {
		return r.Value.ID, nil
	}, inbox.Forever())
	posted := ledger.Post(once.Accepted(), "balances", func(r topology.Record[string, Payment]) (ledger.Contribution, error) {
		return ledger.Contribution{ID: r.Value.ID, Amounts: []int64{r.Value.Amount}}, nil
	})
	posted.Changes().Into(balances)
	return b.Build()
}

// Example runs a pipeline that counts every payment once, on the embedded broker: a payment that is
// delivered twice has one effect, and one that reuses an id for another amount becomes a dead
// letter.
func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments", "balances", "payments-dead"))
	check(err)
	defer broker.Close()
	stateDir, err := os.MkdirTemp("", "onceward-example-")
	check(err)
	defer os.RemoveAll(stateDir)

	t, err := pipeline()
	check(err)
	app, err := txn.New(t, txn.Config{
		Brokers: broker.ListenAddrs(), StateDir: stateDir, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	check(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- app.Run(ctx) }()

	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("balances", "payments-dead"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	check(err)
	defer client.Close()
	for _, payment := range []string{
		`{"id":"p1","amount":100}`,
		`{"id":"p2","amount":50}`,
		`{"amount":100, "id":"p1"}`, // again, spelled in another way
		`{"id":"p2","amount":51}`,   // the same id for another amount
		`{"id":"p3","amount":-30}`,
	} {
		check(client.ProduceSync(ctx, &kgo.Record{Topic: "payments", Key: []byte("alice"), Value: []byte(payment)}).FirstErr())
	}
	for read := 0; read < 4; {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			read++
			if r.Topic == "balances" {
				_, balance, err := balances.Decode(r.Key, r.Value)
				check(err)
				fmt.Printf("%s: %d after %d payments\n", r.Key, balance.Amounts[0], balance.Count)
			}
		})
	}
	stop()
	check(<-done)
	// Output:
	// alice: 100 after 1 payments
	// alice: 150 after 2 payments
	// alice: 120 after 3 payments
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
