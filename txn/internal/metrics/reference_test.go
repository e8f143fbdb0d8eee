package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

// reference is the list of metrics for operators.
const reference = "../../../docs/reference/metrics.md"

// The tables of the reference are between these lines.
const (
	tablesBegin = "<!-- The tables are made by UPDATE_METRICS=1 go test ./txn/internal/metrics -run TestReference -->\n"
	tablesEnd   = "<!-- end of the tables -->\n"
)

// TestReference compares the tables of the reference with what is registered, or writes them.
func TestReference(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), tablesBegin)
	tables, after, ended := strings.Cut(rest, tablesEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the tables", reference)
	}
	want := tablesOf(t)
	if tables == want {
		return
	}
	if os.Getenv("UPDATE_METRICS") == "" {
		t.Fatalf("%s does not list what is registered; UPDATE_METRICS=1 writes it. It has\n%s\nwant\n%s", reference, tables, want)
	}
	if err := os.WriteFile(reference, []byte(before+tablesBegin+want+tablesEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tablesOf has one table for each type of metric, by name.
func tablesOf(t *testing.T) string {
	t.Helper()
	answer := httptest.NewRecorder()
	used().Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	help, tables := "", map[string]string{}
	for line := range strings.Lines(answer.Body.String()) {
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		switch {
		case len(words) < 4 || words[0] != "#" || !strings.HasPrefix(words[2], namespace+"_"):
		case words[1] == "HELP":
			help = words[3]
		case words[1] == "TYPE":
			tables[words[3]] += fmt.Sprintf("| `%s` | %s | %s |\n", words[2], labelsOf(answer.Body.String(), words[2]), help)
		}
	}
	var out strings.Builder
	for _, kind := range []string{"counter", "gauge", "histogram"} {
		if tables[kind] == "" {
			t.Fatalf("there is no %s", kind)
		}
		fmt.Fprintf(&out, "\n## %s%ss\n\n| name | labels | what it is |\n|---|---|---|\n%s", strings.ToUpper(kind[:1]), kind[1:], tables[kind])
	}
	return out.String() + "\n"
}

// labelsOf returns the names of the labels of a metric.
func labelsOf(scrape, name string) string {
	var labels []string
	sample := regexp.MustCompile(`(?m)^` + name + `(?:_bucket)?\{(.*)\}`).FindStringSubmatch(scrape)
	if sample == nil {
		return ""
	}
	for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(sample[1], -1) {
		if label[1] != "le" {
			labels = append(labels, label[1])
		}
	}
	return strings.Join(labels, ", ")
}
