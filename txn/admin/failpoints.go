//go:build onceward_failpoints

package admin

import (
	"context"

	"github.com/onceward/onceward/txn/internal/failpoint"
)

// WithFailpoints returns a context for tests. A [Client] that is connected with it calls hit at
// each point of [Failpoints] that a redrive or an edit comes to; an error is what became of the
// request before the point. Nil is no function. A context carries it because a test of a command
// has nothing else to give it.
//
// broken names the mechanisms that do not work, for negative controls: marks-late or marks-early.
// [ConnectWith] refuses other names.
//
// It only exists with the build tag onceward_failpoints.
func WithFailpoints(ctx context.Context, hit func(ctx context.Context, point string) error, broken ...string) context.Context {
	return failpoint.In(ctx, failpoint.New(hit, broken))
}

// Failpoints returns the names of all points, in the order of a batch. It only exists with the
// build tag onceward_failpoints.
func Failpoints() []string {
	var names []string
	for _, p := range failpoint.DeadLetterPoints {
		names = append(names, string(p))
	}
	return names
}
