//go:build !onceward_failpoints

package simulation

import (
	"context"
	"errors"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/txn"
)

func points() []string { return nil }

var errUnknown, errRefused error

func onDisk(cfg txn.Config, _ *disktest.Disk) txn.Config { return cfg }

func onNetwork(cfg txn.Config, _ *virtual.Host, _ string) txn.Config { return cfg }

func fence(context.Context, *txn.App, string) error { return errors.ErrUnsupported }

// arm fails: a simulation without the faults that were asked for would prove nothing.
func arm(cfg txn.Config, _ func(context.Context, string) error, _ []string) (txn.Config, error) {
	return cfg, errors.New("the simulation needs failpoints: go test -tags synctests,onceward_failpoints (make test sets both)")
}
