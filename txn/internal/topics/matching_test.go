package topics_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/topics"
)

// matching reads the topics that begin with "events.", moves their records, and remembers them for
// a time.
func matching(t *testing.T, retention time.Duration) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("app")
	s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String()).Repartition("moved", topology.Partitions(3))
	topology.Stateful(s, "remember").DedupeWindow(retention, false).Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestBind: a source by pattern gets the topics that it matches, keeps those that it had, and
// leaves out a new one that keeps records for longer than a node knows them. A topic that is gone
// is an ErrAbsent.
func TestBind(t *testing.T) {
	const week = 7 * 24 * time.Hour
	c := newCluster(t)
	bind := func(before *topology.Topology, wantRead string, wantLeft ...string) *topology.Topology {
		t.Helper()
		bound, problems, err := topics.Bind(t.Context(), c.Cluster, before)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(bound.Matched(), " "); got != wantRead {
			t.Errorf("%q is read, want %q", got, wantRead)
		}
		var left []string
		for _, p := range problems {
			left = append(left, p.Topic)
			if p.Kind != topics.NotRead || p.Unread != 2 || !strings.Contains(p.Err.Error(), "retention.ms is -1") {
				t.Errorf("the problem is %+v", p)
			}
		}
		if !slices.Equal(left, wantLeft) {
			t.Errorf("%v is left out, want %v", left, wantLeft)
		}
		return bound
	}
	none := bind(matching(t, week), "")
	c.create("events.a", 4, nil)
	c.create("other.a", 4, nil)
	c.create("app-events.x-changelog", 4, nil)
	one := bind(none, "events.a")
	c.create("events.long", 2, map[string]string{"retention.ms": "-1"})
	bind(one, "events.a", "events.long")
	c.set("events.a", "retention.ms", "-1")
	bind(one, "events.a", "events.long") // it was read before: the verification judges it
	c.set("events.a", "retention.ms", "1000")
	c.set("events.long", "retention.ms", "1000")
	two := bind(one, "events.a events.long")
	if got := topics.Fresh(one, two); !slices.Equal(got, []string{"events.long"}) || topics.Gone(one, two) != nil {
		t.Errorf("%v is new, and gone is: %v", got, topics.Gone(one, two))
	}
	c.delete("events.a")
	after := bind(two, "events.long")
	gone := topics.Gone(two, after)
	if !errors.Is(gone, topics.ErrAbsent) || !strings.Contains(gone.Error(), "input events.a: existence is deleted") {
		t.Errorf("what is gone is %v", gone)
	}
	known := topics.Layout{"events.a": {}, "events.long": {}, "in": {}}
	if left := known.Without(two, after); len(left) != 2 || len(known) != 3 {
		t.Errorf("the layout without it is %v", left)
	}
}

// TestBindWithoutPattern asks the cluster nothing.
func TestBindWithoutPattern(t *testing.T) {
	before := app(t)
	if bound, problems, err := topics.Bind(t.Context(), nil, before); bound != before || problems != nil || err != nil {
		t.Errorf("it is %v, %v, %v", bound, problems, err)
	}
}

// TestNeedsOfAPattern: the permissions on inputs are those on their prefix, and outputs are named
// although no topic is known.
func TestNeedsOfAPattern(t *testing.T) {
	needs := func(expression string) (out []string) {
		b := topology.NewBuilder("app")
		topology.FromPattern(b, "events", expression, schemas.String(), schemas.String()).Into(topology.Topic("out", schemas.String(), schemas.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range topics.Needs(top) {
			out = append(out, n.String()+": "+n.Why)
		}
		return out
	}
	for expression, want := range map[string]string{
		`events\..*`: `Read on every Topic that begins with "events.": inputs of the source by pattern events`,
		`(a|b)\..*`:  `Read on Topic "*": inputs of the source by pattern events`,
	} {
		if got := needs(expression); !slices.Contains(got, want) || !slices.Contains(got, `Write on Topic "out": output`) {
			t.Errorf("%s needs %q, want %q and to write the output", expression, got, want)
		}
	}
}
