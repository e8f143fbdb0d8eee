package txn_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// rulesPerSection is how many rules each section of the commit protocol has.
var rulesPerSection = []int{1: 4, 2: 8, 3: 5, 4: 2, 5: 3, 6: 9, 7: 6, 8: 6, 9: 6, 10: 5, 11: 4, 13: 7}

var (
	ruleLine  = regexp.MustCompile(`(?m)^\| (\d+)\.(\d+) \| .*$`)
	testNamed = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	fileNamed = regexp.MustCompile(`[\w./]+_test\.go`)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// TestRulesTable: RULES.md has a line for every rule, and every test and file that it names is
// there.
func TestRulesTable(t *testing.T) {
	data, err := os.ReadFile("RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	table := string(data)
	lines := map[string]bool{}
	for _, m := range ruleLine.FindAllStringSubmatch(table, -1) {
		lines[m[1]+"."+m[2]] = true
		if n := strings.Count(m[0], "|"); n != 7 {
			t.Errorf("rule %s.%s has %d cells, want 6", m[1], m[2], n-1)
		}
	}
	for section, rules := range rulesPerSection {
		for rule := range rules {
			name := strconv.Itoa(section) + "." + strconv.Itoa(rule+1)
			if !lines[name] {
				t.Errorf("rule %s has no line", name)
			}
			delete(lines, name)
		}
	}
	for name := range lines {
		t.Errorf("there is no rule %s", name)
	}
	tests := testsOfModule(t)
	for _, name := range testNamed.FindAllString(table, -1) {
		if !tests[name] {
			t.Errorf("there is no test %s", name)
		}
	}
	for _, file := range fileNamed.FindAllString(table, -1) {
		path := filepath.Join("internal", file)
		for _, top := range []string{"txn/", "state/", "topology/", "e2e/", "cmd/"} {
			if strings.HasPrefix(file, top) {
				path = filepath.Join("..", file)
			}
		}
		if _, err := os.Stat(path); err != nil && strings.Contains(file, "/") {
			t.Errorf("there is no file %s", file)
		}
	}
}

// testsOfModule returns the names of all tests of the module.
func testsOfModule(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllStringSubmatch(string(source), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
