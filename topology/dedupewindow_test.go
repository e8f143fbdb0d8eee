package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

func remembering(s topology.Stream[string, string], name string) *topology.Node[string, string] {
	n := topology.Stateful(s, name)
	n.Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
	})
	return n
}

// TestDedupeWindows: a dedupe window applies to the external topics upstream, also those behind a
// repartitioning, and to no others. It is not part of the fingerprint.
func TestDedupeWindows(t *testing.T) {
	build := func(windows bool) *topology.Topology {
		b := topology.NewBuilder("app")
		from := func(name string) topology.Stream[string, string] {
			return topology.From(b, topology.Topic(name, schemas.String(), schemas.String()))
		}
		z, a, other := from("z"), from("a"), from("other")
		far := remembering(topology.RepartitionWith(z.Merge("both", a), "by-id", schemas.String(), schemas.String()), "far")
		near := remembering(a, "near")
		remembering(other, "elsewhere")
		if windows {
			far.DedupeWindow(time.Hour, false)
			near.DedupeWindow(time.Minute, true)
		}
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	with, without := build(true), build(false)
	if got := fmt.Sprint(with.DedupeWindows()); got != "[{far 1h0m0s false [a z]} {near 1m0s true [a]}]" {
		t.Error(got)
	}
	if got := without.DedupeWindows(); len(got) != 0 {
		t.Error(got)
	}
	if with.Fingerprint() != without.Fingerprint() {
		t.Error("a dedupe window changes the fingerprint")
	}
}

func TestDedupeWindowMistakes(t *testing.T) {
	b := topology.NewBuilder("app")
	n := remembering(topology.From(b, topology.Topic("in", schemas.String(), schemas.String())), "n")
	n.DedupeWindow(0, false).DedupeWindow(time.Hour, false).DedupeWindow(time.Hour, true)
	_, err := b.Build()
	if err == nil || !strings.Contains(err.Error(), "DedupeWindow(0s): the retention must be positive") ||
		!strings.Contains(err.Error(), "DedupeWindow is called twice") {
		t.Error(err)
	}
}
