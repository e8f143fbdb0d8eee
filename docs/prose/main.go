package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const baselineFile = "docs/prose/baseline.txt"

func main() {
	lower := flag.Bool("lower", false, "lower the numbers of the baseline to what is left")
	flag.Parse()
	if err := run(".", *lower, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// run checks the module in a directory. It prints all findings of the files that are named, and
// of the others those that are new.
func run(root string, lower bool, named []string) error {
	if _, err := os.Stat(filepath.Join(root, ".vale.ini")); err != nil {
		return fmt.Errorf("run it in the root of the repository: %w", err)
	}
	old, err := readBaseline(filepath.Join(root, baselineFile))
	if err != nil {
		return err
	}
	pages, err := collect(root)
	if err != nil {
		return err
	}
	for i, name := range named {
		named[i] = filepath.ToSlash(filepath.Clean(name))
		if pages[named[i]] == nil {
			return fmt.Errorf("%s is not checked: name a document or a Go file by its path from the root", name)
		}
	}
	found, err := lint(root, pages)
	if err != nil {
		return err
	}
	counts := count(found)
	raised, fewer := old.compare(counts)
	for _, f := range found {
		if slices.Contains(named, f.file) || f.level == "error" && raised[key{f.file, f.rule}] {
			fmt.Println(f)
		}
	}
	if lower {
		return old.lowered(counts).write(filepath.Join(root, baselineFile))
	}
	if fewer > 0 {
		fmt.Printf("prose: %d findings fewer than in %s; lower it with make prose-lower\n", fewer, baselineFile)
	}
	if len(raised) > 0 {
		for _, k := range sorted(raised) {
			fmt.Printf("%s: %d findings of %s, the baseline allows %d\n", k.file, counts[k], k.rule, old[k])
		}
		return errors.New("new findings; the lines above include old ones of the same file and rule. The rules are in CONTRIBUTING.md")
	}
	fmt.Printf("prose: %d files, no new finding\n", len(pages))
	return nil
}

// collect returns the pages of a module by the paths of their files from the root.
func collect(root string) (map[string]*page, error) {
	pages := map[string]*page{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || rel == "bin" || rel == "dist") {
				return fs.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(rel)
		if ext != ".md" && ext != ".go" && rel != "Makefile" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch ext {
		case ".go":
			pages[rel], err = extract(rel, text, !strings.HasSuffix(rel, "_test.go"))
		case ".md":
			pages[rel] = &page{text: string(text)}
		default:
			pages[rel] = extractMake(text)
		}
		return err
	})
	return pages, err
}

// A finding is an alert of Vale at its place in the source file.
type finding struct {
	file           string
	line           int
	level          string
	rule           string
	message, match string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s (%s)", f.file, f.line, f.level, f.message, f.rule)
}

// lint runs Vale on pages, with the configuration in root. Findings are sorted by file and line.
func lint(root string, pages map[string]*page) ([]finding, error) {
	config, err := filepath.Abs(filepath.Join(root, ".vale.ini"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "prose-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, p := range pages {
		path := filepath.Join(dir, filepath.FromSlash(name)+".md")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(p.text), 0o644); err != nil {
			return nil, err
		}
	}
	vale, err := install()
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(vale, "--config="+config, "--output=JSON", "--no-exit", "--no-global", ".")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run %s: %w\n%s%s", vale, err, &stdout, &stderr)
	}
	var alerts map[string][]struct {
		Check, Severity, Message, Match string
		Line                            int
	}
	if err := json.Unmarshal(stdout.Bytes(), &alerts); err != nil {
		return nil, fmt.Errorf("read the findings of Vale: %w\n%s%s", err, &stdout, &stderr)
	}
	var found []finding
	for path, list := range alerts {
		name := strings.TrimSuffix(filepath.ToSlash(path), ".md")
		for _, a := range list {
			if pages[name] == nil {
				return nil, fmt.Errorf("Vale reports %s, which was not given to it: %s", path, a.Message)
			}
			found = append(found, finding{name, pages[name].source(a.Line), a.Severity, a.Check, a.Message, a.Match})
		}
	}
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.rule, b.rule), cmp.Compare(a.match, b.match))
	})
	return found, nil
}
