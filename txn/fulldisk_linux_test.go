package txn_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
)

// tmpfsEnv tells the test process that it has mounts of its own.
const tmpfsEnv = "ONCEWARD_TEST_OWN_MOUNTS"

// TestFullFileSystem is TestFullDisk on a real file system of 4 MiB. It runs in another process,
// which has its own mounts, so that nothing is left mounted. Where no process may mount anything,
// TestFullDisk alone has to do, and this test says so.
func TestFullFileSystem(t *testing.T) {
	if os.Getenv(tmpfsEnv) != "" {
		virtual.Test(t, func(t *testing.T) { testFullDisk(t, tmpfsDisk(t)) })
		return
	}
	again(t, "TestFullDisk is what there is")
}

// again runs the test once more in a process that may mount file systems. If there can be no such
// process, it says what runs instead.
func again(t *testing.T, instead string) {
	t.Helper()
	if !mayMount(t) {
		t.Log("this process may not mount a file system, not even in a namespace of its own: " + instead)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out, err := inOwnMounts(exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v")).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "the disk of the test was full") {
		t.Errorf("the other process had no disk of its own\n%s", out)
	}
}

// TestRemoveOnFullFileSystem: a database is removed, and its space is there again, on a file system
// that takes no byte and no name more.
func TestRemoveOnFullFileSystem(t *testing.T) {
	if os.Getenv(tmpfsEnv) == "" {
		again(t, "nothing tests the removal on a full disk")
		return
	}
	d := tmpfsDisk(t)
	dir, err := state.OpenDirectory(d.stateDir, state.DirectoryOptions{Application: "app"})
	if err != nil {
		t.Fatal(err)
	}
	path, err := dir.TaskPath("in", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "table"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	d.fill()
	names := 0
	for ; err == nil; names++ {
		err = os.Mkdir(filepath.Join(filepath.Dir(d.stateDir), fmt.Sprint("name", names)), 0o700)
	}
	if !errors.Is(err, syscall.ENOSPC) || names == 1 {
		t.Fatalf("%d names were taken: %v", names, err)
	}
	if err := dir.RemoveTask("in", 0); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(d.stateDir, "room"), make([]byte, 32<<10), 0o600); err != nil {
		t.Errorf("there is no room after the removal: %v", err)
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
}

// inOwnMounts makes a command run where it can mount file systems that no other process sees.
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
	if err := syscall.Mount("none", mounted, "tmpfs", 0, "size=4m,nr_inodes=2k"); err != nil {
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
