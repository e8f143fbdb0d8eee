//go:build onceward_failpoints

package globaltable

import (
	"context"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

// brokenFirst has a table serve at once if that mechanism is broken.
func brokenFirst(s failpoint.Set) bool { return s.Broken(failpoint.GlobalsFirst) }

// brokenPosition writes a position without its rows if that mechanism is broken.
func (x *partition) brokenPosition(ctx context.Context, next int64) error {
	if !x.cfg.Failpoints.Broken(failpoint.GlobalsPosition) {
		return nil
	}
	if err := x.write(next, nil, true); err != nil {
		return err
	}
	return x.cfg.Failpoints.Hit(ctx, failpoint.RestoreBatch)
}
