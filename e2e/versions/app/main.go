// Command app is the application of package versions as a process: see package program. The tests build it twice, as this build and as
// the next one (tag onceward_next).
package main

import (
	"github.com/onceward/onceward/e2e/instance/program"
	"github.com/onceward/onceward/e2e/versions"
)

func main() { program.Main[versions.Settings]() }
