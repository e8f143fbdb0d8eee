package restore

import (
	"context"
	_ "embed" // the program and what it needs
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// StreamsVersion is the version of Kafka Streams.
const StreamsVersion = "4.3.1"

// StreamsPOM names the jars of the Kafka Streams program, for Maven.
//
//go:embed streams/pom.xml
var StreamsPOM []byte

// StreamsJar is the one that stands for all.
const StreamsJar = "kafka-streams-" + StreamsVersion + ".jar"

//go:embed streams/StreamsRestore.java
var streamsSource []byte

// envStreamsJars names a directory with the jars of Kafka Streams.
const envStreamsJars = "ONCEWARD_STREAMS_JARS"

// Streams is how the Kafka Streams program is run.
type Streams struct {
	// Java is the program java of a JDK, 17 or newer, ClassPath has the jars of Kafka Streams.
	Java, ClassPath string
}

// FindStreams finds Java, by JAVA_HOME or in PATH, and the jars: in the directory that ONCEWARD_STREAMS_JARS names, else in the
// user's cache directory, where Maven puts them the first time.
func FindStreams(ctx context.Context) (Streams, error) {
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	java, err := exec.LookPath(java)
	if err != nil {
		return Streams{}, fmt.Errorf("the measurement needs a JDK, 17 or newer: %w", err)
	}
	dir := os.Getenv(envStreamsJars)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return Streams{}, fmt.Errorf("no directory to keep the jars of Kafka Streams in (set %s to one that has them): %w",
				envStreamsJars, err)
		}
		dir = filepath.Join(cache, "onceward", "streams-restore-"+StreamsVersion)
		if err := download(ctx, dir); err != nil {
			return Streams{}, fmt.Errorf("getting the jars of Kafka Streams (or set %s to a directory that has them): %w",
				envStreamsJars, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, StreamsJar)); err != nil {
		return Streams{}, fmt.Errorf("looking for the jars of Kafka Streams: %w", err)
	}
	return Streams{Java: java, ClassPath: filepath.Join(dir, "*")}, nil
}

// download has Maven fill the directory, which appears at once and complete, unless it is there.
func download(ctx context.Context, dir string) (err error) {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "download-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	pom, libs := filepath.Join(work, "pom.xml"), filepath.Join(work, "libs")
	if err := os.WriteFile(pom, StreamsPOM, 0o644); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "--file", pom,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+libs)
	cmd.WaitDelay = time.Second // mvn is a script around Java, which may hold its output
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return os.Rename(libs, dir)
}

// compile makes the program's classes and adds them to the class path. The compiler runs before and not in the process that is
// measured.
func (s Streams) compile(ctx context.Context, dir string) (Streams, error) {
	source, classes := filepath.Join(dir, "StreamsRestore.java"), filepath.Join(dir, "classes")
	if err := os.WriteFile(source, streamsSource, 0o644); err != nil {
		return s, err
	}
	jars, err := s.jars()
	if err != nil {
		return s, err
	}
	cmd := exec.CommandContext(ctx, s.Java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", jars, "-d", classes, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return s, fmt.Errorf("compiling the Kafka Streams program (it takes a JDK): %w\n%s", err, out)
	}
	s.ClassPath = classes + string(os.PathListSeparator) + s.ClassPath
	return s, nil
}

// jars is the class path with the names of all jars: only Java's launcher knows what a * is.
func (s Streams) jars() (string, error) {
	var all []string
	for _, entry := range filepath.SplitList(s.ClassPath) {
		if filepath.Base(entry) != "*" {
			all = append(all, entry)
			continue
		}
		found, err := filepath.Glob(entry + ".jar")
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	return strings.Join(all, string(os.PathListSeparator)), nil
}

// Tuning are the settings of Kafka Streams that are tried.
type Tuning struct {
	Name    string `json:"name"`
	Threads int    `json:"threads"`
	// Properties are what differs from the defaults otherwise.
	Properties []string `json:"properties,omitempty"`
}

// wideFetch lets the restore consumer take more at a time than its defaults: 1,000 records and 1 MiB a partition.
var wideFetch = []string{
	"restore.consumer.max.poll.records=20000", "restore.consumer.max.partition.fetch.bytes=8388608",
	"restore.consumer.receive.buffer.bytes=1048576",
}

// tunings returns what is tried.
func tunings() []Tuning {
	var out []Tuning
	for _, threads := range []int{1, 2, 4} {
		out = append(out, Tuning{Name: fmt.Sprintf("%d threads, defaults", threads), Threads: threads})
	}
	for _, threads := range []int{1, 2, 4} {
		out = append(out, Tuning{Name: fmt.Sprintf("%d threads, wide fetches", threads), Threads: threads, Properties: wideFetch})
	}
	return out
}

// peer is a way to run Kafka Streams.
type peer struct {
	Tuning
	Heap string // as -Xmx has it
}

// restorePeer lets Kafka Streams restore everything into an empty directory.
func (m *measurement) restorePeer(ctx context.Context, p peer, read bool) (_ Restore, _ report, err error) {
	if err := m.cluster.awaitEmpty(ctx, m.cfg.Name); err != nil {
		return Restore{}, report{}, err
	}
	dir, err := os.MkdirTemp(m.cfg.Dir, "streams-")
	if err != nil {
		return Restore{}, report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	lines := append([]string{
		"application.id=" + m.cfg.Name, "bootstrap.servers=" + strings.Join(m.cfg.Brokers, ","),
		"processing.guarantee=exactly_once_v2", "state.dir=" + filepath.ToSlash(filepath.Join(dir, "state")),
		fmt.Sprintf("num.stream.threads=%d", p.Threads),
	}, p.Properties...)
	properties := filepath.Join(dir, "streams.properties")
	if err := os.WriteFile(properties, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return Restore{}, report{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, runTimeout, errRunTimeout)
	defer cancel()
	contents := "skip"
	if read {
		contents = "read"
	}
	cmd := exec.CommandContext(ctx, m.streams.Java, append([]string{
		"-Xmx" + p.Heap, "-XX:+ExitOnOutOfMemoryError", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", m.streams.ClassPath, "StreamsRestore", properties, inputTopic(m.cfg.Name), contents,
	}, stores...)...)
	cmd.WaitDelay = time.Second
	return runRestore(ctx, cmd, filepath.Join(m.cfg.Dir, "streams.log"), m.cfg.Data.Records)
}

// version returns what Java says about itself, in one line.
func (s Streams) version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, s.Java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", s.Java, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(lines[min(1, len(lines)-1)]), nil
}
