package txn

// Compression is how an application compresses the batches that it writes, by the names of Kafka's
// compression.type. Batches are read whatever their compression is, so the setting can be changed
// at any restart.
type Compression string

// The compressions.
const (
	Uncompressed Compression = "none"
	Gzip         Compression = "gzip"
	Snappy       Compression = "snappy"
	LZ4          Compression = "lz4"
	Zstd         Compression = "zstd"
)
