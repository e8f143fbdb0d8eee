package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hotPattern is a pattern of bench/hot: one name or several, and at most one level below.
var hotPattern = regexp.MustCompile(`^\^(Benchmark\w*)(?:\(([\w|]+)\))?\$(?:/\^(\w+)\$)?$`)

// hotBenchmarks returns the benchmarks that bench/hot runs, by the directory of their package. A
// script takes the place of the go command.
func hotBenchmarks(t *testing.T) map[string][]string {
	t.Helper()
	stub := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(stub, []byte("#!/bin/sh\necho \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "./hot")
	cmd.Env = append(os.Environ(), "GO="+stub)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("hot: %v\n%s", err, out)
	}
	hot := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		args := strings.Fields(line)
		at := slices.Index(args, "-bench")
		if at < 0 || at+1 == len(args) {
			t.Fatalf("hot runs no benchmarks by %q", line)
		}
		parts, pkg := hotPattern.FindStringSubmatch(args[at+1]), args[len(args)-1]
		if parts == nil {
			t.Fatalf("hot has the pattern %s, which this test does not know", args[at+1])
		}
		for name := range strings.SplitSeq(parts[2], "|") {
			name = parts[1] + name
			if parts[3] != "" {
				name += "/" + parts[3]
			}
			hot[strings.TrimPrefix(pkg, "./")] = append(hot[strings.TrimPrefix(pkg, "./")], name)
		}
	}
	return hot
}

// TestHotBenchmarksExist: go test says nothing of a pattern that no benchmark has, so one that was
// renamed would be measured no more, and nobody would know.
func TestHotBenchmarksExist(t *testing.T) {
	for pkg, names := range hotBenchmarks(t) {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
		for _, name := range names {
			top, below, _ := strings.Cut(name, "/")
			if !strings.Contains(code.String(), "func "+top+"(b *testing.B)") || !strings.Contains(code.String(), `"`+below+`"`) && below != "" {
				t.Errorf("hot runs %s of %s, which is not there", name, pkg)
			}
		}
	}
}

// TestTargetsAreHot: what has a target is run.
func TestTargetsAreHot(t *testing.T) {
	hot := hotBenchmarks(t)
	text, err := os.ReadFile("targets.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		if len(fields) != 4 || !slices.Contains(hot[fields[0]], fields[1]) {
			t.Errorf("hot does not run what has the target %q", line)
		}
	}
	if n == 0 {
		t.Error("there are no targets")
	}
}

// TestTargets: a target is shown beside the median of the runs. Only one that is missed by a
// multiple, or not measured, is a failure.
func TestTargets(t *testing.T) {
	const result = `goos: linux
pkg: github.com/onceward/onceward/state
BenchmarkDriver-2   	 100	   99999 ns/op	       0 B/op	       0 allocs/op
pkg: github.com/onceward/onceward/topology
BenchmarkOverhead-2   	 8000000	  900 ns/op	       0 B/op	       0 allocs/op
BenchmarkOverhead-2   	 8000000	  GRAPH ns/op	       0 B/op	       ALLOCS allocs/op
BenchmarkOverhead-2   	 8000000	  100.5 ns/op	       0 B/op	       ALLOCS allocs/op
pkg: github.com/onceward/onceward/topology/topologytest
BenchmarkDriver   	 100	   3000 ns/op	       0 B/op	       3 allocs/op
`
	for name, test := range map[string]struct {
		graph, allocs string
		drop          string
		want          string
		fails         bool
	}{
		"met":             {"120.5", "0", "", "BenchmarkOverhead 120.5 ns/op, at most 150: met\n", false},
		"missed":          {"151", "0", "", "BenchmarkOverhead 151 ns/op, at most 150: missed\n", false},
		"by far":          {"451", "0", "", "BenchmarkOverhead 451 ns/op, at most 150: missed by a multiple\n", true},
		"allocates":       {"120", "1", "", "BenchmarkOverhead 1 allocs/op, at most 0: missed by a multiple\n", true},
		"is not measured": {"120", "0", "topology/topologytest", "topologytest BenchmarkDriver is not measured\n", true},
		"shows all":       {"120", "0", "", "target: topology/topologytest BenchmarkDriver 3000 ns/op, at most 3333: met\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("GRAPH", test.graph, "ALLOCS", test.allocs).Replace(result)
			if test.drop != "" {
				text, _, _ = strings.Cut(text, "pkg: github.com/onceward/onceward/"+test.drop+"\n")
			}
			file := filepath.Join(t.TempDir(), "new.txt")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "./targets", file).CombinedOutput()
			if !strings.Contains(string(out), test.want) || (err != nil) != test.fails {
				t.Errorf("targets says %q, %v; want %q", out, err, test.want)
			}
		})
	}
}
