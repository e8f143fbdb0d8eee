package topics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/topics"
)

// joined joins in with a repartitioning of other.
func joined(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("app")
	from := func(name string) topology.Stream[string, string] {
		return topology.From(b, topology.Topic(name, schemas.String(), schemas.String()))
	}
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	both := topology.RepartitionWith(from("other"), "by-value", schemas.String(), schemas.String()).Merge("both", from("in"))
	topology.Process(both, "count", counts, func(
		*topology.Context, state.KeyValue[string, int64], topology.Record[string, string], topology.Emit[string, int64],
	) error {
		return nil
	}).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// merged reads in and other in the same tasks, without state.
func merged(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("app")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	in.Merge("both", topology.From(b, topology.Topic("other", schemas.String(), schemas.String()))).
		Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestInputsThatHaveGrown: changelogs and repartition topics keep the number of partitions that
// they have when inputs gain some, and the layout says which partitions no task reads (rule 11.2).
func TestInputsThatHaveGrown(t *testing.T) {
	for _, test := range []struct {
		name       string
		topology   func(t *testing.T) *topology.Topology
		grown      string
		unassigned string
		refused    string
	}{
		{name: "before a repartition topic", topology: app, grown: "in", unassigned: "map[]"},
		{name: "beside a repartition topic", topology: joined, grown: "in", unassigned: "map[in:3]"},
		{name: "before one that is read with an input", topology: joined, grown: "other", unassigned: "map[]"},
		{name: "one of two without state", topology: merged, grown: "in",
			refused: "in has 6, other has 3; make them equal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.create("other", 3, nil)
			start := func() (topics.Layout, error) {
				plan, err := topics.Check(t.Context(), c.Cluster, test.topology(t), topics.Options{})
				if err != nil {
					return nil, err
				}
				return plan.Ensure(t.Context(), c.Cluster)
			}
			before, err := start()
			if err != nil {
				t.Fatal(err)
			}
			c.grow(test.grown, 6)
			after, err := start()
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Fatalf("the start says %v, want %q", err, test.refused)
				}
				grown := before
				topic := grown[test.grown]
				topic.Partitions = 6
				grown[test.grown] = topic
				if got := grown.Unassigned(test.topology(t)); got[test.grown] != 3 {
					t.Errorf("%v are not read while it runs, want 3 of %s", got, test.grown)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, topic := range after {
				if want := before[name].Partitions; name != test.grown && topic.Partitions != want {
					t.Errorf("%s has %d partitions, want the %d from before", name, topic.Partitions, want)
				}
			}
			if got := fmt.Sprint(after.Unassigned(test.topology(t))); got != test.unassigned {
				t.Errorf("%s are not read, want %s", got, test.unassigned)
			}
		})
	}
}

// TestRepartitionTopicBesideItsState: a repartition topic that has more partitions than the state
// of its reader is refused, whatever the inputs have: nothing would read the further ones.
func TestRepartitionTopicBesideItsState(t *testing.T) {
	c := newCluster(t)
	if _, _, err := c.open(topics.Options{}); err != nil {
		t.Fatal(err)
	}
	c.grow("in", 6)
	c.grow(repartition, 6)
	_, _, err := c.open(topics.Options{})
	if want := repartition + ": the number of partitions is 6 and has to be 3: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the start says %v, want %q", err, want)
	}
}

// grow raises the number of partitions of a topic.
func (c *cluster) grow(name string, partitions int) {
	c.t.Helper()
	resp, err := c.adm.UpdatePartitions(c.t.Context(), partitions, name)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
