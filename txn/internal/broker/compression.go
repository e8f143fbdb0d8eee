package broker

import "github.com/twmb/franz-go/pkg/kgo"

// Compression returns the compression that Kafka's compression.type has a name for, and whether it
// has one.
func Compression(name string) (c kgo.CompressionCodec, ok bool) {
	switch name {
	case "none":
		return kgo.NoCompression(), true
	case "gzip":
		return kgo.GzipCompression(), true
	case "snappy":
		return kgo.SnappyCompression(), true
	case "lz4":
		return kgo.Lz4Compression(), true
	case "zstd":
		return kgo.ZstdCompression(), true
	}
	return c, false
}
