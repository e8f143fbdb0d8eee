//go:build unix

package faults

import (
	"errors"
	"os/exec"
	"syscall"

	"github.com/onceward/onceward/e2e/instance"
)

// victim is a life with points armed: an application on a host of its own on virtual time, a process on real Kafka.
type victim struct {
	life
	log *instance.Log
	// hits are closed one after the other, when the lines that tell of them have been logged.
	hits []chan struct{}
	// stop asks for an orderly end.
	stop, freeze, thaw func()
	// killed waits for the end by a point that kills, and returns the state directory of the next life.
	killed func() string
	// failed reports whether what Wait returned is an error of the application.
	failed func(error) bool
}

type life interface {
	Alive() error
	Ended() <-chan struct{}
	// Wait waits for the end, and returns an error unless it was in order.
	Wait() error
}

// startArmed begins a life with points armed. The lines tell of hits.
func (s *crashScene) startArmed(settings crashSettings, arm string, lines ...string) *victim {
	s.t.Helper()
	log := instance.NewLog(s.t, "the armed life")
	v := &victim{log: log, hits: log.Await(lines...)}
	if s.virtual() {
		a := instance.StartOn(s.t, s.cluster, s.hostName(settings), settings, arm, log)
		v.life, v.stop, v.freeze, v.thaw, v.killed = a, a.Cancel, a.Freeze, a.Thaw, a.Kill
		v.failed = func(err error) bool { return err != nil && !errors.Is(err, instance.ErrGoesOn) }
		return v
	}
	p := instance.Launch(s.t, instance.Command(s.t, crashProgram, settings, arm), log)
	tell := func(signal syscall.Signal) func() { return func() { p.Tell(signal) } }
	v.life, v.stop, v.freeze, v.thaw = p, tell(syscall.SIGTERM), tell(syscall.SIGSTOP), tell(syscall.SIGCONT)
	v.killed = func() string {
		p.Killed()
		return settings.StateDir
	}
	v.failed = func(err error) bool {
		var exit *exec.ExitError
		return errors.As(err, &exit) && exit.ExitCode() == 1
	}
	return v
}
