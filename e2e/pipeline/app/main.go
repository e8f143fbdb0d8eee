// Command app is the pipeline as a process: see package program. It is meant to be built with the tag onceward_failpoints, and runs
// without as well.
package main

import (
	"github.com/onceward/onceward/e2e/instance/program"
	"github.com/onceward/onceward/e2e/pipeline"
)

func main() { program.Main[pipeline.Settings]() }
