package costs

import (
	"fmt"
	"strings"
)

// Table is the shares as the table of bench/COSTS.md, in nanoseconds for each of so many records.
func Table(shares []Share, records int64) string {
	var b strings.Builder
	b.WriteString("| | step | where | goroutine | ns |\n|---|---|---|---|---|\n")
	var all int64
	for i, s := range shares {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %d |\n", i+1, s.Step.Name, s.Step.Where, s.Step.Goroutine, s.Nanos/records)
		all += s.Nanos
	}
	fmt.Fprintf(&b, "| | all | | | %d |\n", all/records)
	return b.String()
}
