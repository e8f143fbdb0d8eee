package runtime_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

func TestMain(m *testing.M) {
	cluster.InParallel(4) // on real Kafka they wait for transactions and sessions to end
	instance.Main(m, instance.Programs{"member": instance.Application[memberSettings]})
}

// appScene is one scenario on one cluster: names of its own, and an application that can be started
// again and again.
type appScene struct {
	*cluster.Cluster
	t           *testing.T
	application string
	in, out     string
	stateDir    string
	producer    *kgo.Client
	log         *instance.Log
	configure   func(*txn.Config) // changes what config returns, if it is set
}

const partitions = 3

func newAppScene(t *testing.T, c *cluster.Cluster, topics ...string) *appScene {
	t.Helper()
	e := &appScene{
		Cluster: c, t: t, application: c.Name(t, "app"), in: c.Name(t, "in"), out: c.Name(t, "out"), stateDir: t.TempDir(),
		producer: c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())),
		log:      instance.NewLog(t, "the application"),
	}
	c.CreateTopics(t, partitions, append([]string{e.in, e.out}, topics...)...)
	return e
}

// rules are faults between applications and brokers: a proxy's, or those of a virtual network.
type rules interface {
	Add(match proxy.Match, action proxy.Action) *proxy.Rule
}

// ofApplication are rules of a virtual network for the frames of one application. Each has to match
// one by the end of the test, as the rules of a proxy have to.
type ofApplication struct {
	*appScene
	network *virtual.Network
}

func (o ofApplication) Add(match proxy.Match, action proxy.Action) *proxy.Rule {
	also := match.Where
	match.Where = func(f *proxy.Frame) bool {
		return strings.HasPrefix(f.ClientID, o.application) && (also == nil || also(f))
	}
	r := o.network.Add(match, action)
	o.t.Cleanup(func() {
		if r.Counts().Matched == 0 {
			o.t.Errorf("rule %q: %v", r, proxy.ErrUnmatched)
		}
	})
	return r
}

// throughProxy changes the configuration and returns what stands between the applications and the
// brokers.
func (e *appScene) throughProxy(change func(*txn.Config)) rules {
	e.t.Helper()
	if n := e.Network(); n != nil {
		e.configure = change
		return ofApplication{e, n}
	}
	p, err := proxy.Start(e.Brokers()...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			e.t.Error(err)
		}
	})
	e.configure = func(c *txn.Config) {
		c.Brokers = p.Brokers()
		change(c)
	}
	return p
}

func (e *appScene) config() txn.Config {
	log := slog.New(slog.NewTextHandler(e.log, nil)).With("test", e.t.Name())
	cfg := instance.On(e.Cluster, "application", txn.Config{StateDir: e.stateDir, Application: e.application, Logger: log})
	if e.configure != nil {
		e.configure(&cfg)
	}
	return cfg
}

// feed writes n records with 10 keys over the partitions; a key stays in its partition.
func (e *appScene) feed(n int, value func(i int) []byte) {
	e.t.Helper()
	records := make([]*kgo.Record, n)
	now := time.Now().Truncate(time.Millisecond).Add(-time.Hour) // the past that retention leaves alone
	for i := range records {
		key := i % 10
		records[i] = &kgo.Record{
			Topic: e.in, Partition: int32(key % partitions), Key: fmt.Appendf(nil, "k%d", key), Value: value(i),
			Timestamp: now.Add(time.Duration(i) * time.Millisecond),
		}
	}
	if err := e.producer.ProduceSync(e.t.Context(), records...).FirstErr(); err != nil {
		e.t.Fatal(err)
	}
}

func plain(int) []byte { return []byte("v") }

// start begins a life of the application.
func (e *appScene) start(t *topology.Topology) *instance.App {
	e.t.Helper()
	return instance.Start(e.t, t, e.config())
}

// until waits until the application has committed n records in this life.
func (e *appScene) until(a *instance.App, n int64) {
	e.t.Helper()
	a.Until(fmt.Sprint(n, " records"), func(s txn.Status) bool { return s.Totals.Records >= n })
}

// count is a topology that counts records per key. A record with the value "poison" fails after it
// has written and emitted.
func (e *appScene) count(opts ...topology.BuilderOption) *topology.Topology {
	b := topology.NewBuilder("counting", opts...)
	in := topology.From(b, topology.Topic(e.in, schemas.String(), schemas.String()))
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(in, "count", counts, countRecord).Into(topology.Topic(e.out, schemas.String(), schemas.Int64()))
	return e.build(b)
}

func (e *appScene) build(b *topology.Builder) *topology.Topology {
	e.t.Helper()
	t, err := b.Build()
	if err != nil {
		e.t.Fatal(err)
	}
	return t
}

func countRecord(
	c *topology.Context, counts state.KeyValue[string, int64], r topology.Record[string, string], emit topology.Emit[string, int64],
) error {
	n, _, err := counts.Get(r.Key)
	if err != nil {
		return err
	}
	if err := counts.Put(r.Key, n+1); err != nil {
		return err
	}
	if err := emit(c, topology.Record[string, int64]{Key: r.Key, Value: n + 1, Timestamp: r.Timestamp}); err != nil {
		return err
	}
	if r.Value == "poison" {
		return topology.Fail(topology.Validation, schemas.Reason("poison"))
	}
	return nil
}
