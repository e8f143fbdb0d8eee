package differential

import (
	"bufio"
	_ "embed" // the program and what it needs
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

// streamsVersion is the version of Kafka Streams that is compared with.
const streamsVersion = "4.3.1"

//go:embed streams/pom.xml
var pom []byte

//go:embed streams/Differential.java
var program []byte

var testUtils = cluster.Library{
	Name: "streams-differential-" + streamsVersion, POM: pom, Jar: "kafka-streams-test-utils-" + streamsVersion + ".jar",
}

// streams is the Java program, ready to run.
type streams struct{ java, classes, dir string }

// compileProgram compiles the program.
func compileProgram(t *testing.T) streams {
	t.Helper()
	java, classes := cluster.Java(t, testUtils)
	return streams{java, cluster.CompileJava(t, java, classes, "Differential", program), t.TempDir()}
}

// run returns what Kafka Streams makes of each case.
func (s streams) run(t *testing.T, cases []testCase) []outputs {
	t.Helper()
	var input strings.Builder
	for _, c := range cases {
		input.WriteString(c.text())
	}
	return s.ask(t, input.String(), len(cases))
}

// describe returns how Kafka Streams describes the topology of each operator.
func (s streams) describe(t *testing.T, operators []string) []string {
	t.Helper()
	var input strings.Builder
	for _, name := range operators {
		input.WriteString("describe " + name + "\nend\n")
	}
	descriptions := make([]string, len(operators))
	for i, lines := range s.ask(t, input.String(), len(operators)) {
		descriptions[i] = strings.Join(lines, "\n") + "\n"
	}
	return descriptions
}

// ask runs the program and returns the lines of its answers, of which n are wanted.
func (s streams) ask(t *testing.T, input string, n int) []outputs {
	t.Helper()
	in, out := filepath.Join(s.dir, "cases"), filepath.Join(s.dir, "outputs")
	if err := os.WriteFile(in, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	// Kafka Streams keeps what it has to keep below the directory for temporary files, where others may do the same.
	cmd := exec.CommandContext(t.Context(), s.java, "-Xmx512m", "-XX:+UseSerialGC", "-Djava.io.tmpdir="+s.dir,
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", s.classes, "Differential", in, out)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("run the program: %v\n%s", err, said)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	answers := make([]outputs, 0, n)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "case "):
			answers = append(answers, nil)
		case line == "end":
		default:
			answers[len(answers)-1] = append(answers[len(answers)-1], line)
		}
	}
	if len(answers) != n {
		t.Fatalf("the program has answered %d of %d questions", len(answers), n)
	}
	return answers
}

func TestPomHasTheVersion(t *testing.T) {
	want := "<artifactId>kafka-streams-test-utils</artifactId>\n      <version>" + streamsVersion + "</version>"
	if !strings.Contains(string(pom), want) {
		t.Errorf("pom.xml has no version %s of kafka-streams-test-utils", streamsVersion)
	}
}
