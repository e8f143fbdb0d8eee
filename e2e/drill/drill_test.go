package drill_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/bench/measure"
	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const (
	envInstance = "ONCEWARD_DRILL_INSTANCE"
	// envFull asks for the full size.
	envFull    = "ONCEWARD_DRILL"
	partitions = 4
)

func TestMain(m *testing.M) {
	measure.Run(envInstance, run)
	cluster.Main(m)
}

// settings are those of an application in a process of its own.
type settings struct {
	Brokers                             []string
	Application, StateDir, Gateway      string
	Mode                                string
	In, Captured, Refused, Replay, Dead string
}

// Capture is a request.
type Capture struct {
	ID     string `json:"id"`
	Amount int64  `json:"amount"`
}

func build(s settings) (*topology.Topology, error) {
	b := topology.NewBuilder("drill", topology.DeadLetters(s.Dead))
	gateway := caller{s.Gateway}
	requests := topology.From(b, topology.Topic(s.In, schemas.String(), schemas.JSON[Capture]()))
	e := effect.Perform(requests, "capture", func(r topology.Record[string, Capture]) (effect.Request, error) {
		payload, err := json.Marshal(r.Value)
		return effect.Request{ID: r.Value.ID, Type: "capture", Target: "gateway", Payload: payload}, err
	}, gateway.capture, effect.Lookup(gateway.find), effect.Timeout(500*time.Millisecond),
		effect.Claims(3*time.Second, time.Second), effect.Retry(10, 50*time.Millisecond, time.Second))
	result := func(name string) topology.TopicOf[string, effect.Result] {
		return topology.Topic(name, schemas.String(), schemas.JSON[effect.Result]())
	}
	e.Completed().Into(result(s.Captured))
	e.Failed().Into(result(s.Refused))
	e.Suppressed().Into(result(s.Replay))
	return b.Build()
}

// run is the application.
func run(s settings) error {
	t, err := build(s)
	if err != nil {
		return err
	}
	mode, err := topology.ParseMode(s.Mode)
	if err != nil {
		return err
	}
	app, err := txn.New(t, txn.Config{
		Brokers: s.Brokers, Application: s.Application, StateDir: s.StateDir, Instance: "one", Mode: mode,
		SessionTimeout: 10 * time.Second,
	})
	if err != nil {
		return err
	}
	ctx, stop := measure.UntilTold()
	defer stop()
	return app.Run(ctx)
}

// requests are what is asked for: every request once, and a fifth of them again, and a hundredth with another amount.
func requests(n int) (records []*kgo.Record, conflicts int) {
	random := rand.New(rand.NewPCG(1, 2))
	add := func(id, amount int) {
		value := fmt.Appendf(nil, `{"id":"c%d","amount":%d}`, id, amount)
		records = append(records, &kgo.Record{Key: fmt.Appendf(nil, "a%d", id%97), Value: value})
	}
	for i := range n {
		add(i, i)
		switch p := random.IntN(100); {
		case p < 20:
			add(random.IntN(i+1), -1)
		case p < 21:
			add(random.IntN(i+1), -2)
		}
	}
	for _, r := range records {
		var c Capture
		if err := json.Unmarshal(r.Value, &c); err != nil {
			panic(err)
		}
		switch c.Amount {
		case -1: // a duplicate, spelled in another way
			r.Value = fmt.Appendf(nil, ` {"amount":%s, "id":%q}`, strings.TrimPrefix(c.ID, "c"), c.ID)
		case -2:
			conflicts++
		}
	}
	return records, conflicts
}

func TestDrill(t *testing.T) {
	n, kills := 3000, 3
	if os.Getenv(envFull) != "" {
		n, kills = 100_000, 10
	}
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) { drill(t, c, n, kills) })
}

func drill(t *testing.T, c *cluster.Cluster, n, kills int) {
	g := newGateway()
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	s := settings{
		Brokers: c.Brokers(), Application: c.Name(t, "app"), StateDir: filepath.Join(t.TempDir(), "state"), Gateway: server.URL,
		Mode: "LIVE", In: c.Name(t, "in"), Captured: c.Name(t, "captured"), Refused: c.Name(t, "refused"),
		Replay: c.Name(t, "replay"), Dead: c.Name(t, "dead"),
	}
	c.CreateTopics(t, partitions, s.In, s.Captured, s.Refused, s.Replay, s.Dead)
	records, conflicts := requests(n)
	producer := c.Client(t, kgo.DefaultProduceTopic(s.In))
	if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	results := follow(t, c, s.Captured, s.Refused)
	p := launch(t, s)
	for kill := range kills {
		p.Await("progress", func() bool { return results.read(t) >= (kill+1)*n/(kills+2) })
		p.Tell(syscall.SIGKILL)
		p.Killed()
		p = launch(t, s)
	}
	p.Await("every end", func() bool { return results.read(t) >= n })
	again := records[:min(100, n)]
	for _, r := range again {
		*r = kgo.Record{Key: r.Key, Value: r.Value}
	}
	if err := producer.ProduceSync(t.Context(), again...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	answers := 0
	for _, r := range again {
		if !bytes.Contains(r.Value, []byte(`"amount":-2`)) {
			answers++
		}
	}
	p.Await("answers to duplicates", func() bool { results.read(t); return results.replayed >= answers })
	p.Stop()
	conflicts += len(again) - answers
	judge(t, c, s, g, results, n, conflicts)

	// Everything again, in a replay: what is known is built anew, and nothing is called.
	before := len(g.calls)
	s.Application, s.StateDir, s.Mode = c.Name(t, "replay-app"), filepath.Join(t.TempDir(), "replay"), "REPLAY"
	suppressed := follow(t, c, s.Replay)
	p = launch(t, s)
	p.Await("the replay", func() bool { return suppressed.read(t) >= n })
	p.Stop()
	if g.mu.Lock(); len(g.calls) != before {
		t.Errorf("a replay has called the gateway %d times", len(g.calls)-before)
	}
	g.mu.Unlock()
}

// judge compares what the gateway has done with what was told.
func judge(t *testing.T, c *cluster.Cluster, s settings, g *gateway, results *results, n, conflicts int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	captured, twice, calls := 0, 0, 0
	for key, times := range g.captured {
		captured++
		if times > 1 {
			twice++
			t.Errorf("%s was captured %d times", key, times)
		}
	}
	for _, times := range g.calls {
		calls += times
	}
	completed, failed := 0, 0
	for id, end := range results.ends {
		key := effect.IdempotencyKey("capture", id)
		switch {
		case results.told[id] != 1:
			t.Errorf("the end of %s was told %d times", id, results.told[id])
		case end == effect.Completed && g.captured[key] != 1, end != effect.Completed && g.captured[key] != 0:
			t.Errorf("%s is %s and was captured %d times", id, end, g.captured[key])
		case end == effect.Completed:
			completed++
		default:
			failed++
		}
	}
	if completed != captured || completed+failed != n {
		t.Errorf("%d of %d completed and %d failed, and %d were captured", completed, n, failed, captured)
	}
	if letters := len(c.Records(t, s.Dead)); letters != conflicts {
		t.Errorf("there are %d dead letters for %d conflicts", letters, conflicts)
	}
	t.Logf("%d requests: %d captured, %d twice, %d refused for good; %d calls, %d lookups, %d replies lost, "+
		"%d refusals; %d answers replayed; %d conflicts", n, captured, twice, failed, calls,
		g.lookups, g.lost, g.refused, results.replayed, conflicts)
}

func launch(t *testing.T, s settings) *instance.Process {
	t.Helper()
	cmd, err := measure.Self(context.Background(), envInstance, s)
	if err != nil {
		t.Fatal(err)
	}
	return instance.Launch(t, cmd, instance.NewLog(t, "the application"))
}

// results are the ends of effects as a consumer sees them who reads committed records only.
type results struct {
	client   *kgo.Client
	ends     map[string]effect.Status
	told     map[string]int
	replayed int
}

func follow(t *testing.T, c *cluster.Cluster, topics ...string) *results {
	return &results{
		client: c.Client(t, kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond)),
		ends: map[string]effect.Status{}, told: map[string]int{},
	}
}

// read returns how many effects have come to an end so far.
func (r *results) read(t *testing.T) int {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	f := r.client.PollFetches(ctx)
	for _, err := range f.Errors() {
		if !errors.Is(err.Err, context.DeadlineExceeded) {
			t.Fatal(err.Err)
		}
	}
	codec := schemas.JSON[effect.Result]()
	f.EachRecord(func(rec *kgo.Record) {
		v, err := codec.Decode(rec.Value)
		if err != nil {
			t.Fatal(err)
		}
		if v.Replayed {
			r.replayed++
			return
		}
		r.ends[v.ID] = v.Status
		r.told[v.ID]++
	})
	return len(r.ends)
}
