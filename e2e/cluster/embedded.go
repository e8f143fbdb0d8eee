package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

// embeddedNode is kfake with its data on disk: one broker, transaction.version 2 (its default), no
// topics made on the fly.
type embeddedNode struct {
	settings map[string]string
	id       string // cluster id
	dir      *TempDir
	port     int
	log      *os.File
	broker   *kfake.Cluster // nil while it is down
}

func newEmbeddedNode(settings map[string]string) (*embeddedNode, error) {
	ports, err := freePorts(loopback, 1)
	if err != nil {
		return nil, err
	}
	dir, err := NewTempDir(dataKind)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(dir.File("broker.log"))
	if err != nil {
		return nil, errors.Join(err, dir.Remove())
	}
	return &embeddedNode{settings: settings, id: newID(), dir: dir, port: ports[0], log: log}, nil
}

func (n *embeddedNode) addrs() []string   { return []string{hostPort(loopback, n.port)} }
func (n *embeddedNode) clusterID() string { return n.id }

// The embedded broker cannot end on its own: a panic in it is one of this process.
func (n *embeddedNode) ended() <-chan struct{} { return nil }
func (n *embeddedNode) cause() error           { return nil }

func (n *embeddedNode) launch(context.Context) error {
	broker, err := kfake.NewCluster(
		kfake.Ports(n.port), // one port is one broker
		kfake.ClusterID(n.id),
		kfake.DataDir(n.dir.File("data")),
		kfake.DefaultNumPartitions(1),
		kfake.GroupMinSessionTimeout(minSessionTimeout),
		kfake.BrokerConfigs(n.settings),
		kfake.WithLogger(kfake.BasicLogger(n.log, kfake.LogLevelWarn)),
	)
	if err != nil {
		if op := new(net.OpError); errors.As(err, &op) && op.Op == "listen" {
			return fmt.Errorf("%w: %w", errPortTaken, err)
		}
		return err
	}
	n.broker = broker
	return nil
}

func (n *embeddedNode) kill() error {
	n.broker.Close()
	n.broker = nil
	return nil
}

func (n *embeddedNode) stop() error { return n.kill() }

func (n *embeddedNode) close() error {
	if n.broker != nil {
		n.broker.Close()
		n.broker = nil
	}
	return errors.Join(n.log.Close(), n.dir.Remove())
}

func (n *embeddedNode) logTail() string { return Tail(n.log.Name(), logLimit) }
