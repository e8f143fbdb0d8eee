package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/instance"
)

// full fills the disk of a process up, and makes room again: its tasks wait for it, and go on by themselves. The process has a file system
// of its own, which nobody else sees and which vanishes with it.
func full(s *scene) {
	if err := os.MkdirAll(s.settings.StateDir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	s.settings.Patient = true // the wait that is looked for is one within a session
	cmd, err := measure.Command(context.Background(), "/bin/sh", instance.SettingsVariable, s.settings)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Args = append(cmd.Args, "-c", `mount -t tmpfs -o size=64m none "$0" && exec "$1"`, s.settings.StateDir,
		instance.Program(s.t, pipelineProgram))
	ownMounts(cmd)
	p := instance.Launch(s.t, cmd, instance.NewLog(s.t, "the process with a small disk"))
	s.more(everything)
	ended := func() bool { return p.Alive() != nil }
	s.until("the first facts, or a process that may not mount", func() error { return nil }, func() error {
		if ended() {
			return nil
		}
		return s.finished()
	})
	if ended() {
		if !strings.Contains(p.Log.String(), "ermission") {
			s.t.Fatal(p.Err())
		}
		s.t.Log("no process may mount a file system here: the disk is full in the tests of package txn alone")
		return
	}
	// The process's view of the file systems, from outside.
	filler := filepath.Join("/proc", fmt.Sprint(cmd.Process.Pid), "root", s.settings.StateDir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		s.t.Fatal(err)
	}
	for err == nil {
		_, err = io.WriteString(f, strings.Repeat("x", 4<<10))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		s.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		s.t.Fatal(err)
	}
	said := func(words string) bool { return len(p.Log.Lines(words)) > 0 }
	for !said("tasks wait for space on the disk") {
		s.more(everything)
		s.until("a task that waits, or the end of what was fed", p.Alive, func() error {
			if said("tasks wait for space on the disk") {
				return nil
			}
			return s.finished()
		})
	}
	s.more(everything)
	if err := os.Remove(filler); err != nil {
		s.t.Fatal(err)
	}
	s.finish(p.Alive)
	if !said("the disk has space again") {
		s.t.Error("no task has waited for the disk: nothing is shown")
	}
	p.Stop()
	s.whole() // the disk is gone: everything is restored
}

// ownMounts makes a command run where it can mount things that nobody else sees.
func ownMounts(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
}
