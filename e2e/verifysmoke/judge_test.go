//go:build unix

package verifysmoke

import (
	"context"
	_ "embed" // the program and what it needs
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
)

// streamsVersion is that of the jar with StreamsSmokeTest.
const streamsVersion = "4.3.1"

//go:embed streams/pom.xml
var pom []byte

//go:embed streams/ShortRun.java
var shortRun []byte

var streamsTest = cluster.Library{
	Name: "streams-smoke-test-" + streamsVersion, POM: pom, Jar: "kafka-streams-" + streamsVersion + "-test.jar",
}

// judgeTimeout is beyond what a run takes that fails: a minute and a half to generate, and six to wait for what does not come. The verifier
// would wait ten minutes for a transaction that hangs.
const judgeTimeout = 12 * time.Minute

// load is what is generated: for each of so many keys so many values, in about so many seconds. The zero load is that of Kafka's own
// command, 20 keys with 1,000 values in 90 s.
type load struct{ keys, values, seconds int }

// judge is a program that generates, and then verifies.
type judge struct {
	process *cluster.Process
	outPath string
}

// launchJudge starts the command "run" of StreamsSmokeTest, or what does the same with another load.
func launchJudge(t *testing.T, brokers []string, l load) *judge {
	t.Helper()
	java, classes := cluster.Java(t, streamsTest)
	dir := t.TempDir()
	bootstrap := strings.Join(brokers, ",")
	properties := filepath.Join(dir, "test.properties")
	text := "bootstrap.servers=" + bootstrap + "\nprocessing.guarantee=exactly_once_v2\n"
	if err := os.WriteFile(properties, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"org.apache.kafka.streams.tests.StreamsSmokeTest", properties, "run"}
	if l != (load{}) {
		classes = cluster.CompileJava(t, java, classes, "ShortRun", shortRun)
		command = []string{"ShortRun", bootstrap, strconv.Itoa(l.keys), strconv.Itoa(l.values), strconv.Itoa(l.seconds)}
	}
	j := &judge{outPath: filepath.Join(dir, "run.out")}
	out, err := os.Create(j.outPath)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() // the process has its own
	cmd := exec.Command(java, append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classes}, command...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if j.process, err = cluster.Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.process.Kill(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// ended reports whether the program has ended.
func (j *judge) ended() bool {
	select {
	case <-j.process.Ended():
		return true
	default:
		return false
	}
}

// wait returns what the program has printed, once it has ended.
func (j *judge) wait(ctx context.Context) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTimeout)
	defer cancel()
	select {
	case <-j.process.Ended():
	case <-ctx.Done():
		err = fmt.Errorf("the verifier does not end: %w", ctx.Err())
	}
	out, readErr := os.ReadFile(j.outPath)
	return string(out), errors.Join(err, readErr)
}

// verdict returns what is wrong by what the verifier has printed, nil if nothing is.
func verdict(output string) error {
	lines := map[string]bool{}
	for line := range strings.Lines(output) {
		lines[strings.TrimSpace(line)] = true
	}
	switch {
	case !lines["SUCCESS"]:
		return errors.New("the verifier does not say SUCCESS")
	case !lines["ALL-RECORDS-DELIVERED"]:
		return errors.New("the verifier does not say ALL-RECORDS-DELIVERED")
	case strings.Contains(output, "PROCESSED-MORE-THAN-GENERATED"):
		return errors.New("echo has more records than were generated")
	case strings.Contains(output, "FAILURE"):
		return errors.New("the verifier says FAILURE")
	}
	return nil
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		output string
		ok     bool
	}{
		{"...\nALL-RECORDS-DELIVERED\nSUCCESS\n", true},
		{"...\nALL-RECORDS-DELIVERED\nFAILURE\n", false},
		{"PROCESSED-MORE-THAN-GENERATED\nALL-RECORDS-DELIVERED\nSUCCESS\n", false},
		{"SUCCESS\n", false},
		{"ALL-RECORDS-DELIVERED\n", false},
		{"no SUCCESS\nALL-RECORDS-DELIVERED\n", false},
		{"", false},
	} {
		if err := verdict(test.output); (err == nil) != test.ok {
			t.Errorf("%q: %v", test.output, err)
		}
	}
}

func TestPomHasTheVersion(t *testing.T) {
	want := "<artifactId>kafka-streams</artifactId>\n      <version>" + streamsVersion + "</version>"
	if n := strings.Count(string(pom), want); n != 2 {
		t.Errorf("pom.xml has version %s of kafka-streams %d times, not twice", streamsVersion, n)
	}
}
