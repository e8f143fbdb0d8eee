package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// SettingsVariable is the environment variable that holds the settings of an [Application], as
// JSON.
const SettingsVariable = "ONCEWARD_PROGRAM_SETTINGS"

// Programs are the programs that a test binary has in it, by name. The binary runs the one whose
// name it is started under, instead of tests. A program that returns exits with 0.
type Programs map[string]func()

// Settings are one instance of an application.
type Settings interface {
	Topology() (*topology.Topology, error)
	Config() txn.Config
}

// Main runs the program whose name the process has. Otherwise it runs the tests of the package as
// [cluster.Main] does. It exits the process. Call it from TestMain.
func Main(m *testing.M, programs Programs, leaks ...goleak.Option) {
	if run := programs[filepath.Base(os.Args[0])]; run != nil {
		run()
		os.Exit(0)
	}
	binaries.programs = programs
	code := cluster.Run(m, leaks...)
	if err := binaries.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Program returns the path of a program that the package's TestMain has given to [Main]. Other
// users may run it too.
func Program(t testing.TB, name string) (path string) {
	t.Helper()
	path, err := binaries.get(name, "", linkSelf)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ProgramOf returns the path of a program of the package as it is when built with the tags, which
// are separated by commas. Building takes seconds, and is done once.
func ProgramOf(t testing.TB, name, tags string) (path string) {
	t.Helper()
	path, err := binaries.get(name, tags, func(path string) error {
		out, err := exec.Command("go", "test", "-c", "-vet", "off", "-tags", tags, "-ldflags=-w", "-o", path, ".").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Application is a program that runs one instance of an application and exits. Its settings are in
// [SettingsVariable], where bench/measure's Command puts them.
//
// It logs on its standard error. The last line says what has ended it and begins with "instance: ".
// SIGTERM ends it in order. It dies at once when its standard input ends, because the test is gone
// then. It fails as [ArmingVariable] says.
func Application[S Settings]() {
	measure.Run(SettingsVariable, runApplication[S])
	fmt.Fprintln(os.Stderr, "instance: there are no settings in", SettingsVariable)
	os.Exit(2)
}

func runApplication[S Settings](s S) error {
	t, err := s.Topology()
	if err != nil {
		return err
	}
	cfg, err := armedByEnvironment(s.Config())
	if err != nil {
		return err
	}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	app, err := txn.New(t, cfg)
	if err != nil {
		return err
	}
	ctx, stop := measure.UntilTold()
	defer stop()
	return app.Run(ctx)
}

// Command returns the command of the [Application] with the name and the settings, which fails as
// arm says, in the form of [ArmingVariable].
func Command(t testing.TB, name string, settings Settings, arm string) *exec.Cmd {
	t.Helper()
	cmd, err := measure.Command(context.Background(), Program(t, name), SettingsVariable, settings) // the test ends it, not a context
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, ArmingVariable+"="+arm)
	return cmd
}

// binaries are the files of this process's programs.
var binaries files

type files struct {
	programs Programs

	mu    sync.Mutex       // held while one is made
	dir   *cluster.TempDir // nil before the first
	paths map[[2]string]string
}

// get returns the path of a program for tags. The first call for both makes the file with create.
func (f *files) get(name, tags string, create func(path string) error) (path string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if path := f.paths[[2]string{name, tags}]; path != "" {
		return path, nil
	}
	if f.programs[name] == nil {
		return "", fmt.Errorf("instance: TestMain has given no program %q to instance.Main", name)
	}
	if f.dir == nil {
		if f.dir, err = cluster.NewTempDir("programs"); err != nil {
			return "", err
		}
		f.paths = map[[2]string]string{}
	}
	dir := f.dir.File(fmt.Sprint(len(f.paths)))
	for _, d := range []string{f.dir.Path(), dir} { // for other users
		if err := os.MkdirAll(d, 0o755); err != nil { //nolint:gosec // see above
			return "", err
		}
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // see above
			return "", err
		}
	}
	path = filepath.Join(dir, name)
	if err := create(path); err != nil {
		return "", fmt.Errorf("instance: making the program %s with tags %q: %w", name, tags, err)
	}
	f.paths[[2]string{name, tags}] = path
	return path, nil
}

func (f *files) remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dir == nil {
		return nil
	}
	return f.dir.Remove()
}

// linkSelf makes the path another name of the running binary. A symbolic link would not do: other
// users may not look into the directory of the binary.
func linkSelf(path string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if os.Link(self, path) == nil {
		return nil
	}
	from, err := os.Open(self) // the directory is on another file system
	if err != nil {
		return err
	}
	defer from.Close()
	// No process is started while the copy is open for writing. A child would hold the file open
	// until its exec, and until then the system would refuse to run the program ("text file busy").
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // for other users
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
