package txn

import (
	"context"
	"time"

	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/peers"
	"github.com/onceward/onceward/txn/internal/purge"
	"github.com/onceward/onceward/txn/internal/session"
)

// WithMetadataMax lowers the length from which on a commit's metadata becomes a record.
func (c Config) WithMetadataMax(n int) Config {
	c.metadataMax = n
	return c
}

// WithMemberWatch changes how often the member id is compared while nothing is committed.
func (c Config) WithMemberWatch(d time.Duration) Config {
	c.memberWatch = d
	return c
}

// WithDatabases changes the options of the databases.
func (c Config) WithDatabases(change func(*pebblestore.Options)) Config {
	c.databases = change
	return c
}

const (
	// FetchBytes is the most that one fetch brings of a partition.
	FetchBytes = dispatch.FetchBytes
	// PurgeInterval is how often repartition topics are purged.
	PurgeInterval = purge.Interval
	// RevokeWait is how long a revoke waits for the round in flight.
	RevokeWait = session.RevokeWait
)

// NotReady is what /readyz says.
func (a *App) NotReady() []string { return a.notReady() }

// PeersListen returns where an application listens for peers.
func PeersListen(c Config) string { return c.peersListen() }

// FenceSuspect fences an instance of the group as its peers do.
func (a *App) FenceSuspect(ctx context.Context, s peers.Suspect) error {
	a.mu.Lock()
	w := a.mu.in.watch
	a.mu.Unlock()
	return w.fence(ctx, s)
}
