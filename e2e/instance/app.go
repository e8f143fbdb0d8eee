package instance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// ErrGoesOn is what waiting for an end returns that does not come within [Patience].
var ErrGoesOn = errors.New("instance: the application does not end")

var errEnded = errors.New("it has ended by itself")

// App is one life of an application in this process. Its methods may be called from any goroutine.
type App struct {
	*txn.App
	*hosted // nil unless StartOn has begun it
	t       testing.TB
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error       // valid once ended is closed
	asked   atomic.Bool // a test wants to know how it ended
}

// Start begins a life. It fails the test if the configuration is refused.
func Start(t testing.TB, top *topology.Topology, cfg txn.Config) *App {
	t.Helper()
	app, err := txn.New(top, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &App{App: app, t: t, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		a.err = app.Run(ctx)
	}()
	t.Cleanup(func() {
		asked := a.asked.Load()
		if err := a.Stop(); err != nil && (!asked || errors.Is(err, ErrGoesOn)) {
			t.Errorf("the application ended with %v", err)
		}
	})
	return a
}

// On returns the configuration of an instance on a host of a cluster: where the brokers are, and
// how they are reached.
func On(c *cluster.Cluster, host string, cfg txn.Config) txn.Config {
	cfg.Brokers = c.Brokers()
	if dial := c.Dialer(host); dial != nil {
		cfg.Dialer, cfg.NoControl = dial, true
	}
	return cfg
}

// Ended is closed once the life is over.
func (a *App) Ended() <-chan struct{} { return a.ended }

// Alive returns an error if the life is over.
func (a *App) Alive() error {
	select {
	case <-a.ended:
		return errors.Join(errEnded, a.err)
	default:
		return nil
	}
}

// Wait waits for the end and returns what Run returned.
func (a *App) Wait() error {
	a.asked.Store(true)
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-a.ended:
		return a.err
	case <-late.C:
		return ErrGoesOn
	}
}

// Cancel asks for an orderly end, and does not wait for it.
func (a *App) Cancel() { a.cancel() }

// Stop ends the life in order, if it has not ended, and returns what Run returned.
func (a *App) Stop() error {
	a.cancel()
	return a.Wait()
}

// End ends the life in order. It fails the test if that is not how it ends.
func (a *App) End() {
	a.t.Helper()
	if err := a.Stop(); err != nil {
		a.t.Fatalf("the orderly end gave %v", err)
	}
}

// Await waits for something that the life has to come to. It fails the test if the life ends
// before, or if that takes longer than [Patience].
func (a *App) Await(what string, is func() bool) {
	a.t.Helper()
	await(a.t, what, a.Alive, is, func() string { return fmt.Sprintf("%+v", a.Status()) })
}

// Until waits until the status is as wanted. It fails the test if the life ends before, or if that
// takes longer than [Patience].
func (a *App) Until(what string, is func(txn.Status) bool) {
	a.t.Helper()
	a.Await(what, func() bool { return is(a.Status()) })
}
