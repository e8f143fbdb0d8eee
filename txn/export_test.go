package txn

import (
	"context"
	"time"
)

// WithMetadataMax lowers the length from which on a commit's metadata becomes a record.
func (c Config) WithMetadataMax(n int) Config {
	c.metadataMax = n
	return c
}

// WithClock replaces the clock of the wait after a fence.
func (c Config) WithClock(now func() time.Time, wait func(context.Context, time.Duration) error) Config {
	c.now, c.wait = now, wait
	return c
}
