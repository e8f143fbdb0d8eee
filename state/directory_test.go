package state_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
)

func openDirectory(t *testing.T, path string, o state.DirectoryOptions) *state.Directory {
	t.Helper()
	d, err := state.OpenDirectory(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestDirectoryKeepsItsIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "state")
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app", Fingerprint: "f1"})
	instance := d.Instance()
	if len(instance) != 16 || d.Fingerprint() != "f1" || d.MaxWorkers() != 0 || d.Path() != path {
		t.Errorf("instance %q, fingerprint %q, workers %d", instance, d.Fingerprint(), d.MaxWorkers())
	}
	if err := errors.Join(d.RaiseMaxWorkers(3), d.RaiseMaxWorkers(2)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	d = openDirectory(t, path, state.DirectoryOptions{Application: "app", Fingerprint: "f2", Instance: instance})
	if d.Instance() != instance || d.Fingerprint() != "f1" || d.MaxWorkers() != 3 {
		t.Errorf("instance %q, fingerprint %q, workers %d", d.Instance(), d.Fingerprint(), d.MaxWorkers())
	}
	if err := d.SetFingerprint("f2"); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d := openDirectory(t, path, state.DirectoryOptions{Application: "app"}); d.Fingerprint() != "f2" {
		t.Errorf("fingerprint %q", d.Fingerprint())
	}
	other := openDirectory(t, filepath.Join(t.TempDir(), "b"), state.DirectoryOptions{Application: "app"})
	if other.Instance() == instance {
		t.Error("two directories have one instance id")
	}
	named := openDirectory(t, t.TempDir(), state.DirectoryOptions{Application: "app", Instance: "node-1"})
	if named.Instance() != "node-1" {
		t.Errorf("instance %q", named.Instance())
	}
}

func TestDirectoryIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("Windows has no mode bits; nothing to check")
		return
	}
	path := filepath.Join(t.TempDir(), "state")
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	if _, err := d.TaskPath("sub", 0); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tree lists a directory with the content of its files.
func tree(t *testing.T, path string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all = append(all, p)
			return err
		}
		data, err := os.ReadFile(p)
		all = append(all, p+": "+string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDirectoryRefusesAndChangesNothing(t *testing.T) {
	valid := `{"format":1,"application":"app","instance":"i","fingerprint":"f","maxWorkers":2}`
	cases := map[string]struct {
		files map[string]string
		o     state.DirectoryOptions
		want  error
		says  string
	}{
		"another application": {map[string]string{"meta.json": valid}, state.DirectoryOptions{Application: "b"},
			state.ErrForeign, `belongs to application "app", not "b"`},
		"another instance": {map[string]string{"meta.json": valid},
			state.DirectoryOptions{Application: "app", Instance: "j"}, state.ErrForeign,
			`belongs to instance "i", not "j"`},
		"newer format": {map[string]string{"meta.json": `{"format":2,"planet":"mars"}`},
			state.DirectoryOptions{Application: "app"}, state.ErrFormat, "version 2, this build reads 1"},
		"a newer major with a minor": {map[string]string{"meta.json": strings.Replace(valid, `1,`, `2,"minor":7,`, 1)},
			state.DirectoryOptions{Application: "app"}, state.ErrFormat, "a newer one, or remove the directory"},
		"a negative minor": {map[string]string{"meta.json": strings.Replace(valid, `1,`, `1,"minor":-1,`, 1)},
			state.DirectoryOptions{Application: "app"}, state.ErrCorrupt, "no format version"},
		"empty meta": {map[string]string{"meta.json": ""}, state.DirectoryOptions{Application: "app"},
			state.ErrCorrupt, "not JSON"},
		"cut meta": {map[string]string{"meta.json": valid[:40]}, state.DirectoryOptions{Application: "app"},
			state.ErrCorrupt, "not JSON"},
		"two values": {map[string]string{"meta.json": valid + valid}, state.DirectoryOptions{Application: "app"},
			state.ErrCorrupt, "not JSON"},
		"unknown field": {map[string]string{"meta.json": strings.Replace(valid, "maxWorkers", "workers", 1)},
			state.DirectoryOptions{Application: "app"}, state.ErrCorrupt, "unknown field"},
		"no format": {map[string]string{"meta.json": `{"application":"app"}`},
			state.DirectoryOptions{Application: "app"}, state.ErrCorrupt, "no format version"},
		"no application": {map[string]string{"meta.json": strings.Replace(valid, "app", "", 2)},
			state.DirectoryOptions{Application: "app"}, state.ErrCorrupt, ""},
		"no instance": {map[string]string{"meta.json": strings.Replace(valid, `"i"`, `""`, 1)},
			state.DirectoryOptions{Application: "app"}, state.ErrCorrupt, "instance"},
		"lost meta": {map[string]string{"tasks/sub/0/MANIFEST": "x"}, state.DirectoryOptions{Application: "app"},
			state.ErrCorrupt, "meta.json is missing"},
		"somebody's home": {map[string]string{"notes.txt": "x"}, state.DirectoryOptions{Application: "app"},
			state.ErrForeign, "not empty"},
		"a bad instance": {nil, state.DirectoryOptions{Application: "app", Instance: "a/b"}, nil,
			"a character other than"},
		"no name": {nil, state.DirectoryOptions{}, nil, "an application is required"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			for file, content := range c.files {
				file = filepath.Join(path, file)
				err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600))
				if err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, path)
			d, err := state.OpenDirectory(path, c.o)
			if err == nil {
				t.Fatal("opened", d.Close())
			}
			if c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
			if after := tree(t, path); !slices.Equal(before, after) {
				t.Errorf("changed\n%q\nto\n%q", before, after)
			}
		})
	}
}

// TestDirectoryOfANewerMinorVersion: what it added is skipped, and is gone with the first change.
func TestDirectoryOfANewerMinorVersion(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "meta.json")
	newer := `{"format":1,"minor":3,"application":"app","instance":"i","fingerprint":"f","maxWorkers":2,"planet":"mars"}`
	if err := os.WriteFile(file, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	if d.Instance() != "i" || d.Fingerprint() != "f" || d.MaxWorkers() != 2 {
		t.Errorf("read %s, %s, %d", d.Instance(), d.Fingerprint(), d.MaxWorkers())
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != newer {
		t.Errorf("opening made it %s (%v)", got, err)
	}
	if err := errors.Join(d.LowerMaxWorkers(3), d.LowerMaxWorkers(1)); err != nil || d.MaxWorkers() != 1 {
		t.Errorf("lowered to 1, the workers are %d, %v", d.MaxWorkers(), err)
	}
	if err := d.RaiseMaxWorkers(4); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(got), "mars") || strings.Contains(string(got), `"minor": 3`) || !strings.Contains(string(got), `"maxWorkers": 4`) {
		t.Errorf("the change made it %s (%v)", got, err)
	}
}

func TestDirectoryTakesWhatAKilledCreationLeft(t *testing.T) {
	path := t.TempDir()
	for _, file := range []string{"LOCK", "meta.json.tmp"} {
		if err := os.WriteFile(filepath.Join(path, file), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(path, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	openDirectory(t, path, state.DirectoryOptions{Application: "app"})
}

func TestDirectoryRefusesLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Log("making symbolic links needs a privilege on Windows; nothing to check")
		return
	}
	base := t.TempDir()
	path, outside := filepath.Join(base, "state"), filepath.Join(base, "outside")
	if err := os.MkdirAll(filepath.Join(outside, "0"), 0o700); err != nil {
		t.Fatal(err)
	}
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	if _, err := d.TaskPath("real", 0); err != nil {
		t.Fatal(err)
	}
	link := func(to string, name ...string) {
		if err := os.Symlink(to, filepath.Join(append([]string{path, "tasks"}, name...)...)); err != nil {
			t.Fatal(err)
		}
	}
	link(outside, "absolute")
	link("../../outside", "relative")
	link("real", "alias")
	link("../../../outside", "real", "7")
	for _, task := range []state.TaskDirectory{{"absolute", 0}, {"relative", 0}, {"alias", 0}, {"real", 7}} {
		if p, err := d.TaskPath(task.Subtopology, task.Partition); err == nil {
			t.Errorf("%v has the path %s", task, p)
		}
	}
	if err := d.RemoveTask("relative", 0); err == nil {
		t.Error("a task behind a link was removed")
	}
	if _, err := os.Stat(filepath.Join(outside, "0")); err != nil {
		t.Error(err)
	}
	if err := os.Symlink(path, filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(base, "link"), filepath.Join(base, "link") + string(filepath.Separator)} {
		_, openErr := state.OpenDirectory(name, state.DirectoryOptions{Application: "app"})
		_, readErr := state.OpenDirectoryReadOnly(name)
		_, identifyErr := state.Identify(name)
		for how, err := range map[string]error{"open": openErr, "read": readErr, "identify": identifyErr} {
			if !errors.Is(err, state.ErrForeign) {
				t.Errorf("%s %s, which is a link: got %v", how, name, err)
			}
		}
	}
}

func TestTaskPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	if tasks, err := d.Tasks(); err != nil || len(tasks) != 0 {
		t.Errorf("a new directory has the tasks %v, %v", tasks, err)
	}
	bad := []string{"", ".", "..", "a/b", `a\b`, "a b", "ä", "a\x00", "C:", strings.Repeat("x", 201)}
	for _, name := range bad {
		if p, err := d.TaskPath(name, 0); err == nil {
			t.Errorf("%q has the path %s", name, p)
		}
		if err := d.RemoveTask(name, 0); err == nil {
			t.Errorf("%q was removed", name)
		}
	}
	if _, err := d.TaskPath("a", -1); err == nil {
		t.Error("a negative partition has a path")
	}
	want := []state.TaskDirectory{{"...", 0}, {"a", 2}, {"a", 10}, {strings.Repeat("x", 200), 1<<31 - 1}}
	for _, task := range want {
		p, err := d.TaskPath(task.Subtopology, task.Partition)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Mkdir(p, 0o700), os.WriteFile(filepath.Join(p, "data"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"a/007", "a/+1", "a/x", "b c/0"} {
		if err := os.MkdirAll(filepath.Join(path, "tasks", other), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.Tasks(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for range 2 { // the second time there is nothing to remove
		if err := d.RemoveTask("a", 2); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.RemoveTask("never", 1); err != nil {
		t.Errorf("remove what is not there: %v", err)
	}
	if got, err := d.Tasks(); err != nil || slices.Contains(got, want[1]) || len(got) != 3 {
		t.Errorf("after the removal: %v, %v", got, err)
	}
	if err := os.MkdirAll(filepath.Join(path, "trash", "half", "removed"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	expectNames(t, filepath.Join(path, "trash"))
}

func TestClosedDirectoryRefuses(t *testing.T) {
	d := openDirectory(t, t.TempDir(), state.DirectoryOptions{Application: "app"})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, pathErr := d.TaskPath("a", 0)
	_, tasksErr := d.Tasks()
	for op, err := range map[string]error{
		"path": pathErr, "tasks": tasksErr, "remove": d.RemoveTask("a", 0), "raise": d.RaiseMaxWorkers(5),
		"fingerprint": d.SetFingerprint("x"),
	} {
		if !errors.Is(err, state.ErrClosed) {
			t.Errorf("%s: got %v, want ErrClosed", op, err)
		}
	}
}

// holdVariable makes the test binary hold a state directory until it is killed.
const holdVariable = "ONCEWARD_TEST_HOLD_DIRECTORY"

func TestMain(m *testing.M) {
	path := os.Getenv(holdVariable)
	if path == "" {
		os.Exit(m.Run())
	}
	d, err := state.OpenDirectory(path, state.DirectoryOptions{Application: "app"})
	if err != nil {
		os.Stdout.WriteString("failed: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("holding " + d.Instance() + "\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the kill, or the end of the test
}

// TestDirectoryHasOneProcess: a second process is refused in clear words, and a kill frees the
// directory.
func TestDirectoryHasOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holdVariable+"="+path)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	instance, ok := strings.CutPrefix(line, "holding ")
	if err != nil || !ok {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	before := tree(t, path)
	_, err = state.OpenDirectory(path, state.DirectoryOptions{Application: "app"})
	if !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "stop it") {
		t.Errorf("got %v, want ErrLocked with the path and what to do", err)
	}
	if after := tree(t, path); !slices.Equal(before, after) {
		t.Errorf("changed\n%q\nto\n%q", before, after)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := holder.Wait(); err == nil {
		t.Error("the holder ended by itself")
	}
	d := openDirectory(t, path, state.DirectoryOptions{Application: "app"})
	if d.Instance() != strings.TrimSpace(instance) {
		t.Errorf("after the kill the instance is %q, it was %q", d.Instance(), instance)
	}
	// The same process cannot have it twice either.
	_, err = state.OpenDirectory(path, state.DirectoryOptions{Application: "app"})
	if !errors.Is(err, state.ErrLocked) {
		t.Errorf("a second time in one process: got %v, want ErrLocked", err)
	}
}
