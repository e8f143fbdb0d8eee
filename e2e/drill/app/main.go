// Command app captures payments: it is the application of package drill with the commands of onceward.
//
//	app run --brokers localhost:9092 --state-dir ./state
//	app contract
//	app explain --row c1 --audit capture-audit --brokers localhost:9092
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/onceward/onceward/cmd/cli"
	"github.com/onceward/onceward/e2e/drill"
)

func main() {
	settings, err := drill.FromEnvironment()
	if err != nil {
		fail(err)
	}
	t, err := settings.Topology()
	if err != nil {
		fail(err)
	}
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, t))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "app:", err)
	os.Exit(2)
}
