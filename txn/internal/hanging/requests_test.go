package hanging_test

import (
	"fmt"
	"log/slog"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// TestRequestsOfALook: a look costs as many requests however many partitions there are, and however
// many producers have something open there: a few for each broker.
func TestRequestsOfALook(t *testing.T) {
	small, large := requestsOfALook(t, 30, 20), requestsOfALook(t, 300, 60)
	if !maps.Equal(small, large) {
		t.Errorf("with 30 partitions and 20 producers a look makes the requests %v, with 300 and 60 %v", small, large)
	}
	// Two looks at the partitions; one list, and one description, of each coordinator; the topics,
	// that of offsets and that of transactions.
	want := map[kmsg.Key]int{
		kmsg.DescribeProducers: 2 * lookBrokers, kmsg.ListTransactions: lookBrokers, kmsg.DescribeTransactions: lookBrokers, kmsg.Metadata: 3,
	}
	for key, n := range large {
		if n > want[key] {
			t.Errorf("%d requests of %s, want at most %d", n, kmsg.NameForKey(int16(key)), want[key])
		}
	}
}

const lookBrokers = 3

// lookKeys are all requests that a look makes, and some that it must not make.
var lookKeys = []kmsg.Key{
	kmsg.DescribeProducers, kmsg.ListTransactions, kmsg.DescribeTransactions, kmsg.Metadata, kmsg.FindCoordinator, kmsg.DescribeConfigs,
	kmsg.ListOffsets, kmsg.Fetch, kmsg.ApiVersions,
}

// requestsOfALook returns how many requests a look makes that is not the client's first.
func requestsOfALook(t *testing.T, partitions int32, producers int) (made map[kmsg.Key]int) {
	t.Helper()
	t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			network := virtual.NewNetwork(t, 1)
			kafka := virtual.NewKafka(t, network, lookBrokers, kfake.SeedTopics(partitions, "in", "out"),
				kfake.SeedTopics(1, "app-rounds", broker.OffsetsTopic, broker.TransactionsTopic))
			cluster, err := broker.Connect(t.Context(), broker.Config{
				Brokers: kafka.Brokers(), Dialer: network.Host("operator").Dial, Logger: slog.New(slog.DiscardHandler),
			}, "app")
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			for i := range producers {
				id := broker.TransactionalID("app", "i", i, 0)
				cl := kafka.Client(t, id, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
				if err := cl.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				for p := range partitions / 3 {
					r := &kgo.Record{Topic: "out", Partition: 3*p + int32(i)%3, Value: []byte("v")}
					if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
			}
			b := topology.NewBuilder("app")
			bytes := func(topic string) topology.TopicOf[[]byte, []byte] {
				return topology.Topic(topic, schemas.Bytes(), schemas.Bytes())
			}
			topology.From(b, bytes("in")).Into(bytes("out"))
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			look := func() {
				t.Helper()
				s, err := hanging.SearchOf(t.Context(), cluster, top)
				if err != nil || s.Complete() != nil {
					t.Fatal(err, s.Complete())
				}
				found, err := hanging.Look(t.Context(), cluster, s)
				if err != nil || len(found) != producers || !found[0].Ongoing() {
					t.Fatalf("%d are open, %v", len(found), err)
				}
			}
			look() // the client learns where leaders and coordinators are
			observed := map[kmsg.Key]*kfake.FaultHandle{}
			for _, key := range lookKeys {
				observed[key] = kafka.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Observe: true, Count: -1})
			}
			look()
			made = map[kmsg.Key]int{}
			for key, handle := range observed {
				if n := handle.Hits(); n > 0 {
					made[key] = n
				}
			}
		})
	})
	return made
}
