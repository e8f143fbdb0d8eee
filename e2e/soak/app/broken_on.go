//go:build onceward_broken

package app

import (
	"os"

	"github.com/onceward/onceward/e2e/workload"
)

// parts are those of the soak's topology. Its inbox is broken on purpose if ONCEWARD_BROKEN is "dedupe".
func parts() workload.Parts {
	p := workload.Everything
	p.LeakDuplicates = os.Getenv("ONCEWARD_BROKEN") == "dedupe"
	return p
}
