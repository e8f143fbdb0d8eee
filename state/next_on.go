//go:build onceward_next

package state

import (
	"os"
	"strings"
)

// The build of the future, for tests of two builds side by side: its minor version is one higher,
// and it writes a field that this build does not know. If ONCEWARD_NEXT_MAJOR names "state", the
// major version is one higher too. It only exists with the build tag.
const formatMinor = 2

var formatMajor = 1

func init() {
	if strings.Contains(os.Getenv("ONCEWARD_NEXT_MAJOR"), "state") {
		formatMajor++
	}
}

type nextMeta struct {
	Next string `json:"next,omitempty"`
}

func nextMetaNow() nextMeta { return nextMeta{"a field of the next build"} }
