// Command command is cmd/onceward with the points of a redrive: see package failpoints. It is meant to be built with the tag
// onceward_failpoints, and runs without as well.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/onceward/onceward/cmd/cli"
	"github.com/onceward/onceward/e2e/failpoints"
)

func main() {
	if failpoints.ListLetters() {
		return
	}
	ctx, err := failpoints.Context(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
