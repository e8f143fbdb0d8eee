//go:build unix

package processing

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const paymentPartitions = 4

// payment is what is deduped.
type payment struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

// copiesScene is an application with an inbox and a ledger behind it, all of whose outcomes have
// topics.
type copiesScene struct {
	*cluster.Cluster
	t                                             *testing.T
	application                                   string
	in, accepted, duplicates, conflicts, balances string
	producer                                      *kgo.Client
	log                                           *instance.Log
	lives                                         int
	options                                       []inbox.Option
}

func newCopiesScene(t *testing.T, c *cluster.Cluster, options ...inbox.Option) *copiesScene {
	t.Helper()
	e := &copiesScene{
		Cluster: c, t: t, application: c.Name(t, "app"), in: c.Name(t, "in"), accepted: c.Name(t, "accepted"),
		duplicates: c.Name(t, "duplicates"), conflicts: c.Name(t, "conflicts"), balances: c.Name(t, "balances"),
		producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
		log:      instance.NewLog(t, "the instances"),
		options:  options,
	}
	c.CreateTopics(t, paymentPartitions, e.in, e.accepted, e.duplicates, e.conflicts, e.balances)
	return e
}

// start begins a life of an instance.
func (e *copiesScene) start(stateDir string) *instance.App {
	e.t.Helper()
	b := topology.NewBuilder("payments")
	payments := schemas.JSON[payment]()
	id := func(r topology.Record[string, payment]) (string, error) { return r.Value.ID, nil }
	once := inbox.Dedupe(topology.From(b, topology.Topic(e.in, schemas.String(), payments)), "inbox", id,
		append([]inbox.Option{inbox.EmitConflicts()}, e.options...)...)
	once.Accepted().Into(topology.Topic(e.accepted, schemas.String(), payments))
	once.Duplicates().Into(topology.Topic(e.duplicates, schemas.String(), payments))
	once.Conflicts().Into(topology.Topic(e.conflicts, schemas.String(), payments))
	ledger.Post(once.Accepted(), "balances", func(r topology.Record[string, payment]) (ledger.Contribution, error) {
		return ledger.Contribution{ID: r.Value.ID, Amounts: []int64{r.Value.Amount}}, nil
	}).Changes().Into(topology.Topic(e.balances, schemas.String(), schemas.JSON[ledger.Balance]()))
	top, err := b.Build()
	if err != nil {
		e.t.Fatal(err)
	}
	e.lives++
	return instance.Start(e.t, top, instance.On(e.Cluster, fmt.Sprint("life-", e.lives), txn.Config{
		StateDir: stateDir, Application: e.application, Logger: slog.New(slog.NewTextHandler(e.log, nil)),
	}))
}

// feed writes payments, each to a partition and with a key of its own choice.
func (e *copiesScene) feed(copies []paymentCopy) {
	e.t.Helper()
	records := make([]*kgo.Record, len(copies))
	for i, c := range copies {
		value, err := json.Marshal(c.payment)
		if err != nil {
			e.t.Fatal(err)
		}
		records[i] = &kgo.Record{Topic: e.in, Partition: c.partition, Key: []byte(c.key), Value: value}
	}
	if err := e.producer.ProduceSync(e.t.Context(), records...).FirstErr(); err != nil {
		e.t.Fatal(err)
	}
}

// paymentCopy is one copy of a payment.
type paymentCopy struct {
	payment
	partition int32
	key       string
}

// until waits until n payments have come out, with any outcome, and returns those of each outcome.
func (e *copiesScene) until(n int) map[string][]*kgo.Record {
	e.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	late := time.After(instance.Patience)
	for {
		out, total := map[string][]*kgo.Record{}, 0
		for _, topic := range []string{e.accepted, e.duplicates, e.conflicts} {
			out[topic] = e.Records(e.t, topic)
			total += len(out[topic])
		}
		if total >= n {
			return out
		}
		select {
		case <-tick.C:
		case <-late:
			e.t.Fatalf("%d of %d payments have come out within %s", total, n, instance.Patience)
		}
	}
}

// decode returns the payment of a record.
func (e *copiesScene) decode(r *kgo.Record) payment {
	e.t.Helper()
	var p payment
	if err := json.Unmarshal(r.Value, &p); err != nil {
		e.t.Fatal(err)
	}
	return p
}

// copiesOf returns three copies of each payment from..to, in three partitions and under three keys.
// Of every tenth payment the third copy says something else.
func copiesOf(from, to int) (copies []paymentCopy) {
	for i := from; i < to; i++ {
		for n := range 3 {
			c := paymentCopy{payment: payment{ID: fmt.Sprint("payment-", i), Amount: 1}, partition: int32((i + n) % paymentPartitions),
				key: fmt.Sprint("account-", (i+5*n)%7)}
			if i%10 == 0 && n == 2 {
				c.Amount = 2
			}
			copies = append(copies, c)
		}
	}
	return copies
}
