package main

import (
	"flag"
	"os"

	"github.com/onceward/onceward/e2e/clients/client"
	"github.com/onceward/onceward/topology"
)

func main() {
	broken := ""
	os.Exit(client.Main(client.Application{
		Name: "smoke",
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&broken, "broken", "", "duplicate, forget or early: break the application on purpose")
		},
		Topology: func() (*topology.Topology, error) { return newTopology(broken) },
	}))
}
