package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
)

// TestVirtualLifecycle: brokers that are down answer nobody, and come back with their data.
func TestVirtualLifecycle(t *testing.T) {
	OnVirtual(t, func(t *testing.T, c *Cluster) {
		ctx, topic := t.Context(), newTopic(t, c, 1)
		p := newProducer(t, c, c.Name(t, "txn"))
		p.write(true, topic, 0, "before")
		if err := c.Kill(); err != nil {
			t.Fatal(err)
		}
		limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
		defer cancel()
		r := &kgo.Record{Topic: topic, Value: []byte("lost")}
		outcast := c.Client(t, kgo.RecordDeliveryTimeout(time.Minute))
		if err := outcast.ProduceSync(limited, r).FirstErr(); !errors.Is(err, kgo.ErrRecordTimeout) {
			t.Errorf("writing to brokers that are down: %v", err)
		}
		if err := c.Kill(); err == nil {
			t.Error("killed brokers that are down")
		}
		if err := c.Resume(ctx); err != nil {
			t.Fatal(err)
		}
		p.write(false, topic, 0, "after")
		p.end(kgo.TryCommit)
		expectAll(t, c, topic, "before after")
	})
}

// TestVirtualNamesRepeat: a test gets the same names in every run, and different ones for each
// call.
func TestVirtualNamesRepeat(t *testing.T) {
	var runs [2][]string
	for i := range runs {
		virtual.Test(t, func(t *testing.T) {
			n := virtual.NewNetwork(t, 1)
			c := Virtual(t, n, virtual.NewKafka(t, n, 1))
			runs[i] = []string{c.Name(t, "a"), c.Name(t, "a"), c.Name(t, "b")}
		})
	}
	if !slices.Equal(runs[0], runs[1]) || runs[0][0] == runs[0][1] {
		t.Errorf("the names are %q and %q", runs[0], runs[1])
	}
}

// TestDialerIsOfTheHost: a client with the dialer of a host bears what happens to that host, and
// the observers do not.
func TestDialerIsOfTheHost(t *testing.T) {
	OnVirtual(t, func(t *testing.T, c *Cluster) {
		topic := newTopic(t, c, 1)
		cl := c.Client(t, kgo.Dialer(c.Dialer("app")), kgo.RecordDeliveryTimeout(time.Minute), kgo.DisableIdempotentWrite())
		c.Network().Host("app").Down()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr(); !errors.Is(err, kgo.ErrRecordTimeout) {
			t.Errorf("a host without network writes with %v", err)
		}
		expectAll(t, c, topic, "")
	})
	if (&Cluster{node: &embeddedNode{}}).Dialer("app") != nil {
		t.Error("an embedded broker has a dialer")
	}
}
