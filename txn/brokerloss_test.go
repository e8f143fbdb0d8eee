//go:build onceward_failpoints

package txn_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/txn"
)

// TestInstanceAndBrokerAreKilled: a broker dies together with one of two instances, and others take
// over its partitions and coordinators after some seconds, as with the session timeout of a broker.
// The instance that is left pauses for up to two seconds between tries to fence the dead one.
func TestInstanceAndBrokerAreKilled(t *testing.T) {
	const brokerSession = 9 * time.Second
	for broker := range 3 {
		bubble(t, fmt.Sprint("broker ", broker), func(t *testing.T) {
			s := pairAt(t, newBrokers(t, 3, kfake.SeedTopics(4, "in", "out")), nil)
			feed(t, s.testBroker, 200)
			s.read(t, "out", 200)
			s.abandon("one")
			s.hosts["one"].Kill()
			s.kafka.Stop(broker)
			time.Sleep(brokerSession)
			if err := s.RemoveNode(int32(broker)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			s.await("all tasks at the instance that is left", func() bool { return s.has("two", 4) })
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("it took %s from when the brokers had taken over", took)
			}
			feed(t, s.testBroker, 200)
			check(t, s.read(t, "out", 400), 20)
		})
	}
}

// TestNoStormWhileBrokersAreAway: an instance tries again and again to reach brokers that refuse,
// or of which one refuses. Each of its clients makes a few tries a second.
func TestNoStormWhileBrokersAreAway(t *testing.T) {
	const (
		clients = 4 // one of the group, two producers, one for the rest
		perSec  = 3
		outage  = time.Minute
	)
	for name, brokers := range map[string][]int{"all": {0, 1, 2}, "one": {0}} {
		bubble(t, name, func(t *testing.T) {
			b := newBrokers(t, 3, kfake.SeedTopics(4, "in", "out"))
			var dials atomic.Int64
			app, _ := start(t, countTopology(t), b.config(txn.Config{
				StateDir: t.TempDir(), Workers: 1,
				Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
					dials.Add(1)
					return b.network.Host("app").Dial(ctx, network, address)
				},
			}))
			feed(t, b, 200)
			b.read(t, "out", 200)
			waitFor(t, "the tasks", running(app, 4))
			for _, broker := range brokers {
				b.kafka.Stop(broker)
			}
			before := dials.Load()
			time.Sleep(outage)
			if n, most := dials.Load()-before, int64(clients*perSec*outage/time.Second); n == 0 || n > most {
				t.Errorf("%d connections were tried in %s, want 1 to %d", n, outage, most)
			}
			for _, broker := range brokers {
				b.kafka.Start(broker)
			}
			back := time.Now()
			waitFor(t, "it to go on", func() bool { return app.Status().State == txn.Running && running(app, 4)() })
			if took := time.Since(back); took > 5*time.Second {
				t.Errorf("it went on %s after the brokers were back", took)
			}
			feed(t, b, 200)
			check(t, b.read(t, "out", 400), 20)
		})
	}
}
