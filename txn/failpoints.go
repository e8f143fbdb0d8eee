//go:build onceward_failpoints

package txn

import (
	"context"
	"errors"
	"net"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn/internal/failpoint"
)

// ErrInjected is what the function of [Config.WithFailpoints] returns where the outcome of a
// request is not to be known. It only exists with the build tag onceward_failpoints.
var ErrInjected = failpoint.ErrInjected

// ErrRefused is ErrInjected with a known outcome: the broker refused. It means the same where the
// difference means nothing. It only exists with the build tag onceward_failpoints.
var ErrRefused = failpoint.ErrRefused

// WithFailpoints returns a configuration for tests. The application calls hit at each point of
// [Failpoints] that it comes to, from the goroutine that comes there; hit may wait, return
// ErrInjected or ErrRefused, or end the process. With hit set, databases go to the disk after every
// few rounds, empty rounds are committed and repartition topics purged early, so that short tests
// reach all points. Nil is no function.
//
// broken names the mechanisms of the runtime that do not work, for negative controls: uncommitted,
// offsets, early, apply, restore, age, look, identity, removal, live, globals-first or
// globals-position. With any of them
// transactions stay open 200 ms longer, so that a kill meets them. [New] refuses other names.
//
// It only exists with the build tag onceward_failpoints.
func (c Config) WithFailpoints(hit func(ctx context.Context, point string) error, broken ...string) Config {
	c.failpoints = failpoint.New(hit, broken)
	return c
}

// WithDisk returns a configuration for tests whose databases lie on a file system of the test's:
// use changes the options of each. It only exists with the build tag onceward_failpoints.
func (c Config) WithDisk(use func(*pebblestore.Options)) Config {
	c.databases = use
	return c
}

// WithPeerNetwork returns a configuration for tests whose instances reach each other over a network
// of the test's. It only exists with the build tag onceward_failpoints.
func (c Config) WithPeerNetwork(
	listen func() (net.Listener, error), dial func(ctx context.Context, network, address string) (net.Conn, error),
) Config {
	c.peerNetwork.listen, c.peerNetwork.dial = listen, dial
	return c
}

// FencePeer has the application fence another instance as if it had taken it for dead. That
// instance may live. The error says that it was not fenced, because the two have never been
// connected, or because a request failed. It only exists with the build tag onceward_failpoints.
func (a *App) FencePeer(ctx context.Context, instance string) error {
	_, in := a.membership()
	if in == nil {
		return errors.New("the application is not at work")
	}
	suspect, known := in.watch.peers.Known(instance)
	if !known {
		return errors.New("the two have never been connected")
	}
	return in.watch.fence(ctx, suspect)
}

// Failpoints returns the names of all points, in the order of a life. It only exists with the build
// tag onceward_failpoints.
func Failpoints() []string {
	var names []string
	for _, p := range failpoint.Points {
		names = append(names, string(p))
	}
	return names
}
