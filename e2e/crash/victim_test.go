//go:build unix

package crash

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/onceward/onceward/e2e/failpoints"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/virtual"
)

// victim is a life with points armed: an application on a host of its own on virtual time, a process on real Kafka.
type victim interface {
	Alive() error
	Ended() <-chan struct{}
	// Wait waits for the end, and returns an error unless it was in order.
	Wait() error
	// failed reports whether what Wait returned is an error of the application.
	failed(err error) bool
	// hit is closed when the n-th of the lines that are waited for has been logged.
	hit(n int) <-chan struct{}
	hits() int
	logged() string
	// stop asks for an orderly end.
	stop()
	freeze()
	thaw()
	// killed waits for the end by a point that kills, and returns the state directory of the next life.
	killed() string
}

// startArmed begins a life with points armed. The lines tell of hits.
func (s *scene) startArmed(settings Settings, arm string, lines ...string) victim {
	s.t.Helper()
	if s.virtual() {
		return s.startApplication(settings, arm, lines...)
	}
	return s.startProcess(settings, arm, lines...)
}

// application is a victim on virtual time. What its failpoints do to a process happens to its host.
type application struct {
	*instance.App
	log   *instance.Log
	lines []chan struct{}
	host  *virtual.Host
	dir   string

	mu     sync.Mutex
	thawed chan struct{} // closed when what is frozen, or killed, at a point goes on
}

func (s *scene) startApplication(settings Settings, arm string, lines ...string) *application {
	s.t.Helper()
	top, err := settings.Topology()
	if err != nil {
		s.t.Fatal(err)
	}
	name := s.hostName(settings)
	a := &application{
		log: instance.NewLog(s.t, "the armed life"), host: s.cluster.Network().Host(name), dir: settings.StateDir,
		thawed: make(chan struct{}),
	}
	a.lines = a.log.Await(lines...)
	cfg := instance.On(s.cluster, name, settings.Config())
	cfg.Logger = slog.New(slog.NewTextHandler(a.log, nil))
	if cfg, err = failpoints.Arm(cfg, arm, a.at); err != nil {
		s.t.Fatal(err)
	}
	a.App = instance.Start(s.t, top, cfg)
	s.t.Cleanup(a.thaw) // before the application is stopped
	return a
}

// at is called at a point that acts.
func (a *application) at(point, action string) {
	switch action {
	case "kill":
		a.host.Kill()
	case "freeze":
		a.host.Stall()
	}
	fmt.Fprintf(a.log, "failpoint %s %s\n", point, action)
	if action != "kill" && action != "freeze" {
		return
	}
	a.mu.Lock()
	thawed := a.thawed
	a.mu.Unlock()
	<-thawed
}

func (a *application) hit(n int) <-chan struct{} { return a.lines[n] }
func (a *application) hits() int                 { return len(a.lines) }
func (a *application) logged() string            { return a.log.String() }
func (a *application) failed(err error) bool {
	return err != nil && !errors.Is(err, instance.ErrGoesOn)
}
func (a *application) stop() { a.Cancel() }

func (a *application) freeze() {
	a.mu.Lock()
	a.thawed = make(chan struct{})
	a.mu.Unlock()
	a.host.Stall()
}

func (a *application) thaw() {
	a.host.Resume()
	a.release()
}

// release lets go on what waits at a point.
func (a *application) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !instance.Closed(a.thawed) {
		close(a.thawed)
	}
}

func (a *application) killed() string {
	dir := a.Kill(a.host, a.dir)
	a.release()
	return dir
}
