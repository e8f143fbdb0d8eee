package instance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/e2e/cluster"
)

// Main runs a package's tests as [cluster.Main] does, and removes the programs that they have had built. Call it from TestMain.
func Main(m *testing.M, leaks ...goleak.Option) {
	code := cluster.Run(m, leaks...)
	if err := built.remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Build returns the path of the program of a package, built with the tags, which are separated by commas. It is built once for all tests of
// the process, because linking takes seconds. The package's TestMain must call [Main].
func Build(t testing.TB, program, tags string) (path string) {
	t.Helper()
	path, err := built.get(program, tags)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// built are the programs of this process.
var built builds

type builds struct {
	mu       sync.Mutex // held while something is built
	dir      string     // "" before the first
	programs map[[2]string]string
}

func (b *builds) get(program, tags string) (path string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if path := b.programs[[2]string{program, tags}]; path != "" {
		return path, nil
	}
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "onceward-build-"); err != nil {
			return "", err
		}
		if err := os.Chmod(b.dir, 0o755); err != nil { //nolint:gosec // a process may run as another user
			return "", err
		}
		b.programs = map[[2]string]string{}
	}
	path = filepath.Join(b.dir, fmt.Sprint("program-", len(b.programs)))
	out, err := exec.Command("go", "build", "-tags", tags, "-ldflags=-w", "-o", path, program).CombinedOutput() // outlives the test that asks first
	if err != nil {
		return "", fmt.Errorf("building %s with tags %q: %w\n%s", program, tags, err, out)
	}
	b.programs[[2]string{program, tags}] = path
	return path, nil
}

func (b *builds) remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}
