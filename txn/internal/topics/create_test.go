package topics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/topics"
)

// shown are topics with their numbers of partitions, in their order.
func shown(list []topics.NewTopic) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, fmt.Sprintf("%s %s %d %s", n.Use, n.Name, n.Partitions, n.Because))
	}
	return strings.Join(texts, "; ")
}

// TestMissingTopicsAreCreated: the missing topics get the numbers of partitions that the topology
// needs with the existing ones. A second call has nothing to do, and the start takes the topics.
func TestMissingTopicsAreCreated(t *testing.T) {
	for _, test := range []struct {
		name     string
		topology func(t *testing.T) *topology.Topology
		seeded   func(c *cluster)
		opts     topics.CreateOptions
		want     string
	}{
		{"everything", app, func(c *cluster) { c.delete("in", "out", "dead") }, topics.CreateOptions{Partitions: 5},
			"dead-letter topic dead 5 as asked; input in 5 as asked; output out 5 as asked"},
		{"everything, and the internal ones", app, func(c *cluster) { c.delete("in", "out", "dead") },
			topics.CreateOptions{Partitions: 5, Internal: true},
			"dead-letter topic dead 5 as asked; input in 5 as asked; output out 5 as asked; repartition topic app-by-value-repartition 5 as for a start; " +
				"changelog app-counts-changelog 5 as for a start; rounds topic app-rounds 1 as for a start"},
		{"outputs", app, func(c *cluster) { c.delete("out", "dead") }, topics.CreateOptions{},
			"dead-letter topic dead 3 as the input in; output out 3 as the input in"},
		{"one output of two", app, func(c *cluster) { c.delete("out", "dead") }, topics.CreateOptions{Names: []string{"dead"}, Partitions: 1},
			"dead-letter topic dead 1 as asked"},
		{"an input whose changelogs exist", joined, func(c *cluster) {
			c.create("other", 4, nil)
			c.create(changelog, 2, map[string]string{"cleanup.policy": "compact"})
			c.delete("in")
		}, topics.CreateOptions{Partitions: 7}, "input in 2 as the changelogs of by-value"},
		{"an input beside another one", merged, func(*cluster) {}, topics.CreateOptions{Partitions: 7},
			"input other 3 as in, which the same tasks read"},
		{"an input beside a repartition topic", joined, func(c *cluster) {
			c.create("other", 4, nil)
			c.create(repartition, 2, map[string]string{"retention.ms": "-1"})
			c.delete("in")
		}, topics.CreateOptions{Partitions: 7}, "input in 2 as app-by-value-repartition, which the same tasks read"},
		{"nothing", app, func(*cluster) {}, topics.CreateOptions{Partitions: 7}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			test.seeded(c)
			top, before := test.topology(t), c.names()
			missing, err := topics.Prospect(t.Context(), c.Cluster, top, test.opts)
			if err != nil || shown(missing) != test.want {
				t.Fatalf("it would create %s (%v), want %s", shown(missing), err, test.want)
			}
			if c.names() != before {
				t.Error("looking has created topics")
			}
			created, err := topics.Create(t.Context(), c.Cluster, missing)
			if err != nil || shown(created) != test.want {
				t.Fatalf("it has created %s (%v), want %s", shown(created), err, test.want)
			}
			if again, err := topics.Prospect(t.Context(), c.Cluster, top, test.opts); err != nil || len(again) > 0 {
				t.Errorf("the second call would create %s (%v)", shown(again), err)
			}
			if len(test.opts.Names) > 0 {
				return
			}
			plan, err := topics.Check(t.Context(), c.Cluster, top, topics.Options{})
			if err != nil || (len(plan.Missing()) == 0) != test.opts.Internal {
				t.Errorf("the start refuses the topics, or misses internal ones: %v", err)
			}
		})
	}
}

// TestTopicsAreNotGuessed: without a number of partitions, or with topics that contradict each
// other, nothing is created.
func TestTopicsAreNotGuessed(t *testing.T) {
	for _, test := range []struct {
		name     string
		topology func(t *testing.T) *topology.Topology
		seeded   func(c *cluster)
		opts     topics.CreateOptions
		want     string
	}{
		{"no number", app, func(c *cluster) { c.delete("in", "out") }, topics.CreateOptions{},
			"the number of partitions of in, out follows from no other topic: choose it (--partitions)"},
		{"a topic of another topology", app, func(*cluster) {}, topics.CreateOptions{Names: []string{"inn"}},
			"topology app has no topic inn; it has dead, in, out"},
		{"internal topics before those of the user", app, func(c *cluster) { c.delete("out", "dead") },
			topics.CreateOptions{Names: []string{"out"}, Internal: true}, "internal topics need all topics of the user, and dead would still be missing"},
		{"inputs of one task with two numbers", merged, func(c *cluster) { c.create("other", 4, nil); c.delete("out") },
			topics.CreateOptions{}, "different numbers of partitions: in has 3, other has 4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			test.seeded(c)
			_, err := topics.Prospect(t.Context(), c.Cluster, test.topology(t), test.opts)
			if _, ok := errors.AsType[*topics.CreateError](err); !ok || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

// TestExistingTopicIsNotAltered: a topic that appears between the look and the creation stays as it
// is, and is not listed as created.
func TestExistingTopicIsNotAltered(t *testing.T) {
	c := newCluster(t)
	c.delete("out")
	missing, err := topics.Prospect(t.Context(), c.Cluster, app(t), topics.CreateOptions{})
	if err != nil || len(missing) != 1 {
		t.Fatal(shown(missing), err)
	}
	c.create("out", 1, map[string]string{"retention.ms": "1000"})
	created, err := topics.Create(t.Context(), c.Cluster, missing)
	if err != nil || len(created) > 0 {
		t.Errorf("it has created %s (%v)", shown(created), err)
	}
	found, _, err := c.Topics(t.Context(), []string{"out"})
	if out := found["out"]; err != nil || out.Partitions != 1 || out.Settings["retention.ms"].Value != "1000" {
		t.Errorf("the topic is %+v (%v)", out, err)
	}
}

// TestCreatedTopicsFitTheStart: what the start compares of the user's topics is set: the retention
// in front of an inbox, and how a topic is compacted that a table is restored from.
func TestCreatedTopicsFitTheStart(t *testing.T) {
	for name, test := range map[string]struct {
		topology *topology.Topology
		topic    string
		settings map[string]string
	}{
		"a short dedupe window": {remembering(t, time.Hour, false), "in", map[string]string{"retention.ms": "3600000"}},
		"a long dedupe window":  {remembering(t, 30*24*time.Hour, false), "in", map[string]string{}},
		"a tolerated one":       {remembering(t, time.Hour, true), "in", map[string]string{}},
		"a restored table": {restored(t), "in", map[string]string{
			"cleanup.policy": "compact", "min.compaction.lag.ms": "604800000", "delete.retention.ms": "604800000",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.delete("in")
			missing, err := topics.Prospect(t.Context(), c.Cluster, test.topology, topics.CreateOptions{Partitions: 2})
			if err != nil || len(missing) != 1 || missing[0].Name != test.topic {
				t.Fatal(shown(missing), err)
			}
			if got, want := fmt.Sprint(missing[0].Settings), fmt.Sprint(test.settings); got != want {
				t.Errorf("the settings are %s, want %s", got, want)
			}
			if _, err := topics.Create(t.Context(), c.Cluster, missing); err != nil {
				t.Fatal(err)
			}
			if _, err := topics.Check(t.Context(), c.Cluster, test.topology, topics.Options{}); err != nil {
				t.Errorf("the start refuses what was created: %v", err)
			}
		})
	}
}

// restored has a table that is restored from its topic.
func restored(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("app")
	rows := topology.TimestampedStore("rows", schemas.String(), schemas.String())
	topology.TableFrom(b, topology.Topic("in", schemas.String(), schemas.String()), rows, topology.RestoreFromTopic())
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestReplicasAreSet: the replicas and their least number in sync are those of the options, in
// topics of the user and internal ones.
func TestReplicasAreSet(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(3))
	c.delete("out")
	opts := topics.CreateOptions{Internal: true, Options: topics.Options{Replicas: 3, InSyncMin: 2}}
	missing, err := topics.Prospect(t.Context(), c.Cluster, app(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Create(t.Context(), c.Cluster, missing); err != nil {
		t.Fatal(err)
	}
	found, _, err := c.Topics(t.Context(), []string{"out", changelog, repartition, rounds})
	if err != nil || len(found) != 4 {
		t.Fatal(found, err)
	}
	wantThree := func(name string) {
		t.Helper()
		if info := found[name]; info.Replicas != 3 || info.Settings["min.insync.replicas"].Value != "2" {
			t.Errorf("%s is %+v", name, info)
		}
	}
	for name := range found {
		wantThree(name)
	}

	// Without options an internal topic is as the rounds topic.
	c.delete(changelog)
	if missing, err = topics.Prospect(t.Context(), c.Cluster, app(t), topics.CreateOptions{Internal: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Create(t.Context(), c.Cluster, missing); err != nil {
		t.Fatal(err)
	}
	if found, _, err = c.Topics(t.Context(), []string{changelog}); err != nil {
		t.Fatal(err)
	}
	wantThree(changelog)
}
