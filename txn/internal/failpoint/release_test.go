package failpoint_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	command = "github.com/onceward/onceward/cmd/onceward"
	// textMin is the length from which on a text of the sources is found in a binary as it is, and
	// not by chance.
	textMin = 12
)

// onlyWithTag is the build constraint of a mechanism that users must not have: failpoints, negative
// controls, the build of the future.
var onlyWithTag = regexp.MustCompile(`(?m)^//go:build (?:\w+ && )?(onceward_\w+)(?: && !?\w+)?$`)

// onlyArmed are texts that only a build with failpoints has, beside those of the source files with
// its tag. The names of the points stand in a file without the tag. Most names of mechanisms that
// negative controls break are words that a binary has by chance; all of them go through Set.Broken,
// whose name is in each binary that has it.
var onlyArmed = []string{
	"offsets-before", "dead-letters-records", "marks-late", "marks-early",
	"failpoint.Set.Broken", "broker.commitOutside", "worker.applyUncommitted",
}

// onlyTests are texts of functions that only tests call, so that the linker leaves them out of
// every command.
var onlyTests = []string{"a test asks for it", "the application is not at work", "the two have never been connected"}

// TestReleaseHasNone: the command as users build it contains no text of any source file that needs
// a tag of ours: the names of variables, messages, and the failpoints' names. The one that is built
// with all the tags does, or the test would prove nothing. The tags and texts are taken from the
// sources, so that a new mechanism is looked for too.
func TestReleaseHasNone(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command twice")
	}
	texts := taggedTexts(t)
	tags := slices.Sorted(maps.Keys(texts))
	want := []string{"onceward_broken_dedupe", "onceward_failpoints", "onceward_next"}
	if !slices.Equal(tags, want) {
		t.Errorf("the command's sources need the tags %q, want %q: name a new one here", tags, want)
	}
	if variable := "ONCEWARD_NEXT_MAJOR"; !slices.Contains(texts["onceward_next"], variable) {
		t.Errorf("the texts of tag onceward_next are %q, without %s", texts["onceward_next"], variable)
	}
	texts["onceward_failpoints"] = append(texts["onceward_failpoints"], onlyArmed...)
	release, all := buildCommand(t, ""), buildCommand(t, strings.Join(tags, ","))
	for _, variable := range []string{"ONCEWARD_FAILPOINT", "ONCEWARD_BROKEN"} {
		if bytes.Contains(all, []byte(variable)) {
			t.Errorf("the binary with all tags contains %q: failpoints belong to an application, not to the process", variable)
		}
	}
	for _, tag := range tags {
		if len(texts[tag]) == 0 {
			t.Errorf("the sources with the tag %s have no text of %d bytes: nothing tells whether they are in a binary", tag, textMin)
		}
		for _, text := range texts[tag] {
			if bytes.Contains(release, []byte(text)) {
				t.Errorf("the release contains %q, which needs the tag %s", text, tag)
			}
			if !bytes.Contains(all, []byte(text)) && !slices.Contains(onlyTests, text) {
				t.Errorf("the binary with the tag %s does not contain %q", tag, text)
			}
		}
	}
}

// taggedTexts returns by tag the texts of the command's source files that need it.
func taggedTexts(t *testing.T) map[string][]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range $.IgnoredGoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`,
		command)
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string][]string{}
	for _, file := range strings.Fields(string(out)) {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tag := onlyWithTag.FindSubmatch(source)
		if tag == nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		texts[string(tag[1])] = append(texts[string(tag[1])], textsOf(t, file, source)...)
	}
	return texts
}

// textsOf returns the texts of a source file that are long enough.
func textsOf(t *testing.T, file string, source []byte) (texts []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field: // paths, and tags of fields
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && len(text) >= textMin {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

func buildCommand(t *testing.T, tags string) []byte {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "onceward")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", binary, command)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building with tags %q: %v\n%s", tags, err, out)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
