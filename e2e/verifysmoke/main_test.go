//go:build unix

package verifysmoke

import (
	"flag"
	"testing"

	"github.com/onceward/onceward/e2e/instance"
)

var full = flag.Bool("full", false, "every instance is killed and leaves several times, and the negative controls run, as make verify-smoke does")

func TestMain(m *testing.M) { instance.Main(m) }
