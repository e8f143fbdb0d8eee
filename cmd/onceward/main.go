// Command onceward runs exactly-once stream processing pipelines on Kafka. "onceward --help" says
// what it can do; package cmd/cli has everything behind it, and gives a program with topologies of
// its own the same commands.
package main

import (
	"context"
	"os"

	"github.com/onceward/onceward/cmd/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
