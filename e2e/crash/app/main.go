// Command app is the application of the crash matrix as a process: see package program. It is meant to be built with the tag
// onceward_failpoints, and runs without as well.
package main

import (
	"github.com/onceward/onceward/e2e/crash"
	"github.com/onceward/onceward/e2e/instance/program"
)

func main() { program.Main[crash.Settings]() }
