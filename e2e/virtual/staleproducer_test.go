package virtual_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
)

// TestLateBatchOpensNoTransaction: a batch that arrives when its producer has been fenced is
// refused, and opens no transaction.
func TestLateBatchOpensNoTransaction(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		n := virtual.NewNetwork(t, 1)
		k := virtual.NewKafka(t, n, 1, kfake.SeedTopics(1, "out"))
		begin := func(host string) *kgo.Client {
			t.Helper()
			cl := k.Client(t, host, kgo.TransactionalID("id"), kgo.DefaultProduceTopic("out"))
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			return cl
		}
		produce := func(cl *kgo.Client) {
			t.Helper()
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		old := begin("old")
		produce(old)
		held := n.Host("old").Add(proxy.Match{Key: proxy.KeyProduce, Direction: proxy.ToBroker, Limit: 1}, proxy.Hold())
		answered := make(chan struct{})
		old.Produce(t.Context(), kgo.StringRecord("late"), func(_ *kgo.Record, err error) {
			if err == nil {
				t.Error("the late batch was accepted")
			}
			close(answered)
		})
		if err := held.AwaitMatched(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		fresh := begin("new")
		produce(fresh)
		if err := fresh.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		held.Lift()
		if err := held.AwaitDelivered(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		<-answered
		open, err := virtual.OpenTransactions(t.Context(), k.Admin(t, "observer"))
		if err != nil || len(open) > 0 {
			t.Errorf("open: %v, %v", open, err)
		}
	})
}
