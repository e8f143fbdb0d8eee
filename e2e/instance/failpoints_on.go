//go:build onceward_failpoints

package instance

import (
	"context"
	"os"
	"strings"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// armedByEnvironment returns the configuration of an application that fails as the environment
// says.
func armedByEnvironment(cfg txn.Config) (txn.Config, error) {
	if os.Getenv(ArmingVariable) == "" && os.Getenv(BrokenVariable) == "" {
		return cfg, nil // as it runs in production: failpoints have databases flushed and topics purged early
	}
	all, err := parseAll(os.Getenv(ArmingVariable), txn.Failpoints())
	if err != nil {
		return cfg, err
	}
	return cfg.WithFailpoints(all.hitProcess, broken()...), nil
}

// armed returns the configuration of an application in this process that fails as the text says.
// stop is called with each hit that acts, before it acts, from the goroutine that has come to the
// point. It returns when the application is released or thawed. A kill then returns an error whose
// outcome is not known.
func armed(cfg txn.Config, text string, stop func(point, action string)) (txn.Config, error) {
	all, err := parseAll(text, txn.Failpoints())
	if err != nil {
		return cfg, err
	}
	return cfg.WithFailpoints(func(ctx context.Context, p string) error {
		return all.hit(ctx, p, func(point, action string) error {
			stop(point, action)
			if action == "kill" {
				return txn.ErrInjected
			}
			return nil
		})
	}), nil
}

// Points returns the names of all points of an application.
func Points() []string { return txn.Failpoints() }

// RedrivePoints returns the names of all points of a redrive.
func RedrivePoints() []string { return admin.Failpoints() }

// RedriveContext returns a context with which package admin redrives and edits dead letters, and
// fails as the environment says.
func RedriveContext(ctx context.Context) (context.Context, error) {
	all, err := parseAll(os.Getenv(ArmingVariable), admin.Failpoints())
	if err != nil {
		return ctx, err
	}
	return admin.WithFailpoints(ctx, all.hitProcess, broken()...), nil
}

// OnDisk returns the configuration of an application whose databases lie on a file system of the
// test's: use changes the options of each.
func OnDisk(cfg txn.Config, use func(*pebblestore.Options)) (txn.Config, error) {
	return cfg.WithDisk(use), nil
}

// Break returns the configuration of an application in which the mechanisms do not work.
func Break(cfg txn.Config, broken ...string) (txn.Config, error) {
	return cfg.WithFailpoints(nil, broken...), nil
}

func broken() []string {
	return strings.FieldsFunc(os.Getenv(BrokenVariable), func(r rune) bool { return r == ',' })
}
