//go:build unix

package verifyeos

import (
	"context"
	_ "embed" // the pom
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
)

// streamsVersion is the last version of Kafka Streams that has StreamsEosTest.
const streamsVersion = "4.2.0"

//go:embed pom.xml
var pom []byte

var streamsTest = cluster.Library{
	Name: "streams-eos-test-" + streamsVersion, POM: pom, Jar: "kafka-streams-" + streamsVersion + "-test.jar",
}

const (
	// delivered is what the verifier prints at its end if it has found nothing wrong. Its exit code says
	// nothing: it is 0 after some failures.
	delivered = "ALL-RECORDS-DELIVERED"
	// verifyTimeout is far beyond what a good run takes. The verifier itself waits ten minutes for a
	// transaction that hangs.
	verifyTimeout = 5 * time.Minute
	// generatorGrace is for the records in flight and for the generator's own look at the end offsets.
	generatorGrace = time.Minute
)

// judge runs the commands of Kafka's StreamsEosTest.
type judge struct {
	java, classes string
	properties    string // path of the file that every command is given
	dir           string // for what they print
}

// newJudge skips or fails the test where there is no Java, or no Maven to get the jars with.
func newJudge(t *testing.T) *judge {
	t.Helper()
	java, classes := cluster.Java(t, streamsTest)
	dir := t.TempDir()
	return &judge{java: java, classes: classes, properties: filepath.Join(dir, "test.properties"), dir: dir}
}

// configure tells the commands where the brokers are.
func (j *judge) configure(brokers []string) error {
	text := "bootstrap.servers=" + strings.Join(brokers, ",") + "\nprocessing.guarantee=exactly_once_v2\n"
	return os.WriteFile(j.properties, []byte(text), 0o600)
}

// launch starts a command. Everything that it prints goes to the file.
func (j *judge) launch(command, outPath string) (*cluster.Process, error) {
	out, err := os.Create(outPath)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has its own
	cmd := exec.Command(j.java, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", j.classes, "org.apache.kafka.streams.tests.StreamsEosTest", j.properties, command)
	cmd.Stdout, cmd.Stderr = out, out
	return cluster.Launch(cmd)
}

// generator is a running "run" command.
type generator struct {
	process *cluster.Process
	outPath string
}

// generate starts to write records to the topic data, about 200 a second.
func (j *judge) generate() (*generator, error) {
	g := &generator{outPath: filepath.Join(j.dir, "run.out")}
	var err error
	if g.process, err = j.launch("run", g.outPath); err != nil {
		return nil, fmt.Errorf("start the generator: %w", err)
	}
	return g, nil
}

var closedLine = regexp.MustCompile(`(?m)^Producer closed: (\d+) records produced$`)

// stop ends the generator in order and returns how many records it says to have written.
func (g *generator) stop() (records int64, err error) {
	if err := g.process.Terminate(generatorGrace); err != nil {
		return 0, fmt.Errorf("stop the generator: %w", err)
	}
	out, err := os.ReadFile(g.outPath)
	if err != nil {
		return 0, err
	}
	m := closedLine.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%w; it has printed:\n%s", errors.Join(errUncounted, g.process.Err()), out)
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}

var errUncounted = errors.New("the generator does not say how many records it has written")

var errUnasked = errors.New("nobody asked it to")

// check returns an error if the generator has ended by itself.
func (g *generator) check() error {
	select {
	case <-g.process.Ended():
		err := errors.Join(errUnasked, g.process.Err())
		out, readErr := os.ReadFile(g.outPath)
		return fmt.Errorf("the generator has ended by itself: %w; it has printed:\n%s", errors.Join(err, readErr), out)
	default:
		return nil
	}
}

// verify runs the verifier and returns everything that it prints.
func (j *judge) verify(ctx context.Context, v variant) (output string, err error) {
	outPath := filepath.Join(j.dir, v.verifier+".out")
	p, err := j.launch(v.verifier, outPath)
	if err != nil {
		return "", fmt.Errorf("start the verifier: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	select {
	case <-p.Ended():
	case <-ctx.Done():
		err = errors.Join(fmt.Errorf("the verifier does not end: %w", ctx.Err()), p.Kill())
	}
	out, readErr := os.ReadFile(outPath)
	return string(out), errors.Join(err, readErr)
}

func TestPomHasTheVersion(t *testing.T) {
	want := "<artifactId>kafka-streams</artifactId>\n      <version>" + streamsVersion + "</version>"
	if n := strings.Count(string(pom), want); n != 2 {
		t.Errorf("pom.xml has version %s of kafka-streams %d times, not twice", streamsVersion, n)
	}
}
