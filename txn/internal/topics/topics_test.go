package topics_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/leaktest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/topics"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	changelog   = "app-counts-changelog"
	repartition = "app-by-value-repartition"
	rounds      = "app-rounds"
)

// app reads in (3 partitions), repartitions it, counts and writes out; dead letters go to dead.
func app(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	byValue := topology.RepartitionWith(topology.From(b, topology.Topic("in", schemas.String(), schemas.String())), "by-value",
		schemas.String(), schemas.String())
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(byValue, "count", counts, func(
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

type cluster struct {
	*broker.Cluster
	t   *testing.T
	cl  *kgo.Client
	adm *kadm.Client
}

func newCluster(t *testing.T, opts ...kfake.Opt) *cluster {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "in", "out", "dead")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	c, err := broker.Connect(t.Context(), broker.Config{Brokers: fake.ListenAddrs(), Logger: slog.New(slog.DiscardHandler)}, "app")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &cluster{c, t, cl, kadm.NewClient(cl)}
}

func (c *cluster) create(name string, partitions int32, configs map[string]string) {
	c.t.Helper()
	c.createWith(name, partitions, 1, configs)
}

func (c *cluster) createWith(name string, partitions int32, replicas int16, configs map[string]string) {
	c.t.Helper()
	all := map[string]*string{}
	for k, v := range configs {
		all[k] = &v
	}
	if _, err := c.adm.CreateTopic(c.t.Context(), partitions, replicas, all, name); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) set(name, key, value string) {
	c.t.Helper()
	resp, err := c.adm.AlterTopicConfigs(c.t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, name)
	if err == nil {
		_, err = resp.On(name, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) names() string {
	c.t.Helper()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(c.t.Context(), c.cl) // not from the client's cache, as kadm would
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, topic := range resp.Topics {
		names = append(names, *topic.Topic)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (c *cluster) open(opts topics.Options) (*topics.Plan, topics.Layout, error) {
	c.t.Helper()
	plan, err := topics.Check(c.t.Context(), c.Cluster, app(c.t), opts)
	if err != nil {
		return nil, nil, err
	}
	layout, err := plan.Ensure(c.t.Context(), c.Cluster)
	return plan, layout, err
}

// TestCreate compares what is created with what is needed, value by value, and finds it right the
// next time.
func TestCreate(t *testing.T) {
	c := newCluster(t)
	c.set("in", "max.message.bytes", "5000000")
	_, layout, err := c.open(topics.Options{Replicas: 1, InSyncMin: 1})
	if err != nil {
		t.Fatal(err)
	}
	found, hidden, err := c.Topics(t.Context(), []string{changelog, repartition, rounds})
	if err != nil || len(hidden) > 0 {
		t.Fatal(err, hidden)
	}
	for topic, want := range map[string]map[string]string{
		changelog: {"cleanup.policy": "compact", "delete.retention.ms": "604800000", "message.timestamp.type": "CreateTime",
			"max.message.bytes": "5000000", "min.insync.replicas": "1"},
		repartition: {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "CreateTime",
			"max.message.bytes": "5000000"},
		rounds: {"cleanup.policy": "compact", "delete.retention.ms": "604800000", "max.message.bytes": "1048588"},
	} {
		for key, value := range want {
			if got := found[topic].Settings[key].Value; got != value {
				t.Errorf("%s has %s %q, want %q", topic, key, got, value)
			}
		}
	}
	for topic, partitions := range map[string]int32{changelog: 3, repartition: 3, rounds: 1, "in": 3} {
		if layout[topic].Partitions != partitions || layout[topic].ID == [16]byte{} || layout[topic].MaxMessageBytes == 0 {
			t.Errorf("%s is %+v, want %d partitions, an id and a size", topic, layout[topic], partitions)
		}
	}
	if _, _, err := c.open(topics.Options{}); err != nil {
		t.Errorf("what was created is refused: %v", err)
	}
}

// TestCreateAsRounds: a tool creates what is missing with the replicas of the rounds topic, and
// what that sets, so that a start takes it. With what is there it compares nothing of it: of that,
// the application alone knows how much is enough.
func TestCreateAsRounds(t *testing.T) {
	for set, inSync := range map[string]int{"2": 2, "": 0} {
		c := newCluster(t, kfake.NumBrokers(5))
		configs := map[string]string{"cleanup.policy": "compact"}
		if set != "" {
			configs["min.insync.replicas"] = set
		}
		c.createWith(rounds, 1, 4, configs)
		c.create(changelog, 3, map[string]string{"cleanup.policy": "compact"})
		if _, _, err := c.open(topics.Options{AsRounds: true}); err != nil {
			t.Fatal(err)
		}
		found, _, err := c.Topics(t.Context(), []string{repartition})
		if err != nil {
			t.Fatal(err)
		}
		if now := found[repartition]; now.Replicas != 4 || now.Settings["min.insync.replicas"].Own != (set != "") {
			t.Errorf("with min.insync.replicas %q of the rounds topic it is %+v", set, now)
		}
		_, _, err = c.open(topics.Options{Replicas: 4, InSyncMin: inSync})
		if err == nil || !strings.Contains(err.Error(), changelog) || strings.Contains(err.Error(), repartition) {
			t.Errorf("the start says %v, want something of the changelog alone", err)
		}
	}
}

// TestMismatch changes one thing at a time: each is refused with name, found and needed, and
// nothing is created.
func TestMismatch(t *testing.T) {
	compact := map[string]string{"cleanup.policy": "compact"}
	keep := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}
	for _, test := range []struct {
		name    string
		prepare func(c *cluster)
		opts    topics.Options
		want    string
	}{
		{"changelog partitions", func(c *cluster) { c.create(changelog, 4, compact) }, topics.Options{},
			"changelog app-counts-changelog: the number of partitions is 4 and has to be 3: "},
		{"repartition partitions", func(c *cluster) { c.create(repartition, 4, keep) }, topics.Options{},
			"repartition topic app-by-value-repartition: the number of partitions is 4 and has to be 3: "},
		{"rounds partitions", func(c *cluster) { c.create(rounds, 2, compact) }, topics.Options{},
			"rounds topic app-rounds: the number of partitions is 2 and has to be 1: "},
		{"changelog deletes", func(c *cluster) { c.create(changelog, 3, nil) }, topics.Options{},
			"changelog app-counts-changelog: cleanup.policy is delete and has to be compact: state would be lost; change the topic's configuration"},
		{"changelog deletes too", func(c *cluster) { c.create(changelog, 3, map[string]string{"cleanup.policy": "compact,delete"}) },
			topics.Options{}, "cleanup.policy is compact,delete and has to be compact: "},
		{"rounds delete", func(c *cluster) { c.create(rounds, 1, nil) }, topics.Options{},
			"rounds topic app-rounds: cleanup.policy is delete and has to be compact: "},
		{"repartition compacts", func(c *cluster) {
			c.create(repartition, 3, map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"})
		}, topics.Options{}, "cleanup.policy is compact and has to be delete: compaction would drop records"},
		{"repartition expires", func(c *cluster) { c.create(repartition, 3, nil) }, topics.Options{},
			"retention.ms is 604800000 and has to be -1: records that are not processed yet would be deleted"},
		{"repartition is bounded", func(c *cluster) {
			c.create(repartition, 3, map[string]string{"retention.ms": "-1", "retention.bytes": "1000000"})
		}, topics.Options{}, "retention.bytes is 1000000 and has to be -1: "},
		{"broker's time", func(c *cluster) {
			c.create(changelog, 3, map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
		}, topics.Options{}, "message.timestamp.type is LogAppendTime and has to be CreateTime: "},
		{"repartition with broker's time", func(c *cluster) {
			c.create(repartition, 3, map[string]string{
				"retention.ms": "-1", "retention.bytes": "-1", "message.timestamp.type": "LogAppendTime",
			})
		}, topics.Options{}, "message.timestamp.type is LogAppendTime and has to be CreateTime: "},
		{"records too large", func(c *cluster) {
			c.set("in", "max.message.bytes", "2000000")
			c.create(repartition, 3, keep)
		}, topics.Options{}, "max.message.bytes is 1048588 and has to be at least that of the inputs, 2000000: "},
		{"unwritable output", func(c *cluster) { c.set("out", "min.insync.replicas", "2") }, topics.Options{},
			"topic out: the number of replicas is 1 and has to be at least min.insync.replicas, 2: nothing could be written"},
		{"unwritable changelog", func(c *cluster) {
			c.create(changelog, 3, map[string]string{"cleanup.policy": "compact", "min.insync.replicas": "3"})
		}, topics.Options{}, "the number of replicas is 1 and has to be at least min.insync.replicas, 3: "},
		{"fewer replicas than configured", func(c *cluster) { c.create(changelog, 3, compact) }, topics.Options{Replicas: 3},
			"the number of replicas is 1 and has to be at least the configured 3: add replicas"},
		{"fewer in sync than configured", func(c *cluster) { c.create(changelog, 3, compact) }, topics.Options{InSyncMin: 2},
			"min.insync.replicas is 1 and has to be at least the configured 2: "},
		{"missing topics", func(c *cluster) { c.delete("out", "dead") }, topics.Options{},
			"topics that do not exist: dead, out: create them first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			test.prepare(c)
			before := c.names()
			_, _, err := c.open(test.opts)
			mismatch, ok := errors.AsType[*topics.Mismatch](err)
			if !ok || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %v (%v), want one line with %q", err, mismatch, test.want)
			}
			if after := c.names(); after != before {
				t.Errorf("topics were %s and are %s", before, after)
			}
		})
	}
}

func (c *cluster) delete(names ...string) {
	c.t.Helper()
	if _, err := c.adm.DeleteTopics(c.t.Context(), names...); err != nil {
		c.t.Fatal(err)
	}
}

// TestClusterDefault: internal topics may not be less safe than the cluster's other topics.
func TestClusterDefault(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(3), kfake.BrokerConfigs(map[string]string{"min.insync.replicas": "2"}))
	if _, err := c.adm.CreateTopic(t.Context(), 3, 3, map[string]*string{
		"cleanup.policy": kadm.StringPtr("compact"), "min.insync.replicas": kadm.StringPtr("1"),
	}, changelog); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.open(topics.Options{})
	if want := "min.insync.replicas is 1 and has to be at least the cluster's default, 2: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("the error is %v, want %q", err, want)
	}
	c.set(changelog, "min.insync.replicas", "2")
	if _, _, err := c.open(topics.Options{}); err != nil {
		t.Fatal(err)
	}
}

// TestUnreplicatedInternalTopicsAreNamed: one replica is named where the cluster has room for more.
func TestUnreplicatedInternalTopicsAreNamed(t *testing.T) {
	c := newCluster(t, kfake.NumBrokers(3))
	c.createWith(changelog, 3, 1, map[string]string{"cleanup.policy": "compact"})
	_, layout, err := c.open(topics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := layout.Unreplicated(app(t), 3); !slices.Equal(got, []string{changelog}) {
		t.Errorf("of three brokers, %q have one replica, want %s", got, changelog)
	}
	if got := layout.Unreplicated(app(t), 2); len(got) > 0 {
		t.Errorf("of two brokers, %q are named", got)
	}
}

// TestEveryMistakeAtOnce: several mismatches are told together, one line each.
func TestEveryMistakeAtOnce(t *testing.T) {
	c := newCluster(t)
	c.create(changelog, 4, nil)
	c.create(rounds, 1, nil)
	_, _, err := c.open(topics.Options{})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("the error is %v, want three lines", err)
	}
}

// TestVerify: what changes while the application runs is found before the next membership.
func TestVerify(t *testing.T) {
	c := newCluster(t)
	plan, layout, err := c.open(topics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := plan.Verify(t.Context(), c.Cluster, layout)
	if err != nil || len(again) != len(layout) {
		t.Fatalf("what has not changed is refused: %v", err)
	}
	refused := func(what string, absent bool) {
		t.Helper()
		before := c.names()
		_, err := plan.Verify(t.Context(), c.Cluster, layout)
		if errors.Is(err, topics.ErrAbsent) != absent {
			t.Errorf("the error is %v, want one about absence: %t", err, absent)
		}
		if _, ok := errors.AsType[*topics.Mismatch](err); !ok || !strings.Contains(err.Error(), what) {
			t.Errorf("the error is %v, want %q", err, what)
		}
		if c.names() != before {
			t.Error("topics were changed")
		}
	}
	c.set(changelog, "cleanup.policy", "delete")
	refused("cleanup.policy is delete", false)
	c.set(changelog, "cleanup.policy", "compact")
	c.delete(changelog)
	refused("changelog app-counts-changelog: existence is deleted", true)
	c.create(changelog, 3, map[string]string{"cleanup.policy": "compact"})
	refused("deleted and recreated while the application ran", false)
	c.delete("out")
	refused("topics that do not exist: out", true)
	c.delete(changelog)
	plan, layout, err = func() (*topics.Plan, topics.Layout, error) {
		c.createWith("out", 3, 1, nil)
		return c.open(topics.Options{})
	}()
	if err != nil {
		t.Fatal(err)
	}
	before := layout["out"].ID
	c.delete("out")
	c.createWith("out", 3, 1, nil)
	if again, err = plan.Verify(t.Context(), c.Cluster, layout); err != nil || again["out"].ID == before {
		t.Errorf("an output that was created again is refused, or is the old one: %v", err)
	}
	c.delete("in")
	c.createWith("in", 3, 1, nil)
	refused("topic in: topic id is", false)
}

// TestUnansweredIsNoMismatch: a cluster that does not answer is no finding about a topic.
func TestUnansweredIsNoMismatch(t *testing.T) {
	c := newCluster(t)
	plan, layout, err := c.open(topics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = plan.Verify(ctx, c.Cluster, layout)
	if _, ok := errors.AsType[*topics.Mismatch](err); err == nil || ok {
		t.Errorf("the error is %v, want one that is no mismatch", err)
	}
}
