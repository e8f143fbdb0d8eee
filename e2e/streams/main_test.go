package streams

import (
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }
