package conformance

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

//go:embed java/pom.xml
var pom []byte

//go:embed java/*.java
var javaPrograms embed.FS

var (
	// streamsLibrary has StreamsSmokeTest and the programs in the directory java.
	streamsLibrary = kafkaStreams(cluster.KafkaVersion, javaPrograms)
	// eosLibrary is the last version that has StreamsEosTest.
	eosLibrary = kafkaStreams("4.2.0", nil)
)

func kafkaStreams(version string, programs fs.FS) cluster.Library {
	return cluster.Library{
		Name: "streams-conformance-" + version, POM: bytes.ReplaceAll(pom, []byte("${kafka.version}"), []byte(version)),
		Jar: "kafka-streams-test-utils-" + version + ".jar", Programs: programs,
	}
}

// javaCommand runs a class of a library. What it keeps below Java's directory for temporary files
// goes with the test. It skips or fails the test where there is no JDK, or no Maven to get the jars
// with.
func javaCommand(ctx context.Context, t *testing.T, l cluster.Library, class string, args ...string) *exec.Cmd {
	t.Helper()
	java, classes := cluster.Java(t, l)
	return exec.CommandContext(ctx, java, append([]string{
		"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.io.tmpdir=" + t.TempDir(),
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classes, class,
	}, args...)...)
}

// writeProperties writes a file of Java properties, and returns its path.
func writeProperties(t *testing.T, lines ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.properties")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// clientProperties is the file that each command of Kafka's system tests is given.
func clientProperties(t *testing.T, c *cluster.Cluster) (path string) {
	t.Helper()
	return writeProperties(t, "bootstrap.servers="+strings.Join(c.Brokers(), ","), "processing.guarantee=exactly_once_v2")
}

// javaProcess is a running Java program, which is killed at the end of its test.
type javaProcess struct {
	*cluster.Process
	outPath string
}

// launchJava starts a command. Everything that it prints goes to a file.
func launchJava(t *testing.T, cmd *exec.Cmd) *javaProcess {
	t.Helper()
	outPath := filepath.Join(t.TempDir(), "output")
	out, err := os.Create(outPath)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() // the process has its own
	cmd.Stdout, cmd.Stderr = out, out
	p, err := cluster.Launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return &javaProcess{p, outPath}
}

// hasEnded reports whether the program has ended.
func (p *javaProcess) hasEnded() bool { return instance.Closed(p.Ended()) }

// output returns what the program has printed.
func (p *javaProcess) output() (string, error) {
	out, err := os.ReadFile(p.outPath)
	return string(out), err
}

var errUnasked = errors.New("it was not asked to")

// check returns an error if the program has ended.
func (p *javaProcess) check() error {
	if !p.hasEnded() {
		return nil
	}
	out, err := p.output()
	return fmt.Errorf("it has ended: %w; it has printed:\n%s", errors.Join(errUnasked, p.Err(), err), out)
}

// wait returns what the program has printed, once it has ended.
func (p *javaProcess) wait(ctx context.Context, timeout time.Duration) (output string, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-p.Ended():
	case <-ctx.Done():
		err = fmt.Errorf("the verifier does not end: %w", ctx.Err())
	}
	output, readErr := p.output()
	return output, errors.Join(err, readErr)
}
