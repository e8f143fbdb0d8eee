package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/txn"
)

// instance is an identity of the application that lives again and again. Its methods are called by
// the nemesis alone, one at a time.
type instance struct {
	r       *run
	name    string
	workers int
	dir     string // of the life that goes on, or of the next one
	disk    *disktest.Disk
	lives   int
	life    *life // nil while it is down
}

// life is an application that runs, on a host of its own.
type life struct {
	instance *instance
	name     string
	app      *txn.App
	host     *virtual.Host
	cancel   context.CancelFunc
	ended    chan struct{}
	err      error // valid once ended is closed
	// released lets calls that wait at a failpoint continue: the incarnation is over for all
	// others.
	released chan struct{}
	release  func()
	// ran says that it was seen running. disturbed is when the last fault of its network is healed:
	// a start, or an end in order, may fail until a while after that.
	ran       bool
	disturbed time.Time
	// struckAt is the last failpoint that acted.
	struckAt atomic.Value
	// armed is what happens at the next hit of a failpoint, nil for nothing.
	armed atomic.Pointer[strike]
}

// struck returns the last failpoint that acted, "" if there is none.
func (l *life) struck() string {
	point, _ := l.struckAt.Load().(string)
	return point
}

// strike is what happens at a failpoint.
type strike struct {
	fault  string
	point  string
	skip   int // hits that pass before
	action string
	wait   time.Duration
	mu     sync.Mutex
	hits   int
}

// The actions at a failpoint.
const (
	actKill   = "kill"
	actError  = "error"
	actRefuse = "refuse"
	actDelay  = "delay"
	actStall  = "stall"
)

// start begins a life.
func (i *instance) start() error {
	i.lives++
	l := &life{
		instance: i, name: fmt.Sprintf("%s.%d", i.name, i.lives), ended: make(chan struct{}), released: make(chan struct{}),
	}
	l.release = sync.OnceFunc(func() { close(l.released) })
	l.host = i.r.network.Host(l.name)
	cfg := txn.Config{
		Brokers: i.r.kafka.Brokers(), StateDir: i.dir, Instance: i.name, Workers: i.workers, CacheBytes: 8 << 20, Standbys: i.r.cfg.Standbys,
		Dialer: l.host.Dial, NoControl: true, Logger: slog.New(&traceHandler{run: i.r, who: l.name}),
	}
	cfg = onDisk(cfg, i.disk)
	if i.r.cfg.Peers {
		cfg = onNetwork(cfg, l.host, i.r.address())
	}
	var hit func(context.Context, string) error
	if i.r.cfg.Failpoints {
		hit = l.hit
	}
	if hit != nil || len(i.r.cfg.Broken) > 0 {
		var err error
		if cfg, err = arm(cfg, hit, i.r.cfg.Broken); err != nil {
			return err
		}
	}
	app, err := txn.New(i.r.subject.Topology(), cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.app, l.cancel = app, cancel
	i.r.event("started", l.name)
	i.life = l
	go func() {
		defer close(l.ended)
		l.err = app.Run(ctx)
	}()
	if i.r.cfg.Standbys > 0 {
		i.r.dead.Go(l.judgeCopies)
	}
	return nil
}

// stopMax is how long an orderly end may take. Each of its steps has a timeout below that.
const stopMax = 10 * time.Minute

// stop ends the life in order, and returns what Run returned.
func (i *instance) stop() error {
	l := i.life
	i.life = nil
	i.r.event("stopped", l.name)
	l.cancel()
	l.release()
	select {
	case <-l.ended:
	case <-time.After(stopMax):
		return fmt.Errorf("%s was stopped and has not ended within %s", l.name, stopMax)
	}
	if l.err != nil {
		return fmt.Errorf("%s was stopped and ended with %w", l.name, l.err)
	}
	return nil
}

// alive returns an error if the life has ended by itself.
func (l *life) alive() error {
	select {
	case <-l.ended:
		return fmt.Errorf("%s has ended by itself: %w", l.name, errors.Join(errUnasked, l.err))
	default:
		return nil
	}
}

var errUnasked = errors.New("it was not stopped")

// kill ends the incarnation as SIGKILL does. The directory of the next one is a copy of the present
// state. It returns a second copy for a look at the databases, if dumped.
func (i *instance) kill(dumped bool) (copied string, err error) {
	l := i.life
	i.life = nil
	i.r.event("killed", l.name)
	l.host.Kill()
	synctest.Wait()
	defer func() {
		l.cancel()
		l.release()
		i.r.dead.Go(func() { <-l.ended }) // what it does from here on, it does alone
	}()
	next := i.r.newDir()
	if err := copyState(next, i.dir); err != nil {
		return "", err
	}
	if dumped {
		copied = i.r.newDir()
		if err := copyState(copied, i.dir); err != nil {
			return "", err
		}
	}
	i.dir = next
	return copied, nil
}

// lose empties the directory of the next incarnation.
func (i *instance) lose() {
	i.r.event("lost its state directory", i.name)
	i.dir = i.r.newDir()
}

func copyState(to, from string) error {
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return nil // killed before it made the directory
	}
	return os.CopyFS(to, os.DirFS(from))
}

// newDir returns the path of a directory that does not exist yet.
func (r *run) newDir() string {
	r.dirs++
	return filepath.Join(r.dir, fmt.Sprint("state-", r.dirs))
}

// hit acts at a failpoint.
func (l *life) hit(ctx context.Context, point string) error {
	s := l.armed.Load()
	if s == nil || s.point != point {
		return nil
	}
	s.mu.Lock()
	s.hits++
	now := s.hits == s.skip+1
	s.mu.Unlock()
	if !now {
		return nil
	}
	l.armed.CompareAndSwap(s, nil)
	l.instance.r.event("failpoint "+point+" "+s.action, l.name)
	l.instance.r.acted(s)
	l.struckAt.Store(point)
	switch s.action {
	case actKill:
		select {
		case l.instance.r.strikes <- l:
		case <-l.released:
		}
		<-l.released // nothing follows this point before the process is gone
		return errUnknown
	case actError:
		return errUnknown
	case actRefuse:
		return errRefused
	case actDelay:
		select {
		case <-time.After(s.wait):
		case <-ctx.Done():
		case <-l.released:
		}
	case actStall:
		select {
		case <-time.After(s.wait):
		case <-l.released:
		}
	}
	return nil
}

// traceHandler writes the warnings and errors of an application into the trace.
type traceHandler struct {
	run   *run
	who   string
	attrs []slog.Attr
}

func (h *traceHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (h *traceHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String() + " " + r.Message
	for _, a := range h.attrs {
		text += " " + a.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	h.run.network.Trace().Logf(h.who, "%s", text)
	h.run.judgeRemoval(h.who, r)
	switch r.Message {
	case "a peer was fenced":
		h.run.count(FencedByPeer)
	case "a peer was fenced in vain: it is alive":
		h.run.count(FencedInVain)
	}
	return nil
}

// judgeRemoval finds a membership that ended although no peer and no fault had a reason to end it.
func (r *run) judgeRemoval(who string, record slog.Record) {
	if !r.cfg.Removals {
		return
	}
	attr := func(key string) (value string) {
		record.Attrs(func(a slog.Attr) bool {
			if a.Key == key {
				value = a.Value.String()
			}
			return true
		})
		return value
	}
	r.mu.Lock()
	wrong := false
	switch record.Message {
	case "peers connect with this instance":
		r.incarnations[who] = attr("incarnation")
	case "a peer is suspected":
		r.suspected[attr("incarnation")] = true
	case "the membership ended and is begun again":
		wrong = strings.Contains(attr("error"), kerr.UnknownMemberID.Message) && !r.suspected[r.incarnations[who]]
	}
	r.mu.Unlock()
	if wrong {
		r.found("%s was removed from its group, and no peer has suspected it", who)
	}
}

func (h *traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &traceHandler{h.run, h.who, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func (h *traceHandler) WithGroup(string) slog.Handler { return h }
