package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const (
	// groupPartitions is how many partitions each topic of a group scene has.
	groupPartitions = 4
	// groupInterval is between two looks at a group, and between two records of a key that are fed
	// meanwhile.
	groupInterval = 20 * time.Millisecond
)

// groupTopics are the topics of a group scene.
type groupTopics struct{ Left, Right, Out, ByParity, Extra, Copy string }

// build makes the application: the records of two co-partitioned inputs are counted by key, and
// through a repartition topic by parity. Version 2 also copies the topic Extra, and version 3 does
// nothing else. If there is a marker, a record with the value "block" creates that file and is
// never done with.
func (n groupTopics) build(version int, marker string) (*topology.Topology, error) {
	text, number := schemas.String(), schemas.Int64()
	b := topology.NewBuilder("rebalancing")
	if version > 1 {
		topology.From(b, topology.Topic(n.Extra, text, text)).Into(topology.Topic(n.Copy, text, text))
	}
	if version == 3 {
		return b.Build()
	}
	both := topology.From(b, topology.Topic(n.Left, text, text)).Merge("both", topology.From(b, topology.Topic(n.Right, text, text)))
	count := func(
		c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
	) error {
		if r.Value == "block" && marker != "" {
			if err := os.WriteFile(marker, nil, 0o600); err != nil {
				return err
			}
			select {}
		}
		return countRecord(c, counts, r, emit)
	}
	topology.Process(both, "count", topology.KeyValueStore("counts", text, number), count).Into(topology.Topic(n.Out, text, number))
	parity := topology.SelectKey(both, "parity", func(r topology.Record[string, string]) (string, error) {
		return fmt.Sprint("parity-", r.Key[len(r.Key)-1]%2), nil
	})
	topology.Process(topology.RepartitionWith(parity, "by-parity", text, text), "count-parity", topology.KeyValueStore("parities", text, number), count).
		Into(topology.Topic(n.ByParity, text, number))
	return b.Build()
}

// memberSettings are an instance of version 1 in a process of its own.
type memberSettings struct {
	Brokers                         []string
	Application, Instance, StateDir string
	Topics                          groupTopics
	Marker                          string // see build
}

func (s memberSettings) Topology() (*topology.Topology, error) { return s.Topics.build(1, s.Marker) }

// Config has no peers: they would remove the member as soon as it is killed, and it could not come
// back within the session.
func (s memberSettings) Config() txn.Config {
	return txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: 1,
		Peers: txn.Peers{Listen: txn.PeersOff},
	}
}

func startMember(t *testing.T, s memberSettings) *instance.Process {
	t.Helper()
	return instance.Launch(t, instance.Command(t, "member", s, ""), instance.NewLog(t, "the process of "+s.Instance))
}

// groupScene is one application whose instances come and go.
type groupScene struct {
	*cluster.Cluster
	t           *testing.T
	application string
	topics      groupTopics
	producer    *kgo.Client
	fed         map[string]int64 // records by key
	logs        []*instance.Log  // of the instances in this process
}

func newGroupScene(t *testing.T, c *cluster.Cluster) *groupScene {
	t.Helper()
	s := &groupScene{
		Cluster: c, t: t, application: c.Name(t, "app"), fed: map[string]int64{},
		topics: groupTopics{
			c.Name(t, "left"), c.Name(t, "right"), c.Name(t, "out"), c.Name(t, "by-parity"), c.Name(t, "extra"), c.Name(t, "copy"),
		},
		producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
	}
	c.CreateTopics(t, groupPartitions, s.topics.Left, s.topics.Right, s.topics.Out, s.topics.ByParity, s.topics.Extra, s.topics.Copy)
	return s
}

// feed writes n records to each partition of each input. Each partition has a key of its own.
func (s *groupScene) feed(n int) {
	s.t.Helper()
	var records []*kgo.Record
	for range n {
		for p := range int32(groupPartitions) {
			for side, topic := range map[string]string{"l": s.topics.Left, "r": s.topics.Right} {
				key := fmt.Sprint(side, p)
				s.fed[key]++
				records = append(records, &kgo.Record{Topic: topic, Partition: p, Key: []byte(key), Value: []byte("v"), Timestamp: time.Now()})
			}
		}
	}
	if err := s.producer.ProduceSync(s.t.Context(), records...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// start begins a life of an instance in this process.
func (s *groupScene) start(name, stateDir string, version int, remain bool) *instance.App {
	s.t.Helper()
	t, err := s.topics.build(version, "")
	if err != nil {
		s.t.Fatal(err)
	}
	log := instance.NewLog(s.t, name)
	s.logs = append(s.logs, log)
	return instance.Start(s.t, t, instance.On(s.Cluster, name, txn.Config{
		Application: s.application, Instance: name, StateDir: stateDir, Remain: remain, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}))
}

// logged counts the lines with the words in the logs of the instances in this process.
func (s *groupScene) logged(words string) (n int) {
	for _, log := range s.logs {
		n += len(log.Lines(words))
	}
	return n
}

// Words of log lines: a task kept some of its inputs, and a rebalance was forced.
const (
	partial = "keeps some of its inputs"
	forced  = `msg="a rebalance is forced"`
	// over is a forced rebalance that has begun anyway: a member heard from its peers that a plan is over.
	over = `why="an instance has given up tasks that move, or has left"`
)

// endFed ends an instance while the input goes on.
func (s *groupScene) endFed(a *instance.App) {
	s.t.Helper()
	a.Cancel()
	tick := time.NewTicker(groupInterval)
	defer tick.Stop()
	instance.Await(s.t, "an instance to end", func() error { return nil }, func() error {
		s.feed(1)
		if instance.Closed(a.Ended()) {
			return nil
		}
		<-tick.C
		return errors.New("it is still there")
	})
	a.End()
}

// groupView is the group as the coordinator describes it. If there is no answer, the state is the
// error.
type groupView struct {
	state      string
	unanswered bool
	assigned   map[string][]string // by instance: topic[partition], sorted
	plan       map[string]string   // by instance: the plan that it was given
}

func (v groupView) total() int {
	n := 0
	for _, parts := range v.assigned {
		n += len(parts)
	}
	return n
}

func (s *groupScene) view() groupView {
	s.t.Helper()
	groups, err := s.Admin().DescribeGroups(s.t.Context(), s.application)
	v := groupView{state: groups[s.application].State, assigned: map[string][]string{}, plan: map[string]string{}}
	if err = errors.Join(err, groups[s.application].Err); err != nil {
		v.state, v.unanswered = err.Error(), true
		return v
	}
	for _, m := range groups[s.application].Members {
		instance := m.MemberID
		if m.InstanceID != nil {
			instance = *m.InstanceID
		}
		v.assigned[instance] = nil
		if a, ok := m.Assigned.AsConsumer(); ok {
			v.plan[instance] = string(a.UserData)
			for _, topic := range a.Topics {
				for _, p := range topic.Partitions {
					v.assigned[instance] = append(v.assigned[instance], fmt.Sprintf("%s[%d]", topic.Topic, p))
				}
			}
			slices.Sort(v.assigned[instance])
		}
	}
	return v
}

// until waits until the group is stable and ok accepts it. Before each look it feeds so many
// records.
func (s *groupScene) until(what string, feed int, ok func(groupView) bool) (v groupView) {
	s.t.Helper()
	tick := time.NewTicker(groupInterval)
	defer tick.Stop()
	instance.Await(s.t, what, func() error { return nil }, func() error {
		s.feed(feed)
		if v = s.view(); v.state == "Stable" && ok(v) {
			return nil
		}
		<-tick.C
		return fmt.Errorf("the group is %s: %v", v.state, v.assigned)
	})
	return v
}

// inputs is how many input partitions a version reads: left, right, the repartition topic, and
// extra.
func inputs(version int) int { return groupPartitions * (2 + version) }

// settled accepts a group of that many members which have everything, each of them something: there
// are more tasks than members.
func settled(members, version int) func(groupView) bool {
	return func(v groupView) bool {
		idle := slices.ContainsFunc(slices.Collect(maps.Values(v.assigned)), func(parts []string) bool { return len(parts) == 0 })
		return len(v.assigned) == members && v.total() == inputs(version) && !idle
	}
}

// checkExact waits until all counts are complete. Each goes up by one.
func (s *groupScene) checkExact() {
	s.t.Helper()
	wanted := map[string]int64{}
	for key, n := range s.fed {
		wanted[key] = n
		wanted[fmt.Sprint("parity-", key[len(key)-1]%2)] += n
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	instance.Await(s.t, "the counts of everything that was fed", func() error { return nil }, func() error {
		got := testapp.LastCounts(s.t, slices.Concat(s.Records(s.t, s.topics.Out), s.Records(s.t, s.topics.ByParity)))
		if maps.Equal(got, wanted) {
			return nil
		}
		<-tick.C
		return fmt.Errorf("the counts are %v, want %v", got, wanted)
	})
}

// pauses follows the output and keeps, for each key, the longest time without a record.
type pauses struct {
	s       *groupScene
	mu      sync.Mutex
	seen    map[string]int64 // records by key
	last    map[string]time.Time
	longest map[string]time.Duration
	ended   chan struct{}
	err     error // valid once ended is closed
}

// follow follows the output until the end of the test.
func (s *groupScene) follow() *pauses {
	s.t.Helper()
	p := &pauses{
		s: s, seen: map[string]int64{}, last: map[string]time.Time{}, longest: map[string]time.Duration{}, ended: make(chan struct{}),
	}
	cl := s.Client(s.t, kgo.ConsumeTopics(s.topics.Out), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	ctx, cancel := context.WithCancel(s.t.Context())
	go func() {
		defer close(p.ended)
		for p.err == nil {
			fetches := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return
			}
			p.err = fetches.Err()
			p.take(fetches)
		}
	}()
	s.t.Cleanup(func() {
		cancel()
		if <-p.ended; p.err != nil {
			s.t.Errorf("following the output: %v", p.err)
		}
	})
	return p
}

func (p *pauses) take(fetches kgo.Fetches) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		key := string(r.Key)
		if last, ok := p.last[key]; ok {
			p.longest[key] = max(p.longest[key], now.Sub(last))
		}
		p.last[key] = now
		p.seen[key]++
	})
}

// phase waits until everything fed has come out. It returns the longest pauses since the last call.
func (p *pauses) phase() (longest map[string]time.Duration) {
	p.s.t.Helper()
	alive := func() error {
		if instance.Closed(p.ended) {
			return fmt.Errorf("the output is not followed any more: %w", p.err)
		}
		return nil
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	instance.Await(p.s.t, "the output of everything that was fed", alive, func() error {
		<-tick.C
		p.mu.Lock()
		defer p.mu.Unlock()
		if !maps.Equal(p.seen, p.s.fed) {
			return fmt.Errorf("there are %v, want %v", p.seen, p.s.fed)
		}
		longest = maps.Clone(p.longest)
		clear(p.longest)
		for key := range p.last {
			p.last[key] = time.Now() // the next phase begins to feed at once
		}
		return nil
	})
	return longest
}
