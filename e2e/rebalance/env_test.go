package rebalance_test

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
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const partitions = 4

// names are the topics of a scenario.
type names struct{ Left, Right, Out, ByParity, Extra, Copy string }

// build makes the application: the records of two co-partitioned inputs are counted by key, and through a repartition topic by parity.
// Version 2 also copies the topic Extra, and version 3 does nothing but that. With a marker, the value "block" makes it and waits for
// ever.
func (n names) build(version int, marker string) (*topology.Topology, error) {
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
		n, _, err := counts.Get(r.Key)
		if err == nil {
			err = counts.Put(r.Key, n+1)
		}
		if err != nil {
			return err
		}
		return emit(c, topology.Record[string, int64]{Key: r.Key, Value: n + 1, Timestamp: r.Timestamp})
	}
	topology.Process(both, "count", topology.Store("counts", text, number), count).Into(topology.Topic(n.Out, text, number))
	parity := topology.SelectKey(both, "parity", func(r topology.Record[string, string]) (string, error) {
		return fmt.Sprint("parity-", r.Key[len(r.Key)-1]%2), nil
	})
	topology.Process(topology.Repartition(parity, "by-parity", text, text), "count-parity", topology.Store("parities", text, number), count).
		Into(topology.Topic(n.ByParity, text, number))
	return b.Build()
}

// env is one scenario on one cluster.
type env struct {
	*cluster.Cluster
	t           *testing.T
	application string
	names       names
	producer    *kgo.Client
	fed         map[string]int64 // records by key
	logs        []*instance.Log  // of the instances in this process
}

func newEnv(t *testing.T, c *cluster.Cluster) *env {
	t.Helper()
	e := &env{
		Cluster: c, t: t, application: c.Name(t, "app"), fed: map[string]int64{},
		names: names{
			c.Name(t, "left"), c.Name(t, "right"), c.Name(t, "out"), c.Name(t, "by-parity"), c.Name(t, "extra"), c.Name(t, "copy"),
		},
		producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
	}
	c.CreateTopics(t, partitions, e.names.Left, e.names.Right, e.names.Out, e.names.ByParity, e.names.Extra, e.names.Copy)
	return e
}

// feed writes n records to each partition of each input. Each partition has a key of its own.
func (e *env) feed(n int) {
	e.t.Helper()
	var records []*kgo.Record
	for range n {
		for p := range int32(partitions) {
			for side, topic := range map[string]string{"l": e.names.Left, "r": e.names.Right} {
				key := fmt.Sprint(side, p)
				e.fed[key]++
				records = append(records, &kgo.Record{Topic: topic, Partition: p, Key: []byte(key), Value: []byte("v"), Timestamp: time.Now()})
			}
		}
	}
	if err := e.producer.ProduceSync(e.t.Context(), records...).FirstErr(); err != nil {
		e.t.Fatal(err)
	}
}

// start begins a life of an instance in this process.
func (e *env) start(name, stateDir string, version int, remain bool) *instance.App {
	e.t.Helper()
	t, err := e.names.build(version, "")
	if err != nil {
		e.t.Fatal(err)
	}
	log := instance.NewLog(e.t, name)
	e.logs = append(e.logs, log)
	return instance.Start(e.t, t, instance.On(e.Cluster, name, txn.Config{
		Application: e.application, Instance: name, StateDir: stateDir, Remain: remain, Logger: slog.New(slog.NewTextHandler(log, nil)),
	}))
}

// said counts how often an instance of this process has said the words.
func (e *env) said(words string) (n int) {
	for _, log := range e.logs {
		n += len(log.Lines(words))
	}
	return n
}

// Words of instances: that a task kept some of its inputs, and that a rebalance was forced.
const (
	partial = "keeps some of its inputs"
	forced  = `msg="a rebalance is forced"`
)

// feedWhileStopping keeps the input going while an instance stops.
func (e *env) feedWhileStopping(a *instance.App) {
	e.t.Helper()
	stopped := make(chan struct{})
	go func() { e.stop(a); close(stopped) }()
	tick := time.NewTicker(feedInterval)
	defer tick.Stop()
	for {
		e.feed(1)
		select {
		case <-stopped:
			return
		case <-tick.C:
		}
	}
}

// feedInterval is between two records of a key that are fed while something happens.
const feedInterval = 10 * time.Millisecond

// feedUntil feeds until ok accepts the group, so that the input goes on for as long as the group moves.
func (e *env) feedUntil(what string, ok func(view) bool) view {
	e.t.Helper()
	tick := time.NewTicker(feedInterval)
	defer tick.Stop()
	for deadline := time.Now().Add(settleLimit); ; <-tick.C {
		e.feed(1)
		v := e.view()
		if v.state == "Stable" && ok(v) {
			return v
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("%s: not within %s: %+v", what, settleLimit, v.assigned)
		}
	}
}

func (e *env) stop(a *instance.App) {
	e.t.Helper()
	if err := a.Stop(); err != nil {
		e.t.Errorf("an instance ended with %v", err)
	}
}

// view is the group as the coordinator describes it. While it has none, the state is the error.
type view struct {
	state string // or why there is none
	// unanswered says that nothing is known.
	unanswered bool
	assigned   map[string][]string // by instance: topic[partition], sorted
	plan       map[string]string   // by instance: the plan that it was given
}

func (v view) total() int {
	n := 0
	for _, parts := range v.assigned {
		n += len(parts)
	}
	return n
}

func (e *env) view() view {
	e.t.Helper()
	groups, err := e.Admin().DescribeGroups(e.t.Context(), e.application)
	v := view{state: groups[e.application].State, assigned: map[string][]string{}, plan: map[string]string{}}
	if err = errors.Join(err, groups[e.application].Err); err != nil {
		v.state, v.unanswered = err.Error(), true
		return v
	}
	for _, m := range groups[e.application].Members {
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

// await polls until ok accepts the group.
func (e *env) await(what string, limit time.Duration, ok func(view) bool) view {
	e.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for {
		v := e.view()
		if v.state == "Stable" && ok(v) {
			return v
		}
		select {
		case <-tick.C:
		case <-deadline:
			e.t.Fatalf("%s: not within %s; the group is %s: %v", what, limit, v.state, v.assigned)
		}
	}
}

// inputs is how many input partitions a version reads: left, right, the repartition topic, and extra.
func inputs(version int) int { return partitions * (2 + version) }

// even accepts a group in which that many members have everything.
func even(members, version int) func(view) bool {
	return func(v view) bool { return len(v.assigned) == members && v.total() == inputs(version) && !owesMoves(v) }
}

// owesMoves says that somebody has nothing, which a group with fewer members than tasks never comes to rest with.
func owesMoves(v view) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(v.assigned)), func(parts []string) bool { return len(parts) == 0 })
}

// checkExact asserts that all counts are complete and go up by one.
func (e *env) checkExact() {
	e.t.Helper()
	wanted := map[string]int64{}
	for key, n := range e.fed {
		wanted[key] = n
		wanted[fmt.Sprint("parity-", key[len(key)-1]%2)] += n
	}
	got := map[string]int64{}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(settleLimit); ; <-tick.C {
		clear(got)
		for _, topic := range []string{e.names.Out, e.names.ByParity} {
			for _, r := range e.Records(e.t, topic) {
				n, err := schemas.Int64().Decode(r.Value)
				if err != nil {
					e.t.Fatal(err)
				}
				if n != got[string(r.Key)]+1 {
					e.t.Fatalf("key %s: %d follows %d", r.Key, n, got[string(r.Key)])
				}
				got[string(r.Key)] = n
			}
		}
		if maps.Equal(got, wanted) {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("counts are %v, want %v", got, wanted)
		}
	}
}

// pauses follows the output and keeps, for each key, the longest time without a record.
type pauses struct {
	e       *env
	mu      sync.Mutex
	seen    map[string]int64 // records by key
	last    map[string]time.Time
	longest map[string]time.Duration
	cancel  context.CancelFunc
	done    chan error
}

func (e *env) follow() *pauses {
	e.t.Helper()
	p := &pauses{e: e, seen: map[string]int64{}, last: map[string]time.Time{}, longest: map[string]time.Duration{}, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(e.t.Context())
	p.cancel = cancel
	cl := e.Client(e.t, kgo.ConsumeTopics(e.names.Out), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	go func() {
		for {
			fetches := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				p.done <- nil
				return
			}
			if err := fetches.Err(); err != nil {
				p.done <- err
				return
			}
			now := time.Now()
			p.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				key := string(r.Key)
				if last, ok := p.last[key]; ok {
					p.longest[key] = max(p.longest[key], now.Sub(last))
				}
				p.last[key] = now
				p.seen[key]++
			})
			p.mu.Unlock()
		}
	}()
	return p
}

// take waits until everything fed has come out, and returns the longest pauses since the last take.
func (p *pauses) take() map[string]time.Duration {
	p.e.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(settleLimit)
	for {
		p.mu.Lock()
		seen, longest := maps.Clone(p.seen), maps.Clone(p.longest)
		if maps.Equal(seen, p.e.fed) {
			clear(p.longest)
			for key := range p.last {
				p.last[key] = time.Now() // the next phase begins to feed at once
			}
			p.mu.Unlock()
			return longest
		}
		p.mu.Unlock()
		select {
		case <-tick.C:
		case err := <-p.done:
			p.e.t.Fatalf("following the output: %v", err)
		case <-deadline:
			p.e.t.Fatalf("%v came out, want %v", seen, p.e.fed)
		}
	}
}

func (p *pauses) stop() error {
	p.cancel()
	if err := <-p.done; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
