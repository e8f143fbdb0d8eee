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

// required says how many requirements each section has.
var required = map[string]int{"B": 4, "C": 9, "D": 6, "E": 5, "F": 3, "G": 6, "H": 4, "I": 3, "J": 2, "K": 3, "M": 4}

// failures are the rows of the failure matrix.
var failures = []string{
	"crash before processing", "crash after processing before flush", "crash after flush before offsets", "crash after offsets before end",
	"crash after end before the local apply", "crash after the apply", "duplicate delivery", "concurrent duplicate on two instances",
	"older version after newer", "gap", "poison payload", "failing dependency", "rebalance in mid-batch", "out-of-order completion",
	"replay from earliest", "replay after expiry", "broker restart", "worker frozen past its session and back", "lost state directory",
	"corrupt state directory", "disk full",
}

var (
	tableLine = regexp.MustCompile(`(?m)^\| ([A-Z]\d*) \| ([^|]+) \| ([^|]+) \|$`)
	testFunc  = regexp.MustCompile(`(?m)((?:^//.*\n)*)^func (Test\w+)\(`)
	script    = regexp.MustCompile(`^TestScripts/(\w+)$`)
	ofMatrix  = regexp.MustCompile(`Rows? of the failure matrix: ([^.]+)\.`)
)

// TestRequirements: each requirement and each row of the failure matrix has its line, each test
// that is named is there, and it names the requirement or the row.
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
	missing = append(missing, failures...)
	for _, line := range tableLine.FindAllStringSubmatch(string(table), -1) {
		id, tests := line[1], line[3]
		if id == "L" {
			id = line[2]
		}
		i := slices.Index(missing, id)
		if i < 0 {
			t.Errorf("%s is no requirement, or has two lines", id)
			continue
		}
		missing = slices.Delete(missing, i, i+1)
		for dir, names := range named(t, id, tests) {
			for _, name := range names {
				if err := shows(dir, name, id); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("%q have no line", missing)
	}
}

// TestFailuresOnPostgres: each row of the failure matrix has a line of the table for PostgreSQL.
// Each cell has tests that are there and name the row, or says why there is none.
func TestFailuresOnPostgres(t *testing.T) {
	table, err := os.ReadFile(filepath.FromSlash("../docs/reference/postgres-failures.md"))
	if err != nil {
		t.Fatal(err)
	}
	missing := slices.Clone(failures)
	var columns []string
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) != 5 || strings.HasPrefix(cells[0], "---"):
			continue
		case cells[0] == "failure":
			columns = cells
			continue
		}
		of := slices.Index(missing, cells[0])
		if of >= 0 {
			missing = slices.Delete(missing, of, of+1)
		}
		for i, cell := range cells[1:] {
			if strings.HasPrefix(cell, "none: ") {
				continue
			}
			for name := range strings.SplitSeq(cell, ", ") {
				pkg := columns[i+1]
				if other, test, ok := strings.Cut(name, " "); ok {
					pkg, name = other, test
				}
				dir := filepath.Join("postgres", pkg)
				_, _, err := textOf(dir, name)
				if of >= 0 {
					err = shows(dir, name, cells[0])
				}
				if err != nil {
					t.Errorf("%s: %v", cells[0], err)
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("%q have no line", missing)
	}
}

// TestWrongClaims is the negative control: a test that has to do with something else shows nothing.
func TestWrongClaims(t *testing.T) {
	for claim, c := range map[string]struct{ dir, name, id string }{
		"a test that is not there":            {"inbox", "TestNothing", "gap"},
		"a script that is not there":          {"../cmd/cli", "TestScripts/nothing", "gap"},
		"another requirement":                 {"inbox", "TestEachOutcomeIsCounted", "C3"},
		"another row":                         {"projection", "TestGapParksRecords", "poison payload"},
		"no row at all":                       {"inbox", "TestEachOutcomeIsCounted", "duplicate delivery"},
		"a part of a row's name":              {"../e2e/faults", "TestEveryPoint", "crash after"},
		"another row of a script":             {"../cmd/cli", "TestScripts/forensic_state", "gap"},
		"a row of a table that is not run":    {"../e2e/processing", "TestBroken", "gap"},
		"no row of the table":                 {"../e2e/processing", "TestMatrix", "drought"},
		"a row that does not run on Kafka":    {"../e2e/processing", "TestMatrixOnKafka", "disk full"},
		"two instances with one partition":    {"../examples/capture", "TestDrill", "concurrent duplicate on two instances"},
		"a table that has points and no rows": {"../e2e/faults", "TestEveryPoint", "disk full"},
	} {
		if err := shows(filepath.FromSlash(c.dir), c.name, c.id); err == nil {
			t.Errorf("%s: %s of %s is taken to show %q", claim, c.name, c.dir, c.id)
		}
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
		if first, _, _ := strings.Cut(pkg, "/"); slices.Contains([]string{"topology", "txn", "e2e", "examples", "cmd", "state"}, first) {
			dir = filepath.Join("..", dir)
		}
		all[dir] = append(all[dir], strings.Split(names, ", ")...)
	}
	return all
}

// shows fails unless the directory has the test, and the test names the requirement or the row of
// the failure matrix.
func shows(dir, name, id string) error {
	comment, body, err := textOf(dir, name)
	if err != nil {
		return err
	}
	if slices.Contains(rowsOf(comment), id) {
		return nil
	}
	if _, numbered := required[id[:1]]; numbered && regexp.MustCompile(`(\b|_|Test)`+id+`(\b|[A-Z_])`).MatchString(comment+name) {
		return nil
	}
	if runs, err := runsRow(dir, name, body, id); err != nil || runs {
		return err
	}
	return fmt.Errorf("%s of %s does not name it", name, dir)
}

// rowsOf returns the rows of the failure matrix that a comment names.
func rowsOf(comment string) (rows []string) {
	lines := strings.NewReplacer("\n// ", " ", "\n# ", " ").Replace(comment)
	for _, named := range ofMatrix.FindAllStringSubmatch(lines, -1) {
		rows = append(rows, strings.Split(named[1], "; ")...)
	}
	return rows
}

// runsRow reports whether a test runs the table rows of its directory, and that has a row of the
// name: for a test on Kafka one that runs there.
func runsRow(dir, name, body, row string) (bool, error) {
	if !regexp.MustCompile(`\brows\b`).MatchString(body) {
		return false, nil
	}
	line := regexp.MustCompile(`(?m)^\t\{name: "` + regexp.QuoteMeta(row) + `", (kafka: true, )?.*\},$`)
	sources, err := sourcesOf(dir)
	if err != nil {
		return false, err
	}
	for _, source := range sources {
		if m := line.FindStringSubmatch(source); m != nil {
			return m[1] != "" || !strings.HasSuffix(name, "OnKafka"), nil
		}
	}
	return false, nil
}

// textOf returns the comment of a test, and what it does, or the whole of a script as its comment.
func textOf(dir, name string) (comment, body string, err error) {
	if m := script.FindStringSubmatch(name); m != nil {
		b, err := os.ReadFile(filepath.Join(dir, "testdata", "script", m[1]+".txtar"))
		return string(b), "", err
	}
	sources, err := sourcesOf(dir)
	if err != nil {
		return "", "", err
	}
	for _, source := range sources {
		for _, m := range testFunc.FindAllStringSubmatchIndex(source, -1) {
			if source[m[4]:m[5]] == name {
				body, _, _ = strings.Cut(source[m[1]:], "\n}\n")
				return source[m[2]:m[3]], body, nil
			}
		}
	}
	return "", "", fmt.Errorf("%s has no test %s", dir, name)
}

// sourcesOf returns the test files of a directory.
func sourcesOf(dir string) (sources []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sources = append(sources, string(source))
	}
	return sources, nil
}
