// Command run divides a CPU profile of the workload ledger among the steps of a record:
//
//	onceward-bench run --workload ledger ... --cpuprofile cpu --output json > run.json
//	go run ./bench/costs/run -profile cpu -result run.json
//
// It prints the table of bench/COSTS.md. Package costs says what a step is.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"github.com/onceward/onceward/bench/costs"
	"github.com/onceward/onceward/bench/throughput"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "costs:", err)
		os.Exit(1)
	}
}

func run() error {
	file := flag.String("profile", "", "CPU profile of the steady state (required)")
	result := flag.String("result", "", "result of the same run, as JSON (required)")
	flag.Parse()
	if *file == "" || *result == "" || flag.NArg() > 0 {
		flag.Usage()
		return fmt.Errorf("-profile and -result are required")
	}
	var of throughput.Result
	text, err := os.ReadFile(*result)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		return fmt.Errorf("reading the result of the run: %w", err)
	}
	if of.Steady.Records <= 0 {
		return fmt.Errorf("%s: the run had no steady state, and so its profile has nothing", *result)
	}
	f, err := os.Open(*file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	shares, err := costs.Divide(f)
	if err != nil {
		return fmt.Errorf("%s: %w", *file, err)
	}
	fmt.Print(costs.Table(shares, of.Steady.Records))
	return nil
}
