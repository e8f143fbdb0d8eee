//go:build onceward_failpoints

package simulation

import (
	"context"
	"net"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/txn"
)

// points are the failpoints of the runtime.
func points() []string { return txn.Failpoints() }

// The outcomes that a failpoint can give to a request.
var (
	errUnknown = txn.ErrInjected
	errRefused = txn.ErrRefused
)

// onDisk puts the databases of an application on a disk that can be full.
func onDisk(cfg txn.Config, d *disktest.Disk) txn.Config { return cfg.WithDisk(d.Use) }

// onNetwork has an instance on a host reach its peers over the network, and listen for them at an
// address.
func onNetwork(cfg txn.Config, host *virtual.Host, address string) txn.Config {
	return cfg.WithPeerNetwork(func() (net.Listener, error) { return host.Listen(address) }, host.Dial)
}

// fence has an application fence another instance.
func fence(ctx context.Context, app *txn.App, instance string) error {
	return app.FencePeer(ctx, instance)
}

// arm lets hit act at the failpoints of an application, and breaks mechanisms of it.
func arm(cfg txn.Config, hit func(context.Context, string) error, broken []string) (txn.Config, error) {
	return cfg.WithFailpoints(hit, broken...), nil
}
