//go:build !onceward_broken

package app

import "github.com/onceward/onceward/e2e/workload"

// parts are those of the soak's topology.
func parts() workload.Parts { return workload.Everything }
