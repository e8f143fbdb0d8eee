//go:build onceward_broken

package runtime_test

import "os"

// commitsEarly says that the runtime does not wait for the end of a round before it commits the next one.
var commitsEarly = os.Getenv("ONCEWARD_BROKEN") == "early"
