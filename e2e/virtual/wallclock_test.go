package virtual_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exception is a file below the module that may depend on the wall clock.
type exception struct{ path, why string }

// exceptions stay.
var exceptions = []exception{
	{"bench/measure/instance_test.go", "polls a child process"},
	{"bench/throughput/throughput_test.go", "has to end a wait for an open transaction; a shorter one can only hide a failure"},
	{"cmd/cli/script_test.go", "polls child processes"},
	{"e2e/cluster/cluster_test.go", "polls a process of the operating system"},
	{"e2e/figures/copy_test.go", "keeps broker and instance down for a given time, and polls them; figures are for nightly"},
	{"e2e/figures/failover_test.go", "freezes a process for a given time; figures are for nightly"},
	{"e2e/figures/fleet_test.go", "polls child processes; figures are for nightly"},
	{"e2e/leaktest/leaktest_test.go", "judges the goroutines of the process, which no bubble has"},
	{"e2e/proxy/proxy_test.go", "looks for a frame that must not come over TCP; a shorter wait can only hide a failure"},
	{"e2e/soak/figures_test.go", "samples real processes and takes a late answer for none; a longer wait would blur the sample"},
	{"e2e/soak/nemesis_test.go", "bounces a broker only when it sees no open transaction; a shorter wait can only leave a bounce out"},
	{"txn/admin/example_test.go", "an example has no *testing.T for a bubble; it polls without a bound"},
	{"txn/rules_purge_test.go", "its wait is a method that only bubbles call, which the search does not see"},
	{"txn/rules_round_test.go", "its wait is a method that only bubbles call, which the search does not see"},
	{"txn/internal/restore/replay_test.go", "its fake broker holds an answer without records back, in bubbles and outside"},
}

// TestNoTestDependsOnTheWallClock: a test that is in no bubble neither sleeps nor has a deadline or
// an upper bound of a duration below 30 s. wallClock says what it does not see. An exception that
// nothing needs is an error too.
func TestNoTestDependsOnTheWallClock(t *testing.T) {
	const module = "../.."
	dirs, err := testDirectories(module)
	if err != nil {
		t.Fatal(err)
	}
	if here := filepath.Join(module, "e2e", "virtual"); !slices.Contains(dirs, here) || len(dirs) < 50 {
		t.Fatalf("the search has seen %d directories only, or not this one", len(dirs))
	}
	needed := map[string]bool{}
	for _, dir := range dirs {
		found, err := wallClock(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			f.file = strings.TrimPrefix(f.file, module+"/")
			if slices.ContainsFunc(exceptions, func(e exception) bool { return e.path == f.file }) {
				needed[f.file] = true
			} else {
				t.Error(f)
			}
		}
	}
	for _, e := range exceptions {
		if !needed[e.path] {
			t.Errorf("the exception of %s is not needed any more (%s)", e.path, e.why)
		}
	}
}

// TestWallClockIsFound is the negative control: the search finds the lines of testdata that say so,
// and no others.
func TestWallClockIsFound(t *testing.T) {
	const dir = "testdata/wallclock"
	found, err := wallClock(dir)
	if err != nil {
		t.Fatal(err)
	}
	const file = dir + "/wallclock_test.go"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, line := range strings.Split(string(text), "\n") {
		want := strings.HasSuffix(line, "// found")
		got := slices.ContainsFunc(found, func(f finding) bool { return f.file == file && f.line == i+1 })
		if got != want {
			t.Errorf("line %d is found: %t, want %t: %s", i+1, got, want, strings.TrimSpace(line))
		}
		if want {
			n++
		}
	}
	if n < 10 || n != len(found) {
		t.Errorf("%d lines are to be found, and there are %v", n, found)
	}
}
