//go:build unix

package verifyeos

import (
	"flag"
	"testing"

	"github.com/onceward/onceward/e2e/instance"
)

var full = flag.Bool("full", false, "every instance is killed and stopped in every way, as make verify-eos does")

func TestMain(m *testing.M) { instance.Main(m) }
