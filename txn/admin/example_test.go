package admin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
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

// ExampleApplication_AcceptSkip moves an offset from outside, as a tool does that knows nothing of
// the state, and takes it back into the hands of the application, after a look at what would be
// done.
func ExampleApplication_AcceptSkip() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "words", "counts"))
	must(err)
	defer broker.Close()
	ctx := context.Background()
	b := topology.NewBuilder("wordcount")
	words := topology.From(b, topology.Topic("words", schemas.String(), schemas.String()))
	topology.Process(words, "count", topology.KeyValueStore("counts", schemas.String(), schemas.Int64()), count).
		Into(topology.Topic("counts", schemas.String(), schemas.Int64()))
	wordcount, err := b.Build()
	must(err)

	produce(ctx, broker, 10)
	runUntil(ctx, broker, wordcount, 10)
	produce(ctx, broker, 5)
	tool, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	must(err)
	defer tool.Close()
	moved := kadm.Offsets{}
	moved.AddOffset("words", 0, 14, -1)
	must(kadm.NewClient(tool).CommitAllOffsets(ctx, "wordcount", moved))

	client, err := admin.Connect(ctx, broker.ListenAddrs()...)
	must(err)
	defer client.Close()
	stopped := client.Application(wordcount)
	plan, err := stopped.AcceptSkip(ctx, admin.Options{DryRun: true})
	must(err)
	fmt.Println(plan.Tasks[0].Task, "stays at", plan.Tasks[0].Inputs[0].After, "because", plan.Tasks[0].Reason)
	_, err = stopped.AcceptSkip(ctx, admin.Options{Tasks: []string{"words_0"}})
	must(err)

	_, err = stopped.Reset(ctx, admin.Options{}, admin.Offsets{"words": admin.Start})
	fmt.Println("back:", errors.Is(err, admin.ErrRefused))
	done, err := stopped.RebuildFromInput(ctx, admin.Options{}, nil)
	must(err)
	fmt.Println("rebuilt from", done.Tasks[0].Inputs[0].After, "with", done.Tasks[0].Changelogs[0].Tombstones, "tombstones")
	// Output:
	// words_0 stays at 14 because the committed offsets carry no metadata of this application, but there is state: they were set from outside or by another program
	// back: true
	// rebuilt from 0 with 1 tombstones
}

func count(
	c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
) error {
	n, _, err := counts.Get(r.Key)
	if err != nil {
		return err
	}
	if err := counts.Put(r.Key, n+1); err != nil {
		return err
	}
	return emit(c, topology.Record[string, int64]{Key: r.Key, Value: n + 1, Timestamp: r.Timestamp})
}

// produce writes the same word n times.
func produce(ctx context.Context, broker *kfake.Cluster, n int) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	must(err)
	defer cl.Close()
	for range n {
		must(cl.ProduceSync(ctx, &kgo.Record{Topic: "words", Key: []byte("word"), Value: []byte("word")}).FirstErr())
	}
}

// runUntil runs the application until it has processed n records.
func runUntil(ctx context.Context, broker *kfake.Cluster, t *topology.Topology, n int64) {
	dir, err := os.MkdirTemp("", "onceward")
	must(err)
	defer os.RemoveAll(dir)
	app, err := txn.New(t, txn.Config{Brokers: broker.ListenAddrs(), StateDir: dir, Workers: 1, Logger: slog.New(slog.DiscardHandler)})
	must(err)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	for app.Status().Totals.Records < n {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	must(<-done)
}
