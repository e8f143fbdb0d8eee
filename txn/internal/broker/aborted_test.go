package broker_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn/internal/broker/batch"
)

// TestAbortedIsSkipped: what was aborted is not read as committed where an answer ends in the
// middle of it, whichever way it is read.
func TestAbortedIsSkipped(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newFetchScene(t)
		ctx := t.Context()
		producer := s.Client(t, "aborting", kgo.TransactionalID("p"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(kgo.NoCompression()))
		transaction := func(batches int, end kgo.TransactionEndTry) {
			if err := producer.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			for range batches {
				records := make([]*kgo.Record, 50)
				for i := range records {
					records[i] = &kgo.Record{Topic: "one", Partition: 0, Key: []byte("k"), Value: make([]byte, 100)}
				}
				if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
					t.Fatal(err)
				}
			}
			if err := producer.EndTransaction(ctx, end); err != nil {
				t.Fatal(err)
			}
		}
		transaction(1, kgo.TryCommit)
		transaction(20, kgo.TryAbort)
		transaction(1, kgo.TryCommit)
		const end, want = 22*50 + 3, 100

		reader := s.cluster.NewReader("one", s.ids["one"], 0, true, 16<<10)
		n := 0
		for at := int64(0); at < end; {
			f, err := reader.Fetch(ctx, at, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			n += len(f.Records)
			at = f.Next
		}
		if n != want {
			t.Errorf("the reader got %d records, want %d", n, want)
		}

		stream := s.fetcher.Open("one", s.ids["one"], 0)
		defer stream.Close()
		d := batch.NewDecoder()
		n = 0
		for at := int64(0); at < end; {
			a, err := stream.Fetch(ctx, at, 16<<10)
			if err != nil {
				t.Fatal(err)
			}
			if at, err = a.Decode(d, func(batch.Record) error { n++; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if n != want {
			t.Errorf("the fetcher got %d records, want %d", n, want)
		}
	})
}
