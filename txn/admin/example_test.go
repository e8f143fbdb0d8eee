package admin_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/txn/admin"
)

// Example reads what a topic holds that is committed.
func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1))
	must(err)
	defer broker.Close()
	ctx := context.Background()
	client, err := admin.Connect(ctx, broker.ListenAddrs()...)
	must(err)
	defer client.Close()
	must(client.CreateTopic(ctx, "out", 1))

	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.TransactionalID("app~first~0~0"))
	must(err)
	defer producer.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		must(producer.BeginTransaction())
		must(producer.ProduceSync(ctx, &kgo.Record{Topic: "out", Value: []byte("a record")}).FirstErr())
		open, err := client.OpenTransactions(ctx, "app")
		must(err)
		fmt.Println("open:", open)
		must(producer.EndTransaction(ctx, end))
	}
	contents, err := client.Read(ctx, "out")
	must(err)
	fmt.Println("committed:", len(contents.Records), "aborted transactions:", contents.Aborted)
	// Output:
	// open: [app~first~0~0]
	// open: [app~first~0~0]
	// committed: 1 aborted transactions: 1
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
