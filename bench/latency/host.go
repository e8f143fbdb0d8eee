package latency

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// LoadAverage returns what Linux says about the last minute, 5 and 15 minutes, and nothing
// elsewhere. A latency that was measured on a busy machine says little without it.
func LoadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// Host describes the machine.
func Host() string {
	return fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}
