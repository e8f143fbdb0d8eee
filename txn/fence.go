package txn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/txn/internal/backoff"
)

// fenceWait is how long a process that another one with its identity has ended stays away from the
// transactional ids. A supervisor restarts it at once. Without the wait two copies would take the
// identity from each other in turn, and neither would get anything done.
const fenceWait = 30 * time.Second

// fencedInstance explains the one membership error that another try only makes worse, and records
// it for the next incarnation.
func (in *instance) fencedInstance(err error) error {
	if !errors.Is(err, kerr.FencedInstanceID) {
		return err
	}
	name := in.dir.Instance()
	err = fmt.Errorf("another process runs as instance %q: give each process its own state directory or instance name; a restart waits "+
		"%s before it takes the identity back: %w", name, fenceWait, err)
	return errors.Join(err, in.dir.RecordFence(time.Now()))
}

// waitFence waits until fenceWait has passed since another process ended the previous incarnation.
// The wait is never longer than that, whatever the clock was then.
func (in *instance) waitFence(ctx context.Context) error {
	at, err := in.dir.FencedAt()
	if err != nil || at.IsZero() {
		return err
	}
	if left := min(fenceWait-time.Since(at), fenceWait); left > 0 {
		in.app.log.Warn("another process fenced this instance by running under its identity; waiting before the identity is "+
			"taken back", "instance", in.dir.Instance(), "fenced_at", at, "wait", left)
		if err := backoff.Sleep(ctx, left); err != nil {
			return err
		}
	}
	return in.dir.ClearFence()
}
