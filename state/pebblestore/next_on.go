//go:build onceward_next

package pebblestore

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// setNext is the build of the future, for tests of two builds side by side: it tells a minor version and has a key that this build does
// not know.
func setNext(b *pebble.Batch) error {
	return errors.Join(b.Set(formatKey, []byte{formatMajor, 1}, nil), b.Set([]byte("m/next"), []byte("a key of the next build"), nil))
}
