//go:build onceward_next

package assign

import (
	"os"
	"strings"
)

// The build of the future, for tests of two builds side by side: its minor version is one higher,
// and it writes a field that this build does not know. If ONCEWARD_NEXT_MAJOR names "plan", the
// major version is one higher too. It only exists with the build tag.
const formatMinor = 4

var formatMajor byte = 1

func init() {
	if strings.Contains(os.Getenv("ONCEWARD_NEXT_MAJOR"), "plan") {
		formatMajor++
	}
}

func appendNext(out []byte) []byte { return appendField(out, 99, []byte("a field of the next build")) }
