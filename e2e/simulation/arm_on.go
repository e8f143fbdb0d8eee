//go:build onceward_failpoints

package simulation

import (
	"context"

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

// arm lets hit act at the failpoints of an application, and breaks mechanisms of it.
func arm(cfg txn.Config, hit func(context.Context, string) error, broken []string) (txn.Config, error) {
	return cfg.WithFailpoints(hit, broken...), nil
}
