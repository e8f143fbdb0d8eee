package streams

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Version is the version of Kafka Streams.
const Version = "4.3.1"

// POM names the jars that the programs need, for Maven.
//
//go:embed pom.xml
var POM []byte

// Library is the name of the directory that keeps the jars, Jar the one that stands for all.
const (
	Library = "kafka-streams-" + Version
	Jar     = Library + ".jar"
)

//go:embed java/*.java
var sources embed.FS

// envJars names a directory with the jars of Kafka Streams.
const envJars = "ONCEWARD_STREAMS_JARS"

// Installation is what the programs are run with.
type Installation struct {
	// Java is the program java of a JDK, 17 or newer, ClassPath has the jars of Kafka Streams and,
	// after Compile, the programs.
	Java, ClassPath string
}

// Find finds Java, by JAVA_HOME or in PATH, and the jars: in the directory that
// ONCEWARD_STREAMS_JARS names, else in the user's cache directory, where Maven puts them the first
// time.
func Find(ctx context.Context) (Installation, error) {
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	java, err := exec.LookPath(java)
	if err != nil {
		return Installation{}, fmt.Errorf("the measurement needs a JDK, 17 or newer: %w", err)
	}
	dir := os.Getenv(envJars)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return Installation{}, fmt.Errorf("no directory to keep the jars of Kafka Streams in (set %s to one that has them): %w",
				envJars, err)
		}
		dir = filepath.Join(cache, "onceward", Library)
		if err := download(ctx, dir); err != nil {
			return Installation{}, fmt.Errorf("getting the jars of Kafka Streams (or set %s to a directory that has them): %w",
				envJars, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, Jar)); err != nil {
		return Installation{}, fmt.Errorf("looking for the jars of Kafka Streams: %w", err)
	}
	return Installation{Java: java, ClassPath: filepath.Join(dir, "*")}, nil
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
	if err := os.WriteFile(pom, POM, 0o644); err != nil {
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

// Compile makes the programs' classes in the directory and returns the installation that has them.
// The compiler runs before and not in the process that is measured.
func (i Installation) Compile(ctx context.Context, dir string) (Installation, error) {
	written, err := writeSources(dir)
	if err != nil {
		return i, err
	}
	jars, err := i.jars()
	if err != nil {
		return i, err
	}
	classes := filepath.Join(dir, "classes")
	args := append([]string{"-m", "jdk.compiler/com.sun.tools.javac.Main",
		"-cp", jars, "-d", classes}, written...)
	if out, err := exec.CommandContext(ctx, i.Java, args...).CombinedOutput(); err != nil {
		return i, fmt.Errorf("compiling the Kafka Streams programs (it takes a JDK): %w\n%s", err, out)
	}
	i.ClassPath = classes + string(os.PathListSeparator) + i.ClassPath
	return i, nil
}

// writeSources copies the programs out of this one and returns their files.
func writeSources(dir string) ([]string, error) {
	names, err := fs.Glob(sources, "java/*.java")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "java"), 0o755); err != nil {
		return nil, err
	}
	var written []string
	for _, name := range names {
		text, err := sources.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
		written = append(written, file)
	}
	return written, nil
}

// jars is the class path with the names of all jars: only Java's launcher knows what a * is.
func (i Installation) jars() (string, error) {
	var all []string
	for _, entry := range filepath.SplitList(i.ClassPath) {
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

// JavaVersion returns what Java says about itself, in one line.
func (i Installation) JavaVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, i.Java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", i.Java, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.TrimSpace(lines[min(1, len(lines)-1)]), nil
}
