package cluster

import (
	"context"
	"crypto/sha256"
	_ "embed" // the pom
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// KafkaVersion is the version of Apache Kafka that the harness runs.
const KafkaVersion = "4.3.1"

const (
	envJars = "ONCEWARD_KAFKA_JARS"
	// minJava is what Kafka's broker has been compiled for since 4.0.
	minJava   = 17
	brokerJar = "kafka_2.13-" + KafkaVersion + ".jar"
	// downloadTimeout includes the wait for another process's download.
	downloadTimeout = 10 * time.Minute
)

//go:embed pom.xml
var pom []byte

// Library is a set of Java archives that Maven gets from Maven Central once and keeps in the user's
// cache directory.
type Library struct {
	// Name is the directory in the cache. It has the version in it: what is there already is never
	// looked at again.
	Name string
	// POM names the archives as its runtime dependencies.
	POM []byte
	// Jar is the file name of the archive that stands for all: Maven copies it with the rest or
	// fails.
	Jar string
	// Programs are sources in Java that need the archives, nil for none. [Java] compiles them once
	// in a process.
	Programs fs.FS
}

// kafkaLibrary is what the broker runs from.
var kafkaLibrary = Library{Name: "kafka-" + KafkaVersion, POM: pom, Jar: brokerJar}

// findJava returns the path of a Java that can run the broker: JAVA_HOME's, else the one in PATH.
func findJava(ctx context.Context) (string, error) {
	name := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		name = filepath.Join(home, "bin", "java")
	}
	java, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: no Java %d or newer (%w)", ErrUnavailable, minJava, err)
	}
	version, err := askJava(ctx, java)
	if err != nil {
		return "", err
	}
	if version < minJava {
		return "", fmt.Errorf("%w: %s is Java %d, Kafka %s needs %d",
			ErrUnavailable, java, version, KafkaVersion, minJava)
	}
	return java, nil
}

// javaVersions are the versions by path, once asked for: asking starts a JVM, and the tests of a
// package want many brokers.
var javaVersions sync.Map

// askJava asks a program for its version, because a file of that name proves nothing: macOS ships
// one that only says where to get Java.
func askJava(ctx context.Context, java string) (int, error) {
	if known, ok := javaVersions.Load(java); ok {
		return known.(int), nil
	}
	out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%w: no Java %d or newer (%s -version: %w)", ErrUnavailable, minJava, java, err)
	}
	version, err := javaVersion(string(out))
	if err != nil {
		return 0, fmt.Errorf("%s -version: %w", java, err)
	}
	javaVersions.Store(java, version)
	return version, nil
}

var javaVersionLine = regexp.MustCompile(`(?m) version "(?:1\.)?(\d+)`)

// javaVersion reads the feature release, 17 or the 8 of "1.8.0_402", from what java -version
// prints.
func javaVersion(out string) (int, error) {
	m := javaVersionLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no version in its output: %q", out)
	}
	return strconv.Atoi(m[1])
}

// findJars returns a directory with the broker's jars, and downloads them first where that is
// needed.
func findJars(ctx context.Context) (string, error) {
	if dir := os.Getenv(envJars); dir != "" {
		if !isFile(filepath.Join(dir, brokerJar)) {
			return "", fmt.Errorf("%s names %s, but %s is not in it", envJars, dir, brokerJar)
		}
		return dir, nil
	}
	dir, err := kafkaLibrary.find(ctx)
	if err != nil {
		return "", fmt.Errorf("%w (or set %s to a directory that has them)", err, envJars)
	}
	return dir, nil
}

// find returns the directory with the archives, and downloads them first if they are not there.
func (l Library) find(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no directory to keep the jars of %s in: %w", l.Name, err)
	}
	dir := filepath.Join(cache, "onceward", l.Name)
	if isFile(filepath.Join(dir, l.Jar)) {
		return dir, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("%w: no jars of %s in %s and no Maven to get them (%w)",
			ErrUnavailable, l.Name, dir, err)
	}
	if err := l.download(ctx, mvn, dir); err != nil {
		return "", fmt.Errorf("get the jars of %s into %s: %w", l.Name, dir, err)
	}
	return dir, nil
}

// download fills dir with the jars. The directory appears at once and complete, under a lock:
// several test processes start together and all want it.
func (l Library) download(ctx context.Context, mvn, dir string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	lock := flock.New(dir + ".lock")
	if _, err := lock.TryLockContext(ctx, pollInterval); err != nil {
		return fmt.Errorf("wait for another process's download: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if isFile(filepath.Join(dir, l.Jar)) {
		return nil // by the process that had the lock before
	}

	work, err := os.MkdirTemp(filepath.Dir(dir), "download-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := l.copyDependencies(ctx, mvn, work); err != nil {
		return err
	}
	// An incomplete directory can only be a user's: rename does not replace it, and neither do we.
	if err := os.Rename(filepath.Join(work, "libs"), dir); err != nil {
		return fmt.Errorf("put them in place (if something is there already, delete it): %w", err)
	}
	return nil
}

// copyDependencies has Maven resolve the pom and copy the jars into work/libs.
func (l Library) copyDependencies(ctx context.Context, mvn, work string) error {
	pomPath := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pomPath, l.POM, 0o644); err != nil {
		return err
	}
	libs := filepath.Join(work, "libs")
	cmd := exec.CommandContext(ctx, mvn, "--batch-mode", "--quiet", "--file", pomPath,
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+libs)
	// mvn is a script around Java: once it is killed, do not wait for what still holds its output.
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, lastLines(out))
	}
	if !isFile(filepath.Join(libs, l.Jar)) {
		return fmt.Errorf("%s succeeded without %s", strings.Join(cmd.Args, " "), l.Jar)
	}
	return nil
}

// lastLines keeps an error readable: Maven can print a line per artifact.
func lastLines(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// classPath lets Java expand the directory itself; there are about 90 jars in it.
func classPath(jars string) string { return filepath.Join(jars, "*") }

// javaPath writes a path for a Java properties file, where a backslash would escape.
func javaPath(path string) string {
	if runtime.GOOS == "windows" {
		return filepath.ToSlash(path)
	}
	return path
}

// compiled are the programs of libraries that this process has compiled. [Run] removes them.
var compiled programs

type programs struct {
	mu   sync.Mutex // held while one library's are compiled
	dirs map[compiledKey]*TempDir
}

// compiledKey tells the programs of libraries apart. Libraries of one name may have different
// programs.
type compiledKey struct {
	library string
	sources [sha256.Size]byte
}

// hashFiles returns a hash of the names and the contents of all files.
func hashFiles(files fs.FS) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	err = fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		fmt.Fprintf(h, "%q %d\n", path, len(content)) // never fails
		_, _ = h.Write(content)                       // likewise
		return err
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}

// get returns the class path of a library with its compiled programs. The compiler is that of the
// Java, which has to be a JDK's.
func (p *programs) get(ctx context.Context, java, classes string, l Library) (withPrograms string, err error) {
	key := compiledKey{library: l.Name}
	if key.sources, err = hashFiles(l.Programs); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	dir := p.dirs[key]
	if dir == nil {
		if dir, err = NewTempDir("java"); err != nil {
			return "", err
		}
		if err := compileJava(ctx, java, classes, l.Programs, dir.File(compiledName)); err != nil {
			return "", errors.Join(fmt.Errorf("compile the programs of %s: %w", l.Name, err), dir.Remove())
		}
		if p.dirs == nil {
			p.dirs = map[compiledKey]*TempDir{}
		}
		p.dirs[key] = dir
	}
	return dir.File(compiledName) + string(os.PathListSeparator) + classes, nil
}

// compiledName is the directory in a [TempDir] that has the sources of programs and their classes.
const compiledName = "classes"

// compileJava compiles sources into dir.
func compileJava(ctx context.Context, java, classes string, sources fs.FS, dir string) error {
	if err := os.CopyFS(dir, sources); err != nil {
		return err
	}
	jars, err := filepath.Glob(classes + ".jar") // only Java's launcher knows what a * is
	if err != nil {
		return err
	}
	args := []string{"-m", "jdk.compiler/com.sun.tools.javac.Main", "-cp", strings.Join(jars, string(os.PathListSeparator)), "-d", dir}
	err = fs.WalkDir(sources, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			args = append(args, filepath.Join(dir, filepath.FromSlash(path)))
		}
		return err
	})
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, java, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("it takes a JDK, not only a JRE: %w\n%s", err, out)
	}
	return nil
}

func (p *programs) remove() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, dir := range p.dirs {
		err = errors.Join(err, dir.Remove())
	}
	return err
}
