package txn

import (
	"context"
	"net/http"
	"time"

	"github.com/onceward/onceward/state/pebblestore"
)

// WithMetadataMax lowers the length from which on a commit's metadata becomes a record.
func (c Config) WithMetadataMax(n int) Config {
	c.metadataMax = n
	return c
}

// WithEmptyMax changes how long a round that sends no record is held back.
func (c Config) WithEmptyMax(d time.Duration) Config {
	c.emptyMax = d
	return c
}

// WithPurgeInterval makes repartition topics be purged more often.
func (c Config) WithPurgeInterval(d time.Duration) Config {
	c.purgeInterval = d
	return c
}

// WithPurgeTurn makes repartition topics be purged whenever turn returns nil. It is called again when that is done.
func (c Config) WithPurgeTurn(turn func(context.Context) error) Config {
	c.purgeTurn = turn
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
	FetchBytes = fetchBytes
	// RevokeWait is how long a revoke waits for the round in flight.
	RevokeWait = revokeWait
)

// Handler answers what the HTTP endpoint is asked.
func (a *App) Handler() http.Handler { return a.handler() }

// NotReady is what /readyz says.
func (a *App) NotReady() []string { return a.notReady() }
