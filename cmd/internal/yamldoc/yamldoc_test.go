package yamldoc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
)

func mistakes(f *yamldoc.File) string {
	if err := f.Err(); err != nil {
		return err.Error()
	}
	return ""
}

func TestUnreadable(t *testing.T) {
	for _, c := range []struct{ name, src, want string }{
		{"empty", "", "f: the file is empty"},
		{"comments", "# nothing\n\n# here\n", "f: the file is empty"},
		{"binary", "a: \xff\n", "f: the file is not UTF-8 text; is it the right file?"},
		{"large", strings.Repeat("a", yamldoc.MaxBytes+1),
			"f: the file has more than 1048576 bytes; is it the right file?"},
		{"brackets", "a: " + strings.Repeat("[", 101),
			"f: brackets or indentation are nested deeper than 100; is it the right file?"},
		{"entries", strings.Repeat("- ", 101) + "a",
			"f: brackets or indentation are nested deeper than 100; is it the right file?"},
		{"unfinished", "a: 'x", "f:1:4: could not find end character of single-quoted text"},
	} {
		f := yamldoc.Parse("f", []byte(c.src))
		if got := mistakes(f); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, got, c.want)
		}
		// A part that was not read is missing, and reading it is no further mistake.
		root := f.Root().Mapping("a")
		_ = root.Required("a").Text()
		if got := mistakes(f); got != c.want {
			t.Errorf("%s: reading on adds %s", c.name, got)
		}
	}
}

// A hostile file within the limits must not take long either.
func TestDeepFilesAreQuick(t *testing.T) {
	for _, unit := range []string{"[", "{", "- ", "? ", "a: &x ", "!t ", "'", "|\n ", "a:\n"} {
		began := time.Now()
		yamldoc.Parse("f", []byte(strings.Repeat(unit, 20_000/len(unit))))
		if took := time.Since(began); took > 30*time.Second { // at most a second; a busy machine needs ten times that
			t.Errorf("%q takes %s", unit, took)
		}
	}
}

func TestByteOrderMarkAndLineEnds(t *testing.T) {
	f := yamldoc.Parse("f", []byte("\ufeffa: x\r\nb: y\r\n"))
	m := f.Root().Mapping("a", "b")
	if a, b := m.Required("a").Text(), m.Required("b").Text(); a != "x" || b != "y" || f.Err() != nil {
		t.Errorf("got %q and %q, %v", a, b, f.Err())
	}
}

func TestSuggestions(t *testing.T) {
	known := []string{"conflicts", "duplicates", "id", "name", "gaps_into"}
	for word, want := range map[string]string{
		"conflict":   `did you mean "conflicts"?`,
		"duplciates": `did you mean "duplicates"?`,
		"Name":       `did you mean "name"?`,
		"gaps-into":  `did you mean "gaps_into"?`,
		"ids":        `did you mean "id"?`,
		"topic":      "possible: conflicts, duplicates, id, name, gaps_into",
		"x":          "possible: conflicts, duplicates, id, name, gaps_into",
	} {
		f := yamldoc.Parse("f", []byte(word+": 1"))
		f.Root().Mapping(known...)
		if got, _ := strings.CutPrefix(mistakes(f), `f:1:1: unknown key "`+word+`"; `); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

func TestMistakesAreInOrder(t *testing.T) {
	f := yamldoc.Parse("f", []byte("a: 1\nb: [x]\nc: {d: 2, e: {}}\n"))
	m := f.Root().Mapping()
	c := m.Required("c").Mapping("d")
	c.Required("d").Text()
	m.Required("b").Text()
	m.Required("a").Bool()
	want := `f:1:4: a: must be true or false and is a number
f:2:4: b: must be text and is a list
f:3:8: c.d: must be text and is a number; put it in quotes
f:3:11: c: unknown key "e"; possible: d`
	if got := mistakes(f); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"a: b", "a: [b, {c: d}]", "a: |\n  x\n  y\n", "a: >-\n  x\n", "? a\n: b", "- - a\n",
		"a: &x !t y\nb: *x\n<<: *x", "%YAML 1.2\n---\na", "a: 'x''y'", "a: \"\\u00e9\"", "{a: b",
		"a: b: c", "\t", "---\n...\n", "a:\n- b\n", "a: 'x\n  y'\nb: x\n  y\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file := yamldoc.Parse("f", src)
		visit(file.Root(), 0)
		for line := range strings.Lines(mistakes(file)) {
			if !strings.HasPrefix(line, "f:") || strings.TrimSpace(line) != strings.TrimSuffix(line, "\n") {
				t.Errorf("a mistake is not one line: %q", line)
			}
		}
	})
}

// visit reads a value in every way.
func visit(v yamldoc.Value, depth int) {
	if depth > 200 {
		panic("deeper than the limit of the file")
	}
	v.Text()
	v.Source()
	v.Word()
	v.Bool()
	v.Choice("a", "b")
	for line := range 4 {
		for column := range 4 {
			v.In(line, column)
		}
	}
	for _, element := range v.List() {
		visit(element, depth+1)
	}
	for _, e := range v.Mapping().Entries() {
		visit(e.Value, depth+1)
	}
}
