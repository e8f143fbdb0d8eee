package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/onceward/onceward/txn/admin"
)

// clusterFlags say how to reach a cluster, for commands that can do without one.
type clusterFlags struct {
	Brokers        []string      `placeholder:"HOST:PORT" env:"ONCEWARD_BROKERS" help:"Brokers to start from, with commas between them."`
	ConnectTimeout time.Duration `default:"60s" placeholder:"DURATION" env:"ONCEWARD_CONNECT_TIMEOUT" help:"How long to wait for the brokers at the start; default ${default}."`
	connection
}

// connect returns a client of the cluster, nil if no brokers are given. log may be nil.
func (c clusterFlags) connect(ctx context.Context, log *slog.Logger) (*admin.Client, error) {
	if len(c.Brokers) == 0 {
		return nil, nil //nolint:nilnil // the caller can do without
	}
	if c.ConnectTimeout <= 0 {
		return nil, usage("--connect-timeout: %s is no time to wait; give more than 0s", c.ConnectTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	client, err := admin.ConnectWith(ctx, admin.Config{Brokers: c.Brokers, Security: c.security(), Logger: log})
	return client, wrongConnection(err)
}
