package txn

import (
	"time"

	"github.com/onceward/onceward/state/pebblestore"
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
	FetchBytes = fetchBytes
	// PurgeInterval is how often repartition topics are purged.
	PurgeInterval = purgeInterval
	// RevokeWait is how long a revoke waits for the round in flight.
	RevokeWait = revokeWait
)

// NotReady is what /readyz says.
func (a *App) NotReady() []string { return a.notReady() }
