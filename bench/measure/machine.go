package measure

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine describes what a measurement runs on: operating system, processors and memory, as far as
// Linux tells, and Go's version. It names no host.
func Machine() string {
	out := fmt.Sprintf("%s/%s, %d CPUs", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		out += " (" + model + ")"
	}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		out += fmt.Sprintf(", %.1f GiB of memory", float64(kib)/(1<<20))
	}
	return out + ", " + runtime.Version()
}

// field returns the first value of a name in a file of lines like "name : value", and nothing where
// there is none.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(key)) == name {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}
