package main

import (
	"flag"
	"os"

	"github.com/onceward/onceward/e2e/clients/client"
	"github.com/onceward/onceward/topology"
)

func main() {
	variant, broken := "", ""
	os.Exit(client.Main(client.Application{
		Name: "eos",
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&variant, "variant", simpleVariant, "simple or complex")
			flags.StringVar(&broken, "broken", "", "duplicate, skip or forget: break the application on purpose")
		},
		Topology: func() (*topology.Topology, error) { return newTopology(variant, broken) },
	}))
}
