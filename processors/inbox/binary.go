package inbox

import (
	"encoding/hex"

	"github.com/onceward/onceward/topology"
)

// hexadecimal returns a function that reads the hexadecimal form of the bytes that id returns. No
// bytes stay no id.
func hexadecimal[K, V any](id func(r topology.Record[K, V]) (string, error)) func(r topology.Record[K, V]) (string, error) {
	if id == nil {
		return nil
	}
	return func(r topology.Record[K, V]) (string, error) {
		raw, err := id(r)
		return hex.EncodeToString([]byte(raw)), err
	}
}
