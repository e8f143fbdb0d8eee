package instance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

// Victim is one life of an [Application] to which faults happen from outside and at armed points:
// on virtual time an [App] on a host of its own, on real Kafka and on the embedded broker a
// [Process].
type Victim interface {
	Alive() error
	Ended() <-chan struct{}
	// Wait waits for the end, and returns an error unless it was in order.
	Wait() error
	// Failed reports whether what Wait has returned is an error of the application.
	Failed(err error) bool
	Await(what string, is func() bool)
	// Status is zero while the life does not answer.
	Status() txn.Status
	// Cancel asks for an orderly end.
	Cancel()
	// End ends the life in order. It fails the test if that is not how it ends.
	End()
	Freeze()
	// Thaw ends a freeze, that of a point too.
	Thaw()
	Kill()
	// Killed waits for the end by Kill or by a point that kills, and returns the state directory of
	// the next life. It fails the test if the life ends in another way.
	Killed() (stateDir string)
}

// StartVictim begins a life of the program with the settings, which fails as arm says, in the form
// of [ArmingVariable]. On virtual time it is on the host of that name. It writes to the log.
func StartVictim(t testing.TB, c *cluster.Cluster, program, host string, s Settings, arm string, log *Log) Victim {
	t.Helper()
	if c.Kind() == cluster.KindVirtual {
		return victimApp{StartOn(t, c, host, s, arm, log)}
	}
	return victimProcess{Launch(t, Command(t, program, s, arm), log), s.Config().StateDir}
}

type victimProcess struct {
	*Process
	stateDir string
}

func (p victimProcess) Cancel() { p.Tell(syscall.SIGTERM) }
func (p victimProcess) End()    { p.Stop() }
func (p victimProcess) Freeze() { p.Tell(stopSignal) }
func (p victimProcess) Kill()   { p.Tell(os.Kill) }

// Thaw waits until the process stands still. A point says in the log that it freezes before it
// does, and a signal to continue that comes in between has no effect.
func (p victimProcess) Thaw() {
	p.t.Helper()
	p.Await("the process to stand still", func() bool { return standsStill(p.Pid()) })
	p.Tell(continueSignal)
}

// standsStill reports whether a process is stopped by a signal. Without /proc it says yes at once.
func standsStill(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name of the program is in parentheses
	return strings.HasPrefix(after, "T")
}

func (p victimProcess) Killed() (stateDir string) {
	p.t.Helper()
	p.Process.Killed()
	return p.stateDir
}

// Failed reports whether the program has ended as it does when the application returns an error.
func (victimProcess) Failed(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 1
}

func (p victimProcess) Status() txn.Status {
	ctx, cancel := context.WithTimeout(p.t.Context(), Patience)
	defer cancel()
	status, err := txn.InstanceStatus(ctx, p.stateDir)
	if err != nil {
		return txn.Status{}
	}
	return status
}

// victimApp is a life on virtual time. What points do to a process happens to its host.
type victimApp struct{ *App }

func (v victimApp) Kill() { v.kill() }

func (v victimApp) Killed() (stateDir string) {
	v.t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-v.killed:
	case <-v.ended:
		if !Closed(v.killed) {
			v.t.Fatalf("the application was to be killed, and ended with %v", v.err)
		}
	case <-late.C:
		v.t.Fatal(ErrGoesOn)
	}
	return v.App.Kill()
}

// Failed reports whether the application has returned an error.
func (victimApp) Failed(err error) bool { return err != nil && !errors.Is(err, ErrGoesOn) }
