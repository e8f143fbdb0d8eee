package processors_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// required says how many requirements each section has, and cells how many cells the failure matrix.
var required = map[string]int{"B": 4, "C": 9, "D": 6, "E": 5, "F": 3, "G": 6, "H": 4, "I": 3, "J": 2, "K": 3}

const cells = 21

var (
	tableLine = regexp.MustCompile(`(?m)^\| ([A-Z]\d*) \| ([^|]+) \| ([^|]+) \|$`)
	testFunc  = regexp.MustCompile(`(?m)((?:^//.*\n)*)^func (Test\w+)\(`)
	script    = regexp.MustCompile(`^TestScripts/(\w+)$`)
)

// TestRequirements: each requirement has its line, each test that is named is there, and it names the requirement.
func TestRequirements(t *testing.T) {
	table, err := os.ReadFile("REQUIREMENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for section, n := range required {
		for i := range n {
			missing = append(missing, fmt.Sprint(section, i+1))
		}
	}
	rows := 0
	for _, line := range tableLine.FindAllStringSubmatch(string(table), -1) {
		id, tests := line[1], line[3]
		if id == "L" {
			rows++
		} else {
			i := slices.Index(missing, id)
			if i < 0 {
				t.Errorf("%s is no requirement, or has two lines", id)
				continue
			}
			missing = slices.Delete(missing, i, i+1)
		}
		for dir, names := range named(t, id, tests) {
			for _, name := range names {
				if err := shows(dir, name, id); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		}
	}
	if len(missing) > 0 || rows != cells {
		t.Errorf("%v have no line, and the matrix has %d cells, want %d", missing, rows, cells)
	}
}

// named returns the tests of a line by their directories.
func named(t *testing.T, id, tests string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for group := range strings.SplitSeq(tests, "; ") {
		pkg, names, ok := strings.Cut(group, ": ")
		if !ok {
			t.Errorf("%s: %q names no package", id, group)
			continue
		}
		dir := filepath.FromSlash(pkg)
		if first, _, _ := strings.Cut(pkg, "/"); slices.Contains([]string{"topology", "txn", "e2e", "cmd", "state"}, first) {
			dir = filepath.Join("..", dir)
		}
		all[dir] = append(all[dir], strings.Split(names, ", ")...)
	}
	return all
}

// shows fails unless the directory has the test, and the test names the requirement. Those of the matrix have no names.
func shows(dir, name, id string) error {
	text, err := textOf(dir, name)
	if err != nil || id == "L" {
		return err
	}
	if !regexp.MustCompile(`(\b|_|Test)` + id + `(\b|[A-Z_])`).MatchString(text) {
		return fmt.Errorf("%s of %s does not name it", name, dir)
	}
	return nil
}

// textOf returns the name and the comment of a test, or the whole of a script.
func textOf(dir, name string) (string, error) {
	if m := script.FindStringSubmatch(name); m != nil {
		b, err := os.ReadFile(filepath.Join(dir, "testdata", "script", m[1]+".txtar"))
		return string(b), err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(source), -1) {
			if m[2] == name {
				return m[1] + name, nil
			}
		}
	}
	return "", fmt.Errorf("%s has no test %s", dir, name)
}
