package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
)

type text = topology.Record[string, string]

// keeping adds a node that keeps the last values of what comes.
func keeping(s topology.Stream[string, string]) {
	topology.Process(s, "keep", topology.KeyValueStore("kept", schemas.String(), schemas.String()),
		func(_ *topology.Context, rows state.KeyValue[string, string], r text, _ topology.Emit[string, string]) error {
			return rows.Put(r.Key, r.Value)
		})
}

// TestForensicNotComparable is requirement I3: every reason for which right state is not what its
// inputs make now, and that there is none where there is none.
func TestForensicNotComparable(t *testing.T) {
	read := func(b *topology.Builder, topic string, opts ...topology.SourceOption) topology.Stream[string, string] {
		return topology.From(b, topology.Topic(topic, schemas.String(), schemas.String()), opts...)
	}
	retry := topology.RetryTopics(time.Second)
	const delays, again = "app-in.retry-1s-repartition", "app-again-repartition"
	for name, test := range map[string]struct {
		declare func(b *topology.Builder)
		change  func(o *harness)
		reason  string
	}{
		"plain":    {func(b *topology.Builder) { keeping(read(b, "in")) }, nil, ""},
		"no delay": {func(b *topology.Builder) { keeping(read(b, "in", retry)) }, nil, ""},
		"delayed": {func(b *topology.Builder) { keeping(read(b, "in", retry)) }, func(o *harness) {
			o.write(&kgo.Record{Topic: delays, Key: []byte("k")})
		}, "were delayed in " + delays},
		"compacted": {func(b *topology.Builder) { keeping(read(b, "in")) }, func(o *harness) {
			o.setting("in", "cleanup.policy", "compact,delete")
		}, "in is compacted"},
		"deleted": {func(b *topology.Builder) { keeping(read(b, "in")) }, func(o *harness) {
			o.write(&kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")})
			offsets := kadm.Offsets{}
			offsets.AddOffset("in", 0, 1, -1)
			if _, err := kadm.NewClient(o.cl).DeleteRecords(o.ctx, offsets); err != nil {
				o.t.Fatal(err)
			}
		}, "in[0] below offset 1 are deleted"},
		"latest":  {func(b *topology.Builder) { keeping(read(b, "in", topology.StartLatest())) }, nil, "begins with in at latest"},
		"several": {func(b *topology.Builder) { keeping(read(b, "in").Merge("both", read(b, "other"))) }, nil, "several inputs"},
		"parks":   {func(b *topology.Builder) { keeping(read(b, "in", topology.ParkKeys())) }, nil, "can be parked"},
		"repartition": {func(b *topology.Builder) {
			keeping(topology.RepartitionWith(read(b, "in"), "again", schemas.String(), schemas.String()))
		}, nil, "repartition topic " + again},
		"clock": {func(b *topology.Builder) {
			node := topology.Stateful(read(b, "in"), "tick", topology.KeyValueStore("kept", schemas.String(), schemas.String()))
			node.Process(func(s *topology.Setup) (topology.Handler[string, string], error) {
				s.OnWallClock(time.Second, func(*topology.Context, time.Time) error { return nil })
				return func(*topology.Context, text) error { return nil }, nil
			})
		}, nil, "schedules of the wall clock"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				o := newHarness(t)
				if _, err := kadm.NewClient(o.cl).CreateTopics(o.ctx, harnessPartitions, 1, nil, delays, again); err != nil {
					t.Fatal(err)
				}
				if test.change != nil {
					test.change(o)
				}
				b := topology.NewBuilder("app")
				test.declare(b)
				top, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				cluster, err := broker.Connect(o.ctx, o.client.cfg, "app")
				if err != nil {
					t.Fatal(err)
				}
				defer cluster.Close()
				f := &forensic{
					client: o.client, cluster: cluster, topology: top, dir: t.TempDir(), partitions: map[string]int32{},
					queues: map[partitionOf]*forensicQueue{}, report: ForensicReport{Outputs: map[string]int64{}},
				}
				defer func() {
					if err := f.close(); err != nil {
						t.Error(err)
					}
				}()
				if err := f.open(o.ctx); err != nil {
					t.Fatal(err)
				}
				for _, task := range f.tasks {
					if len(task.stores) == 0 || task.id.Partition > 0 {
						continue
					}
					got, err := f.notComparable(o.ctx, task)
					if err != nil || !strings.Contains(got, test.reason) || (got == "") != (test.reason == "") {
						t.Errorf("the reason is %q, %v, want %q", got, err, test.reason)
					}
				}
			})
		})
	}
}
