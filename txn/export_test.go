package txn

// WithMetadataMax lowers the length from which on a commit's metadata becomes a record.
func (c Config) WithMetadataMax(n int) Config {
	c.metadataMax = n
	return c
}
