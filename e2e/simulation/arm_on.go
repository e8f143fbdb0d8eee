//go:build onceward_failpoints

package simulation

import (
	"context"

	"github.com/onceward/onceward/txn"
)

// points are the failpoints of the runtime.
func points() []string { return txn.Failpoints() }

// The outcomes that a failpoint can give to a request.
var (
	errUnknown = txn.ErrInjected
	errRefused = txn.ErrRefused
)

// arm lets hit act at the failpoints of an application, and breaks mechanisms of it.
func arm(cfg txn.Config, hit func(context.Context, string) error, broken []string) (txn.Config, error) {
	return cfg.WithFailpoints(hit, broken...), nil
}
