package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

const envBrokers = "ONCEWARD_KAFKA_BROKERS"

// externalNode is a cluster that another program runs.
type externalNode []string

// externalFromEnv returns the cluster that the environment names, or nil if it names none.
func externalFromEnv(settings map[string]string) (node, error) {
	list := os.Getenv(envBrokers)
	if list == "" {
		return nil, nil
	}
	if len(settings) > 0 {
		return nil, fmt.Errorf("%s names a cluster, but this one needs settings of its own: set Options.Own",
			envBrokers)
	}
	var n externalNode
	for addr := range strings.SplitSeq(list, ",") {
		addr = strings.TrimSpace(addr)
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("%s must be host:port,...: %w", envBrokers, err)
		}
		n = append(n, addr)
	}
	return n, nil
}

func (n externalNode) addrs() []string            { return n }
func (externalNode) clusterID() string            { return "" }
func (externalNode) launch(context.Context) error { return nil }
func (externalNode) ended() <-chan struct{}       { return nil }
func (externalNode) cause() error                 { return nil }
func (externalNode) kill() error                  { return errors.New("it was not started here") }
func (externalNode) stop() error                  { return errors.New("it was not started here") }
func (externalNode) close() error                 { return nil }
func (externalNode) logTail() string              { return "" }
