//go:build !onceward_failpoints

package failpoint

import "context"

// Enabled says whether the points are compiled in.
const Enabled = false

// Hit does nothing in this build.
func Hit(context.Context, Point) error { return nil }
