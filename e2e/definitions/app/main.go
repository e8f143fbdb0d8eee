// Command app is one of the applications as a process: see package program. It is meant to be built with the tag onceward_failpoints, and
// runs without as well.
package main

import (
	"github.com/onceward/onceward/e2e/definitions"
	"github.com/onceward/onceward/e2e/instance/program"
)

func main() { program.Main[definitions.Settings]() }
