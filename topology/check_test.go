package topology_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/topology"
)

// TestCheck: a check runs once, when everything is declared, and its error is a mistake in the
// declaration of its node.
func TestCheck(t *testing.T) {
	b := topology.NewBuilder("app")
	n := topology.Stateful(topology.From(b, wordsTopic), "node")
	out := topology.Outlet[string, string](n, "out")
	ran := 0
	n.Check(func() error {
		ran++
		if out.Connected() {
			return errors.New("it is used")
		}
		return nil
	})
	n.Check(func() error { return nil })
	n.Check(nil)
	n.Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, word) error { return nil }, nil
	})
	out.Stream().Into(outTopic)
	for range 2 {
		_, err := b.Build()
		var failed *topology.BuildError
		if !errors.As(err, &failed) || len(failed.Mistakes) != 2 || failed.Mistakes[0].Node != "node" || failed.Mistakes[1].Node != "node" ||
			failed.Mistakes[1].Err.Error() != "it is used" || failed.Mistakes[1].Line != failed.Mistakes[0].Line {
			t.Errorf("Build returned %v", err)
		}
	}
	if ran != 1 {
		t.Errorf("the check ran %d times", ran)
	}
	n.Check(func() error { return nil })
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "declared after Build") {
		t.Errorf("a check after Build: %v", err)
	}
}
