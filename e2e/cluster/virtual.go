package cluster

import (
	"context"
	"net"
	"testing"

	"github.com/onceward/onceward/e2e/virtual"
)

// virtualNode is brokers on a virtual network. They begin and end with their test; what takes them
// down makes them unreachable.
type virtualNode struct {
	network *virtual.Network
	kafka   *virtual.Kafka
}

// observer is the host of a virtual cluster's own requests. The weather leaves it alone.
const observer = "observer"

// Virtual returns the brokers of a virtual network as a cluster. Call it in the bubble of the
// network. [Cluster.Kill] and [Cluster.Stop] make all brokers unreachable, their data kept, as
// [virtual.Kafka.Stop] does.
func Virtual(t testing.TB, network *virtual.Network, kafka *virtual.Kafka) *Cluster {
	t.Helper()
	network.Host(observer).Steady()
	c := &Cluster{kind: KindVirtual, node: virtualNode{network, kafka}}
	t.Cleanup(func() {
		c.report(t)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// Network returns the network of a [Virtual] cluster, nil of any other.
func (c *Cluster) Network() *virtual.Network {
	if n, ok := c.node.(virtualNode); ok {
		return n.network
	}
	return nil
}

// Dialer returns how a client on a host reaches the brokers, for kgo.Dialer and txn.Config.Dialer.
// It is nil, which is the clients' own way, unless the network is virtual.
func (c *Cluster) Dialer(host string) func(ctx context.Context, network, address string) (net.Conn, error) {
	if n := c.Network(); n != nil {
		return n.Host(host).Dial
	}
	return nil
}

func (n virtualNode) addrs() []string      { return n.kafka.Brokers() }
func (virtualNode) clusterID() string      { return "" }
func (virtualNode) ended() <-chan struct{} { return nil }
func (virtualNode) cause() error           { return nil }
func (virtualNode) close() error           { return nil } // they end with the test

func (n virtualNode) launch(context.Context) error {
	for i := range n.kafka.Brokers() {
		n.kafka.Start(i)
	}
	return nil
}

func (n virtualNode) kill() error {
	for i := range n.kafka.Brokers() {
		n.kafka.Stop(i)
	}
	return nil
}

func (n virtualNode) stop() error { return n.kill() }

// traceTail is how many lines of the trace a failed test shows.
const traceTail = 200

func (n virtualNode) logTail() string { return n.network.Trace().Last(traceTail) }
