//go:build onceward_next

package task

import (
	"os"
	"strings"
)

// metadataMajor is that of the build of the future, for tests of two builds side by side: it is
// higher if ONCEWARD_NEXT_MAJOR names "metadata". It only exists with the build tag.
var metadataMajor = 1

func init() {
	if strings.Contains(os.Getenv("ONCEWARD_NEXT_MAJOR"), "metadata") {
		metadataMajor++
	}
}

// appendNext adds a field that this build does not know.
func appendNext(out []byte) []byte { return append(out, 99, 4, 'n', 'e', 'x', 't') }
