package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

func TestPomHasTheVersion(t *testing.T) {
	for _, artifact := range []string{"kafka_2.13", "kafka-tools"} {
		want := fmt.Sprintf("<artifactId>%s</artifactId>\n      <version>%s</version>", artifact, KafkaVersion)
		if !strings.Contains(string(pom), want) {
			t.Errorf("pom.xml does not have %s %s", artifact, KafkaVersion)
		}
	}
}

func TestJavaVersion(t *testing.T) {
	for out, want := range map[string]int{
		"openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime Environment": 17,
		"Picked up _JAVA_OPTIONS: -Xmx1g\njava version \"1.8.0_402\"\n":       8,
		"openjdk version \"26-ea\" 2026-03-17":                                26,
	} {
		if got, err := javaVersion(out); err != nil || got != want {
			t.Errorf("of %q: %d, %v, want %d", out, got, err, want)
		}
	}
	if got, err := javaVersion("The operation couldn't be completed."); err == nil {
		t.Errorf("of no version: %d", got)
	}
}

// script puts a shell script into a directory of its own and returns its path.
func script(t *testing.T, name, body string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the stand-in for the program is a shell script")
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOldOrBrokenJavaIsUnavailable(t *testing.T) {
	for body, want := range map[string]string{
		`echo 'openjdk version "11.0.2"' >&2`:            "is Java 11",
		`echo 'Unable to locate a Java Runtime'; exit 1`: "exit status 1",
	} {
		t.Setenv("JAVA_HOME", "")
		t.Setenv("PATH", filepath.Dir(script(t, "java", body)))
		_, err := findJava(t.Context())
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// fakeMaven does what Maven does with the command line that it gets, and notes that it ran.
const fakeMaven = `for arg; do case $arg in -DoutputDirectory=*) libs=${arg#*=};; esac; done
echo run >>"$MAVEN_RUNS"
mkdir "$libs" && echo jar >"$libs/` + brokerJar + `"`

func TestProcessesDownloadOnce(t *testing.T) {
	mvn := script(t, "mvn", fakeMaven)
	root := t.TempDir()
	runs := filepath.Join(root, "runs")
	t.Setenv("MAVEN_RUNS", runs)
	dir := filepath.Join(root, "cache", "kafka")
	var wg sync.WaitGroup
	for range 4 { // each has a lock of its own, as processes have
		wg.Go(func() {
			if err := kafkaLibrary.download(t.Context(), mvn, dir); err != nil {
				t.Error(err)
			}
			if !isFile(filepath.Join(dir, brokerJar)) {
				t.Error("download returned without jars")
			}
		})
	}
	wg.Wait()
	if b, err := os.ReadFile(runs); string(b) != "run\n" {
		t.Errorf("Maven ran %d times (%v)", strings.Count(string(b), "run"), err)
	}
	expectNoRemains(t, dir)
}

func TestFailedDownloadLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache", "kafka")
	for body, want := range map[string]string{
		"echo no route to repo; exit 1": "no route to repo",
		"exit 0":                        "succeeded without " + brokerJar,
	} {
		err := kafkaLibrary.download(t.Context(), script(t, "mvn", body), dir)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
		if errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: a failed download would be skipped", body)
		}
		expectExists(t, false, dir)
		expectNoRemains(t, dir)
	}
}

// expectNoRemains fails if a download has left its working directory beside dir.
func expectNoRemains(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "download-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestFindJars(t *testing.T) {
	root := t.TempDir()
	t.Setenv(envJars, root)
	if _, err := findJars(t.Context()); err == nil || errors.Is(err, ErrUnavailable) ||
		!strings.Contains(err.Error(), brokerJar) {
		t.Errorf("a directory without jars is a mistake of the user's, not a reason to skip: %v", err)
	}
	if err := os.WriteFile(filepath.Join(root, brokerJar), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if dir, err := findJars(t.Context()); err != nil || dir != root {
		t.Errorf("the directory of %s: %s, %v", envJars, dir, err)
	}

	t.Setenv(envJars, "")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
	t.Setenv("HOME", root)
	t.Setenv("PATH", root)
	_, err := findJars(t.Context())
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "Maven") {
		t.Errorf("neither jars nor Maven: %v", err)
	}
}

// TestProgramsAreCompiledOnce: a library's programs run with the class path from Java, which is the
// same at each call, and a program that does not compile is an error that leaves nothing.
func TestProgramsAreCompiledOnce(t *testing.T) {
	l := Library{Name: kafkaLibrary.Name, POM: pom, Jar: brokerJar, Programs: fstest.MapFS{
		"programs/Hello.java": {Data: []byte(`public final class Hello {
			public static void main(String[] args) throws Exception {
				System.out.print(Class.forName("kafka.Kafka").getName());
			}
		}`)},
	}}
	java, classes := Java(t, l)
	if _, again := Java(t, l); again != classes {
		t.Errorf("the class path is %s and then %s", classes, again)
	}
	if out, err := exec.CommandContext(t.Context(), java, "-cp", classes, "Hello").Output(); err != nil || string(out) != "kafka.Kafka" {
		t.Errorf("the program printed %q, %v", out, err)
	}
	other := l
	other.Programs = fstest.MapFS{"programs/Other.java": {Data: []byte("public final class Other {}")}}
	if _, others := Java(t, other); others == classes {
		t.Errorf("a library of the same name with other programs gets the class path %s too", others)
	}
	t.Setenv("TMPDIR", t.TempDir())
	wrong := Library{Name: "wrong", Programs: fstest.MapFS{"Wrong.java": {Data: []byte("class Wrong {")}}}
	if _, err := compiled.get(t.Context(), java, classes, wrong); err == nil || !strings.Contains(err.Error(), "Wrong.java") {
		t.Errorf("a program that does not compile: %v", err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
