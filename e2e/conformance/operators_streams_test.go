package conformance

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// streamsRun returns what Kafka Streams makes of each case.
func streamsRun(t *testing.T, cases []operatorCase) []caseOutputs {
	t.Helper()
	var input strings.Builder
	for _, c := range cases {
		input.WriteString(c.text())
	}
	return askStreams(t, input.String(), len(cases))
}

// streamsDescribe returns how Kafka Streams describes the topology of each operator.
func streamsDescribe(t *testing.T, operators []string) map[string]string {
	t.Helper()
	var input strings.Builder
	for _, name := range operators {
		input.WriteString("describe " + name + "\nend\n")
	}
	descriptions := map[string]string{}
	for i, lines := range askStreams(t, input.String(), len(operators)) {
		descriptions[operators[i]] = strings.Join(lines, "\n") + "\n"
	}
	return descriptions
}

// askStreams runs the program Differential and returns the lines of its answers, of which n are
// wanted.
func askStreams(t *testing.T, input string, n int) []caseOutputs {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "cases"), filepath.Join(dir, "outputs")
	if err := os.WriteFile(in, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := javaCommand(t.Context(), t, streamsLibrary, "Differential", in, out).CombinedOutput(); err != nil {
		t.Fatalf("run the program: %v\n%s", err, said)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	answers := make([]caseOutputs, 0, n)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "case "):
			answers = append(answers, nil)
		case line == "end":
		default:
			answers[len(answers)-1] = append(answers[len(answers)-1], line)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(answers) != n {
		t.Fatalf("the program has answered %d of %d questions", len(answers), n)
	}
	return answers
}
