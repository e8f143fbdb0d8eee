package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestDeadEnd: a way from an outlet whose records cannot die to a node that fails them all is a
// mistake at that node, once, however the records come there; other outlets may lead there, and one
// that comes through a repartition topic too.
func TestDeadEnd(t *testing.T) {
	const because = "nobody is to blame"
	for name, ways := range map[string]struct {
		declare func(undying, other topology.Stream[string, string]) topology.Stream[string, string]
		wrong   bool
	}{
		"at once": {func(undying, _ topology.Stream[string, string]) topology.Stream[string, string] { return undying }, true},
		"behind others": {func(undying, other topology.Stream[string, string]) topology.Stream[string, string] {
			far := undying.Peek("far", func(word) error { return nil })
			return far.Merge("all", undying, other)
		}, true},
		"another outlet": {func(_, other topology.Stream[string, string]) topology.Stream[string, string] { return other }, false},
		"read again": {func(undying, _ topology.Stream[string, string]) topology.Stream[string, string] {
			return topology.RepartitionWith(undying, "again", schemas.String(), schemas.String())
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := topology.NewBuilder("app", topology.DeadLetters("dead"))
			node := topology.Stateful(topology.From(b, wordsTopic), "node")
			node.Process(passive)
			undying := topology.Outlet[string, string](node, "undying")
			undying.NoDeadEnd(because)
			other := topology.Outlet[string, string](node, "other")
			topology.Stateful(ways.declare(undying.Stream(), other.Stream()), "end").DeadEnd().Process(passive)
			_, err := b.Build()
			var mistakes *topology.BuildError
			switch {
			case !ways.wrong && err != nil:
				t.Errorf("it is a mistake: %v", err)
			case !ways.wrong:
			case !errors.As(err, &mistakes) || len(mistakes.Mistakes) != 1:
				t.Errorf("Build returned %v", err)
			default:
				m := mistakes.Mistakes[0]
				if m.Node != "end" || !strings.Contains(m.Err.Error(), "records of the outlet undying of node node (") ||
					!strings.HasSuffix(m.Err.Error(), ": "+because) {
					t.Errorf("the mistake is %v", m)
				}
			}
		})
	}
}

func passive(*topology.Setup) (topology.Handler[string, string], error) {
	return func(*topology.Context, word) error { return nil }, nil
}

// TestDeadEndLate: both are declared before Build, and a reason is given.
func TestDeadEndLate(t *testing.T) {
	b := topology.NewBuilder("app")
	node := topology.Stateful(topology.From(b, wordsTopic), "node")
	node.Process(passive)
	out := topology.Outlet[string, string](node, "out")
	out.NoDeadEnd("")
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), "NoDeadEnd: the reason is empty") {
		t.Errorf("Build returned %v", err)
	}
	node.DeadEnd()
	out.NoDeadEnd("late")
	if _, err := b.Build(); err == nil || strings.Count(fmt.Sprint(err), "declared after Build") != 2 {
		t.Errorf("Build returned %v", err)
	}
}
