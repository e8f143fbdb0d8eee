// Package docs_test checks the documents against each other and against the code.
package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/cli"
	"github.com/onceward/onceward/cmd/pipeline"
)

// root is the directory of the module.
const root = ".."

// documents returns the Markdown files of the project, by their paths from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("%d documents, want at least 50", len(files))
	}
	return files
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	notInID  = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// anchors returns the ids of the headings of a document, as forges make them.
func anchors(text string) map[string]bool {
	seen, ids := map[string]int{}, map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		id := strings.ToLower(linkText.ReplaceAllString(m[1], "$1"))
		id = strings.ReplaceAll(notInID.ReplaceAllString(id, ""), " ", "-")
		if n := seen[id]; n > 0 {
			ids[fmt.Sprintf("%s-%d", id, n)] = true
		} else {
			ids[id] = true
		}
		seen[id]++
	}
	return ids
}

// brokenLinks returns the links between documents that lead nowhere. exists reports whether a path
// from the root exists.
func brokenLinks(files map[string]string, exists func(path string) bool) (broken []string) {
	for name, text := range files {
		prose := codeSpan.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := m[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path, anchor, hasAnchor := strings.Cut(target, "#")
			to := name
			if path != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			}
			if !exists(to) {
				broken = append(broken, fmt.Sprintf("%s: %s: there is no %s", name, target, to))
				continue
			}
			if hasAnchor && !anchors(files[to])[anchor] {
				broken = append(broken, fmt.Sprintf("%s: %s: %s has no heading #%s", name, target, to, anchor))
			}
		}
	}
	slices.Sort(broken)
	return broken
}

// TestPagesAreInTheNavigation: the navigation of the site has every document but the decisions,
// which their README lists.
func TestPagesAreInTheNavigation(t *testing.T) {
	config, err := os.ReadFile(filepath.Join(root, "docs", "site", "mkdocs.yml"))
	if err != nil {
		t.Fatal(err)
	}
	files, listed := documents(t), map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +- (?:[\w ]+: )?(\S+\.md)$`).FindAllStringSubmatch(string(config), -1) {
		listed[m[1]] = true
		if files[m[1]] == "" {
			t.Errorf("docs/site/mkdocs.yml lists %s, which does not exist", m[1])
		}
	}
	for name := range files {
		if !listed[name] && !strings.HasPrefix(name, "docs/decisions/0") {
			t.Errorf("docs/site/mkdocs.yml does not list %s", name)
		}
	}
}

func onDisk(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, b := range brokenLinks(documents(t), onDisk) {
		t.Error(b)
	}
}

// TestBrokenLinksAreFound is the negative control of TestLinksLeadSomewhere.
func TestBrokenLinksAreFound(t *testing.T) {
	files := map[string]string{
		"a.md": "# One\n[gone](b.md) [file](docs/c.md) [anchor](docs/c.md#the-end) [own](#two)\n" +
			"[wrapped\ntext](docs/gone.md) [fine](https://example.org/gone) `[code](gone.md)`\n```\n[fenced](gone.md)\n```\n",
		"docs/c.md": "# The `end`, again\n## The end\n[up](../a.md#one) [not](../a.md#three)\n",
	}
	got := brokenLinks(files, func(path string) bool { return files[path] != "" })
	want := []string{
		"a.md: #two: a.md has no heading #two",
		"a.md: b.md: there is no b.md",
		"a.md: docs/gone.md: there is no docs/gone.md",
		"docs/c.md: ../a.md#three: a.md has no heading #three",
	}
	if !slices.Equal(got, want) {
		t.Errorf("broken are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var (
	// commandLine is a call of the command in code.
	commandLine = regexp.MustCompile("(?m)(?:^|[\\s`])(?:\\./)?onceward((?: [^\\n`|<>]+)+)")
	flagName    = regexp.MustCompile(`^--[a-z][a-z-]*`)
	word        = regexp.MustCompile(`^[a-z][a-z-]*$`)
	// pages are the help texts that were read.
	pages = map[string]string{}
)

// help returns the help text of a command, empty if there is no such command.
func help(words ...string) string {
	name := strings.Join(words, " ")
	page, known := pages[name]
	if !known {
		var out, errs bytes.Buffer
		if cli.Main(context.Background(), append(slices.Clone(words), "--help"), strings.NewReader(""), &out, &errs) == 0 {
			page = out.String()
		}
		pages[name] = page
	}
	return page
}

// wrongCommands returns the calls in blocks and spans of code that the command line does not know.
func wrongCommands(text string) (wrong []string) {
	var code []string
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		code = append(code, m[2])
	}
	code = append(code, codeSpan.FindAllString(fence.ReplaceAllString(text, ""), -1)...)
	for _, m := range commandLine.FindAllStringSubmatch(strings.Join(code, "\n"), -1) {
		fields := strings.Fields(m[1])
		if !word.MatchString(fields[0]) {
			continue // a place for a name, such as COMMAND
		}
		words := fields[:1]
		page := help(words...)
		if page == "" {
			wrong = append(wrong, fmt.Sprintf("there is no command onceward %s", fields[0]))
			continue
		}
		if strings.Contains(page, "\nCommands:\n") && len(fields) > 1 {
			words = fields[:2]
			if page = help(words...); page == "" {
				wrong = append(wrong, fmt.Sprintf("there is no command onceward %s", strings.Join(words, " ")))
				continue
			}
		}
		for _, f := range fields[len(words):] {
			name := flagName.FindString(f)
			if name != "" && !regexp.MustCompile(regexp.QuoteMeta(name)+`\b`).MatchString(page) {
				wrong = append(wrong, fmt.Sprintf("onceward %s has no flag %s", strings.Join(words, " "), name))
			}
		}
	}
	return wrong
}

func TestCommandsOfDocumentsExist(t *testing.T) {
	for name, text := range documents(t) {
		for _, w := range wrongCommands(text) {
			t.Errorf("%s: %s", name, w)
		}
	}
}

// TestWrongCommandsAreFound is the negative control of TestCommandsOfDocumentsExist.
func TestWrongCommandsAreFound(t *testing.T) {
	got := wrongCommands("Call `onceward run --broker a`, and in prose onceward has no --flag\n```sh\n" +
		"./onceward state get counts k --state-dir . --stall\nonceward state put counts k\nonceward walk\n```\n")
	want := []string{
		"onceward state get has no flag --stall", "there is no command onceward state put", "there is no command onceward walk",
		"onceward run has no flag --broker",
	}
	if !slices.Equal(got, want) {
		t.Errorf("wrong are %q, want %q", got, want)
	}
}

// TestPipelinesOfDocumentsLoad loads every block of YAML that is a pipeline.
func TestPipelinesOfDocumentsLoad(t *testing.T) {
	loaded := 0
	for name, text := range documents(t) {
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			if m[1] != "yaml" || !strings.Contains(m[2], "steps:") {
				continue
			}
			loaded++
			if _, err := pipeline.Parse(name, []byte(m[2])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if loaded < 2 {
		t.Errorf("%d pipelines were loaded, want at least 2", loaded)
	}
}

// TestPipelineOfReadmeIsRun: the pipeline of the README is the one that a script of the command
// runs.
func TestPipelineOfReadmeIsRun(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "cmd", "cli", "testdata", "script", "readme.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range fence.FindAllStringSubmatch(documents(t)["README.md"], -1) {
		if m[1] == "yaml" && bytes.Contains(script, []byte("-- pipeline.yaml --\n"+m[2]+"-- ")) {
			return
		}
	}
	t.Error("cmd/cli/testdata/script/readme.txtar does not run the pipeline of the README")
}

// TestCommandsForAddedPartitionsAreRun: a script of the command runs the pipeline and the commands of
// the page about an input that has gained partitions.
func TestCommandsForAddedPartitionsAreRun(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "cmd", "cli", "testdata", "script", "partitions_added.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	page := regexp.MustCompile(`(?m)^ +`+"```").ReplaceAllString(documents(t)["docs/operations/partitions-added.md"], "```")
	found := 0
	for _, m := range fence.FindAllStringSubmatch(page, -1) {
		text := regexp.MustCompile(`(?m)^   `).ReplaceAllString(m[2], "")
		switch m[1] {
		case "yaml":
			found++
			if !bytes.Contains(script, []byte("-- copy.yaml --\n"+text+"-- ")) {
				t.Errorf("the script does not run\n%s", text)
			}
		case "sh":
			for line := range strings.Lines(text) {
				found++
				if command := strings.ReplaceAll(strings.TrimSpace(line), "localhost:9092", "$BROKERS"); !bytes.Contains(script, []byte("exec "+command+" &")) && !bytes.Contains(script, []byte("exec "+command+"\n")) {
					t.Errorf("the script does not run %s", command)
				}
			}
		}
	}
	if found != 5 {
		t.Errorf("the page has %d pipelines and commands, want 5", found)
	}
}

// flush returns a text without the tabs at the beginnings of its lines.
func flush(text string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "") }

// TestProgramsOfDocumentsAreBuilt: every block of Go in a document is a part of a program of the
// project, so that go vet and go test build it.
func TestProgramsOfDocumentsAreBuilt(t *testing.T) {
	var programs strings.Builder
	for _, pattern := range []string{"examples/*/*.go", "*/example*_test.go", "topology/*/example*_test.go", "processors/*/example*_test.go", "processors/postgres/*/example*_test.go", "schemas/*/example*_test.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s matches %d files: %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			programs.WriteString(flush(string(text)))
		}
	}
	code, blocks := programs.String(), 0
	for name, text := range documents(t) {
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			if m[1] != "go" {
				continue
			}
			blocks++
			if !strings.Contains(code, flush(m[2])) {
				t.Errorf("%s: no example contains\n%s", name, m[2])
			}
		}
	}
	if blocks < 10 {
		t.Errorf("%d blocks of Go, want at least 10", blocks)
	}
}

// sources returns the Go code of a directory without tests, with the parts of split strings joined.
func sources(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(all.String(), "")
}

// TestTextsOfStoppedTasksAreThoseOfTheCode: an operator searches the page for the text of a reason.
func TestTextsOfStoppedTasksAreThoseOfTheCode(t *testing.T) {
	code := sources(t, "txn", "state")
	texts := 0
	for _, line := range strings.Split(documents(t)["docs/operations/stopped-tasks.md"], "\n") {
		if !strings.HasPrefix(line, "Text: `") {
			continue
		}
		for _, span := range codeSpan.FindAllString(line, -1) {
			texts++
			if text := strings.Trim(span, "`"); !strings.Contains(code, text) {
				t.Errorf("no reason has the text %q", text)
			}
		}
	}
	if texts < 30 {
		t.Errorf("%d texts, want at least 30", texts)
	}
}

// TestMetricsOfDocumentsExist compares the reference with the package comment, which a test of that
// package compares with what is served. Those of the packages for PostgreSQL have a reference of
// their own, which a test of that module compares with the code.
func TestMetricsOfDocumentsExist(t *testing.T) {
	name := regexp.MustCompile(`onceward_[a-z0-9_]+\*?`)
	comment, err := os.ReadFile(filepath.Join(root, "txn", "internal", "metrics", "doc.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := documents(t)
	reference := files["docs/reference/metrics.md"]
	for _, m := range name.FindAllString(string(comment), -1) {
		if !isFamily(m) && !strings.Contains(reference, strings.TrimSuffix(m, "*")) { // a family is listed name by name
			t.Errorf("docs/reference/metrics.md does not have %s", m)
		}
	}
	for page, text := range files {
		for _, m := range name.FindAllString(text, -1) {
			if strings.HasPrefix(m, "onceward_postgres_") {
				if m != "onceward_postgres_" && !strings.Contains(files["docs/reference/postgres-metrics.md"], "\n| `"+m+"` |") {
					t.Errorf("%s: there is no metric %s", page, m)
				}
			} else if !isFamily(m) && !strings.Contains(string(comment), m) {
				t.Errorf("%s: there is no metric %s", page, m)
			}
		}
	}
}

// isFamily reports whether a name is that of a metric that is listed without its beginning, or of
// something else.
func isFamily(name string) bool {
	return slices.ContainsFunc([]string{"onceward_state_", "onceward_cache_", "onceward_memory_", "onceward_failpoints"},
		func(family string) bool { return strings.HasPrefix(name, family) && !strings.HasSuffix(name, "*") })
}

// TestFlagsOfRunAreDocumented: the pages of settings have every flag of run, and no other.
func TestFlagsOfRunAreDocumented(t *testing.T) {
	page := help("run")
	if page == "" {
		t.Fatal("onceward run --help failed")
	}
	files := documents(t)
	settings := files["docs/reference/settings.md"] + files["docs/security.md"]
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(page, -1) {
		if flag != "--help" && flag != "--config" && !strings.Contains(settings, "`"+flag+"`") {
			t.Errorf("no page of settings has %s", flag)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(--[a-z-]+)`").FindAllStringSubmatch(settings, -1) {
		if !strings.Contains(page, m[1]) {
			t.Errorf("onceward run has no flag %s", m[1])
		}
	}
}

// manifestFlag is a flag in the arguments of a container.
var manifestFlag = regexp.MustCompile(`(?m)^ +- (--[a-z-]+)`)

// unknownFlags returns the flags of containers in a document that onceward run does not have, and how
// many there are in all.
func unknownFlags(text string) (unknown []string, all int) {
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[1] != "yaml" || !strings.Contains(m[2], "kind: StatefulSet") {
			continue
		}
		for _, flag := range manifestFlag.FindAllStringSubmatch(m[2], -1) {
			all++
			if !regexp.MustCompile(regexp.QuoteMeta(flag[1]) + `\b[^-]`).MatchString(help("run")) {
				unknown = append(unknown, flag[1])
			}
		}
	}
	return unknown, all
}

// TestFlagsOfManifestsExist: the container of the page about deployment starts.
func TestFlagsOfManifestsExist(t *testing.T) {
	unknown, all := unknownFlags(documents(t)["docs/operations/deploy.md"])
	if len(unknown) > 0 || all < 5 {
		t.Errorf("of %d flags onceward run does not have %q", all, unknown)
	}
	if unknown, _ := unknownFlags("```yaml\nkind: StatefulSet\n - --stat-dir=/state\n - --state=/state\n```\n"); len(unknown) != 2 {
		t.Errorf("of two wrong flags %q are found", unknown) // the negative control
	}
}

// TestHeadersAreDocumented: the page of headers has every header that the code names.
func TestHeadersAreDocumented(t *testing.T) {
	page := documents(t)["docs/reference/headers.md"]
	for _, m := range regexp.MustCompile(`Header\w+\s*=\s*"(onceward\.[a-z.-]+)"`).FindAllStringSubmatch(sources(t, "topology", "processors"), -1) {
		if !strings.Contains(page, "`"+m[1]+"`") {
			t.Errorf("docs/reference/headers.md does not have %s", m[1])
		}
	}
}
