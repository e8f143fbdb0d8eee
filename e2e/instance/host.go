package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/virtual"
)

// StartOn begins a life of what is otherwise an [Application] in a process of its own. On a virtual
// network it runs on the host of that name, which must have no other life: then it can be killed
// and frozen, and fails as arm says, in the form of [ArmingVariable]. An application on other
// networks has nothing armed.
func StartOn(t testing.TB, c *cluster.Cluster, host string, s Settings, arm string, log *Log) *App {
	t.Helper()
	top, err := s.Topology()
	if err != nil {
		t.Fatal(err)
	}
	cfg := On(c, host, s.Config())
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	h := &hosted{stateDir: cfg.StateDir, Log: log, killed: make(chan struct{})}
	if n := c.Network(); n != nil {
		h.host = n.Host(host)
	}
	if arm != "" {
		if h.host == nil {
			t.Fatalf("arming %q: it would kill and freeze the test's own process", arm)
		}
		if cfg, err = armed(cfg, arm, h.stop); err != nil {
			t.Fatal(err)
		}
	}
	a := Start(t, top, cfg)
	a.hosted = h
	t.Cleanup(h.releaseForGood) // before the application is stopped
	return a
}

// hosted is the host of an application. What happens to a process, happens to the host.
type hosted struct {
	host     *virtual.Host // nil if the network is not virtual
	stateDir string
	Log      *Log // what the application says
	once     sync.Once
	killed   chan struct{} // closed with the kill of the host

	mu   sync.Mutex
	held chan struct{} // what is killed or frozen at a failpoint waits until it is closed; nil if there is nothing
	over bool          // nothing is held any more
}

// stop is called at a failpoint that acts. After a kill or a freeze it holds the goroutine.
func (h *hosted) stop(point, action string) {
	var held chan struct{}
	switch action {
	case "kill":
		h.kill()
		held = h.hold()
	case "freeze":
		h.host.Stall()
		held = h.hold()
	}
	fmt.Fprintf(h.Log, "failpoint %s %s\n", point, action)
	if held != nil {
		<-held
	}
}

// kill ends the host.
func (h *hosted) kill() {
	h.once.Do(func() {
		h.host.Kill()
		close(h.killed)
	})
}

func (h *hosted) hold() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = make(chan struct{})
	}
	if h.over && !Closed(h.held) {
		close(h.held)
	}
	return h.held
}

// releaseForGood releases what is held, and what comes to a failpoint later, such as in the end of
// an application that its test has given up.
func (h *hosted) releaseForGood() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.release()
}

func (h *hosted) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held != nil && !Closed(h.held) {
		close(h.held)
	}
	if !h.over {
		h.held = nil
	}
}

// Kill ends a life of [StartOn] on virtual time as SIGKILL ends a process, unless a failpoint has
// done so, and returns a copy of its state directory from that moment. The next life begins on the
// copy and on another host: the old one does whatever it still does in the old directory, and
// reaches no broker.
func (a *App) Kill() (copied string) {
	a.t.Helper()
	a.kill()
	synctest.Wait()
	copied = filepath.Join(a.t.TempDir(), "state")
	if err := os.CopyFS(copied, os.DirFS(a.stateDir)); err != nil && !errors.Is(err, fs.ErrNotExist) { // it was killed before it made one
		a.t.Fatal(err)
	}
	a.asked.Store(true) // how it ends means nothing
	a.cancel()
	a.releaseForGood()
	return copied
}

// Freeze does to a life of [StartOn] on virtual time what its brokers see of SIGSTOP: nothing
// arrives in either direction. Its timers go on.
func (a *App) Freeze() { a.host.Stall() }

// Thaw ends what [App.Freeze], or a failpoint that freezes, has begun.
func (a *App) Thaw() {
	a.host.Resume()
	a.release()
}
