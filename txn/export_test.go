package txn

import "time"

// WithMetadataMax lowers the length from which on a commit's metadata becomes a record.
func (c Config) WithMetadataMax(n int) Config {
	c.metadataMax = n
	return c
}

// WithPurgeInterval makes repartition topics be purged more often.
func (c Config) WithPurgeInterval(d time.Duration) Config {
	c.purgeInterval = d
	return c
}
