package faults

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
)

// TestDelayedEndTxn is the negative control of TestLateCommit. A client's commit is delayed, the
// client tries again with success, and the delayed one arrives inside its next transaction, which
// the client aborts. With transaction.version 2 the abort stands. Without it the late commit
// commits records that the client then believes aborted, which is why the runtime refuses such a
// cluster.
//
// It is not parallel, so that its broker is gone before that of the others starts: two at a time
// are too many for a small machine.
func TestDelayedEndTxn(t *testing.T) {
	c := cluster.Own(t, cluster.KindKafka)
	for _, level := range []int16{2, 1, 0} {
		t.Run(fmt.Sprintf("transaction.version %d", level), func(t *testing.T) {
			if level < 2 {
				setTransactionVersion(t, c, level)
			}
			visible := delayedEndTxn(t, c)
			if got, want := slices.Contains(visible, "aborted"), level < 2; got != want {
				t.Errorf("committed records are %v; the aborted one is among them: %t, want %t", visible, got, want)
			}
			if !slices.Contains(visible, "committed") {
				t.Errorf("committed records are %v, want the committed one among them", visible)
			}
		})
	}
}

func setTransactionVersion(t *testing.T, c *cluster.Cluster, level int16) {
	t.Helper()
	results, err := c.Admin().UpdateFeatures(t.Context(), false, kadm.FeatureUpdate{
		Feature: "transaction.version", MaxVersionLevel: level, UpgradeType: 2, // a downgrade without loss
	})
	if err == nil {
		err = results.Error()
	}
	if err != nil {
		t.Fatalf("transaction.version %d: %v", level, err)
	}
}

// delayedEndTxn returns the values that a reader of committed records sees.
func delayedEndTxn(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), onKafka.patience)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	topic := c.Name(t, "topic")
	must(c.CreateTopic(ctx, topic, 1, nil))
	p, err := proxy.Start(c.Brokers()...)
	must(err)
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Brokers()...), kgo.DefaultProduceTopic(topic), kgo.TransactionalID(c.Name(t, "id")),
		kgo.RequestTimeoutOverhead(time.Second)) // after which the commit is tried again
	must(err)
	defer cl.Close()

	held := p.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToBroker, Limit: 1}, proxy.Hold())
	reply := p.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToClient, Where: func(f *proxy.Frame) bool {
		return f.Answers() == held.First()
	}}, proxy.Pass())
	must(cl.BeginTransaction())
	must(cl.ProduceSync(ctx, kgo.StringRecord("committed")).FirstErr())
	must(cl.EndTransaction(ctx, kgo.TryCommit))
	must(cl.BeginTransaction())
	must(cl.ProduceSync(ctx, kgo.StringRecord("aborted")).FirstErr())
	if held.Counts().Delivered != 0 {
		t.Fatal("the commit is not late: it has reached the broker")
	}
	held.Lift()
	must(reply.AwaitMatched(ctx, 1))
	t.Logf("the late commit was answered with %v", refusal(t, reply.First()))
	t.Logf("the abort was answered with %v", cl.EndTransaction(ctx, kgo.TryAbort))
	parts, err := c.ReadAll(ctx, topic)
	must(err)
	var values []string
	for _, r := range parts[0] {
		values = append(values, string(r.Value))
	}
	return values
}
