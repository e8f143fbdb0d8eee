package metrics

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// documented returns the names that the package comment lists, those of families aside.
func documented(t *testing.T) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for line := range strings.Lines(f.Doc.Text()) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ = strings.Cut(name, "{")
		if strings.HasPrefix(name, namespace+"_") && !strings.Contains(name, "*") {
			names[name] = true
		}
	}
	if len(names) == 0 {
		t.Fatal("the package comment lists nothing")
	}
	return names
}
