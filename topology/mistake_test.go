package topology

import (
	"runtime"
	"testing"
)

// TestCallerFrames: which functions stand between the user and a declaration.
func TestCallerFrames(t *testing.T) {
	const module = "github.com/onceward/onceward/"
	for _, test := range []struct {
		function, file string
		want           bool
	}{
		{module + "topology.Map[...]", "topology/stateless.go", true},
		{module + "topology.(*Node[...]).Process", "topology/processor.go", true},
		{module + "processors/inbox.Dedupe[...]", "processors/inbox/inbox.go", true},
		{module + "processors/inbox.TestDedupe", "processors/inbox/inbox_test.go", false},
		{module + "topology_test.TestMistakes.func1", "topology/build_test.go", false},
		{module + "topology/topologytest.New", "topology/topologytest/driver.go", false},
		{module + "cmd/pipeline.build", "cmd/pipeline/build.go", false},
		{"main.main", "main.go", false},
	} {
		frame := runtime.Frame{Function: test.function, File: test.file}
		if got := declaresForOthers(frame); got != test.want {
			t.Errorf("%s in %s declares for others: %v, want %v", test.function, test.file, got, test.want)
		}
	}
}
