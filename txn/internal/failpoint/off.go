//go:build !onceward_failpoints

package failpoint

import "context"

// Set does nothing in this build.
type Set struct{}

// From returns the only Set.
func From(context.Context) Set { return Set{} }

// Armed is false.
func (Set) Armed() bool { return false }

// Hit does nothing.
func (Set) Hit(context.Context, Point) error { return nil }

// Check finds nothing.
func (Set) Check() error { return nil }
