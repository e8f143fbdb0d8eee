//go:build onceward_next

package pebblestore

import "errors"

// setNext is the build of the future, for tests of two builds side by side: it tells a minor
// version and has a key that this build does not know. The keys ascend, and are below that of the
// positions, as a table wants them.
func setNext(set func(key, value []byte) error) error {
	return errors.Join(set(formatKey, []byte{formatMajor, 1}), set([]byte("m/next"), []byte("a key of the next build")))
}
