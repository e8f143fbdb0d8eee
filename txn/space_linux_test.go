package txn_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/state/pebblestore"
)

// tmpfsEnv tells the test process that it has mounts of its own.
const tmpfsEnv = "ONCEWARD_TEST_OWN_MOUNTS"

// TestFullFileSystem is TestFullDisk on a real file system of 4 MiB. It runs in another process, which has its own mounts, so that nothing is
// left mounted. Where no process may mount anything, TestFullDisk alone has to do, and this test says so.
func TestFullFileSystem(t *testing.T) {
	if os.Getenv(tmpfsEnv) != "" {
		testFullDisk(t, tmpfsDisk(t))
		return
	}
	if !mayMount(t) {
		t.Log("this process may not mount a file system, not even in a namespace of its own: TestFullDisk is what there is")
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := inOwnMounts(exec.CommandContext(t.Context(), self, "-test.run=^TestFullFileSystem$", "-test.v")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestFullFileSystem") {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "the disk of the test was full") {
		t.Errorf("the other process had no disk of its own\n%s", out)
	}
}

// inOwnMounts makes a command run where it can mount things that nobody else sees.
func inOwnMounts(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env = append(os.Environ(), tmpfsEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd
}

// mayMount tries it. Only a refusal is an answer.
func mayMount(t *testing.T) bool {
	t.Helper()
	out, err := inOwnMounts(exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "none", t.TempDir())).CombinedOutput()
	if err == nil {
		return true
	}
	var exit *exec.ExitError
	refused := errors.Is(err, fs.ErrPermission) || errors.Is(err, exec.ErrNotFound) || errors.Is(err, syscall.ENOSPC) ||
		errors.As(err, &exit) && strings.Contains(string(out), "ermission")
	if !refused {
		t.Fatalf("trying to mount: %v\n%s", err, out)
	}
	return false
}

// tmpfsDisk mounts a small file system. It vanishes with the process.
func tmpfsDisk(t *testing.T) smallDisk {
	t.Helper()
	mounted := t.TempDir()
	if err := syscall.Mount("none", mounted, "tmpfs", 0, "size=4m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mounted, 0); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(mounted, "filler")
	return smallDisk{
		stateDir: filepath.Join(mounted, "state"),
		fill: func() {
			f, err := os.Create(filler)
			if err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = f.Write(make([]byte, 4<<10))
			}
			if closeErr := f.Close(); !errors.Is(err, syscall.ENOSPC) || closeErr != nil {
				t.Fatal(err, closeErr)
			}
			t.Log("the disk of the test was full")
		},
		free: func() {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		},
		use: func(*pebblestore.Options) {},
	}
}
