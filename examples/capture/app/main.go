// Command app captures payments. Package capture says what it does and how to start it.
//
//	app run --brokers localhost:9092 --state-dir ./state
//	app contract
//	app explain --row c1 --audit capture-audit --brokers localhost:9092
package main

import (
	"os"

	"github.com/onceward/onceward/examples/capture"
)

func main() { os.Exit(capture.Command(os.Args[1:])) }
