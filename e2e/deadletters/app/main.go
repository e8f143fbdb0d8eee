// Command app is the application of package deadletters as a process: see package program.
package main

import (
	"github.com/onceward/onceward/e2e/deadletters"
	"github.com/onceward/onceward/e2e/instance/program"
)

func main() { program.Main[deadletters.Settings]() }
