// Command app is the application of package restore as a process: see package program. It is meant to be built with the tag
// onceward_failpoints, and runs without as well.
package main

import (
	"github.com/onceward/onceward/e2e/instance/program"
	"github.com/onceward/onceward/e2e/restore"
)

func main() { program.Main[restore.Settings]() }
