//go:build onceward_broken

package txn_test

import "os"

// restoresAtAnyAge says that a table is restored from its topic whatever compaction may have done to it.
var restoresAtAnyAge = os.Getenv("ONCEWARD_BROKEN") == "age"
