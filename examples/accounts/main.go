// Command accounts keeps the balance of each account and counts each payment once. It is the
// program of the README, with all commands of onceward:
//
//	accounts run --brokers localhost:9092 --state-dir ./state
//	accounts describe
package main

import (
	"os"

	"github.com/onceward/onceward/cmd/cli"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

type payment struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

func id(r topology.Record[string, payment]) (string, error) { return r.Value.ID, nil }

func contribution(r topology.Record[string, payment]) (ledger.Contribution, error) {
	return ledger.Contribution{ID: r.Value.ID, Amounts: []int64{r.Value.Amount}}, nil
}

func accounts() (*topology.Topology, error) {
	b := topology.NewBuilder("accounts", topology.DeadLetters("payments-dead"))
	payments := topology.From(b, topology.Topic("payments", schemas.String(), schemas.JSON[payment]()))
	once := inbox.Dedupe(payments, "inbox", id, inbox.Forever())
	balances := ledger.Post(once.Accepted(), "balances", contribution)
	balances.Changes().Into(topology.Topic("balances", schemas.String(), ledger.BalanceCodec()))
	return b.Build() // reports all mistakes at once, with file and line
}

func main() { os.Exit(cli.Run(accounts)) }
