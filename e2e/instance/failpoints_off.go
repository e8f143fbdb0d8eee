//go:build !onceward_failpoints

package instance

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn"
)

// armedByEnvironment refuses to run without the points that the environment asks for: the test
// would prove nothing.
func armedByEnvironment(cfg txn.Config) (txn.Config, error) { return cfg, unarmed() }

// armed refuses to run without failpoints.
func armed(cfg txn.Config, text string, _ func(point, action string)) (txn.Config, error) {
	return cfg, fmt.Errorf("arming %q: the test is built without the tag onceward_failpoints (make test sets it)", text)
}

// Points returns no points: this build has none.
func Points() []string { return nil }

// RedrivePoints returns no points: this build has none.
func RedrivePoints() []string { return nil }

// RedriveContext refuses to run without the points that the environment asks for.
func RedriveContext(ctx context.Context) (context.Context, error) { return ctx, unarmed() }

// OnDisk refuses to run on another disk.
func OnDisk(cfg txn.Config, _ func(*pebblestore.Options)) (txn.Config, error) {
	return cfg, errors.New("the test is built without the tag onceward_failpoints (make test sets it)")
}

// Break refuses to run with mechanisms that work.
func Break(cfg txn.Config, broken ...string) (txn.Config, error) {
	if len(broken) > 0 {
		return cfg, fmt.Errorf("breaking %q: the program is built without the tag onceward_failpoints", broken)
	}
	return cfg, nil
}

func unarmed() error {
	for _, name := range []string{ArmingVariable, BrokenVariable} {
		if value := os.Getenv(name); value != "" {
			return fmt.Errorf("%s=%q: the program is built without the tag onceward_failpoints", name, value)
		}
	}
	return nil
}
