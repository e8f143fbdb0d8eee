//go:build !onceward_failpoints

package admin

import "github.com/onceward/onceward/txn/internal/failpoint"

// brokenMarks is the seam of negative controls, which does nothing here: see broken_on.go.
func brokenMarks(_ failpoint.Set, all written) []written { return []written{all} }
