package txn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// ExampleRead queries a store while its application runs. A query is answered from committed state, and the answer says which: a caller
// that has seen a record of the input can wait until a view contains it.
func ExampleRead() {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "words"))
	must(err)
	defer broker.Close()
	stateDir, err := os.MkdirTemp("", "onceward-example-")
	must(err)
	defer os.RemoveAll(stateDir)

	counts := topology.Store("counts", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("words")
	words := topology.From(b, topology.Topic("words", schemas.String(), schemas.String()))
	topology.Process(words, "count", counts, func(
		_ *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], _ topology.Emit[string, int64],
	) error {
		n, _, err := counts.Get(r.Value)
		if err != nil {
			return err
		}
		return counts.Put(r.Value, n+1)
	})
	t, err := b.Build()
	must(err)
	app, err := txn.New(t, txn.Config{
		Brokers: broker.ListenAddrs(), StateDir: stateDir, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	must(err)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	done := make(chan error)
	go func() { done <- app.Run(ctx) }()

	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	must(err)
	defer client.Close()
	var last int64
	for _, word := range []string{"one", "two", "two"} {
		r, err := client.ProduceSync(ctx, &kgo.Record{Topic: "words", Key: []byte(word), Value: []byte(word)}).First()
		must(err)
		last = r.Offset
	}

	for served := false; !served && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		view, err := txn.Read(app, counts, 0)
		if errors.Is(err, txn.ErrNotServing) {
			continue // such as txn.ErrRestoring: it passes, or another instance has the partition
		}
		must(err)
		if in, _ := view.Positions().Input("words", 0); in.Offset > last {
			served = true
			n, _, err := view.Get("two")
			must(err)
			fmt.Println("two:", n)
			fmt.Println("committed by a round:", !view.Round().IsZero(), "of an owner:", view.Epoch() != txn.Epoch{})
		}
		must(view.Close())
	}
	stop()
	must(<-done)

	_, err = txn.Read(app, counts, 0, txn.Stale())
	fmt.Println(err)
	// Output:
	// two: 2
	// committed by a round: true of an owner: true
	// reading store counts[0]: not served by this process
}
