package drill_test

import (
	"context"
	"errors"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
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

func TestDrill(t *testing.T) {
	n, kills := 3000, 3
	if os.Getenv(envFull) != "" {
		n, kills = 100_000, 10
	}
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) { drill(t, c, n, kills) })
}

// TestGatewayIsUnforgiving is the negative control: who calls again where the outcome is not known captures twice here.
func TestGatewayIsUnforgiving(t *testing.T) {
	const n = 300
	c := cluster.Embedded(t)
	g, s := newGateway(), newSettings(t, c)
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	s.Gateway, s.Blind = server.URL, true
	producer := c.Client(t, kgo.DefaultProduceTopic(s.In))
	if err := producer.ProduceSync(t.Context(), recordsOf(requestsFor(n))...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	results := follow(t, c, s.Captured, s.Refused)
	p := launch(t, s.instance("one"))
	results.reach(t, p, n)
	p.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	twice := 0
	for _, times := range g.captured {
		if times > 1 {
			twice++
		}
	}
	if g.lost == 0 || twice == 0 {
		t.Errorf("%d replies were lost, and %d requests captured twice: the drill could not fail", g.lost, twice)
	}
}

// newSettings are those of an application on topics of its own.
func newSettings(t *testing.T, c *cluster.Cluster) settings {
	s := settings{
		Brokers: c.Brokers(), Application: c.Name(t, "app"), StateDir: filepath.Join(t.TempDir(), "state"), Mode: "LIVE",
		In: c.Name(t, "in"), Captured: c.Name(t, "captured"), Refused: c.Name(t, "refused"), Replay: c.Name(t, "replay"),
		Dead: c.Name(t, "dead"), Socket: socket(t),
	}
	c.CreateTopics(t, partitions, s.In, s.Captured, s.Refused, s.Replay, s.Dead)
	return s
}

func drill(t *testing.T, c *cluster.Cluster, n, kills int) {
	began := time.Now()
	g, s := newGateway(), newSettings(t, c)
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	s.Gateway = server.URL
	all := requestsFor(n)
	producer := c.Client(t, kgo.DefaultProduceTopic(s.In))
	if err := producer.ProduceSync(t.Context(), recordsOf(all)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	results := follow(t, c, s.Captured, s.Refused)
	two := [2]settings{s.instance("one"), s.instance("two")}
	p := [2]*instance.Process{launch(t, two[0]), launch(t, two[1])}
	for kill := range kills {
		victim := kill % 2
		results.reach(t, p[1-victim], (kill+1)*n/(kills+2))
		p[victim].Tell(syscall.SIGKILL)
		p[victim].Killed()
		p[victim] = launch(t, two[victim])
	}
	results.reach(t, p[0], n)
	late, before := again(all[:100]), results.replayed
	all = append(all, late...)
	if err := producer.ProduceSync(t.Context(), recordsOf(late)...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	p[0].Await("answers to duplicates", func() bool {
		results.read(t)
		return results.replayed >= before+fates(late)[0] && consumed(t, c, s)
	})
	for i, s := range two {
		last := scrape(t, s.Socket, s.In)
		t.Logf("instance %s, since it was started last: %d records, outcomes %v", s.Instance, last.records, last.outcomes)
		p[i].Stop()
	}
	judge(t, c, s, g, results, n, all)
	t.Logf("%d records and %d kills in %s", len(all), kills, time.Since(began).Round(time.Second))
	replay(t, c, s, g, n, all)
}

// consumed reports whether the requests are behind the application, their dead letters included.
func consumed(t *testing.T, c *cluster.Cluster, s settings) bool {
	t.Helper()
	lags, err := c.Admin().Lag(t.Context(), s.Application)
	if err == nil {
		err = lags.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	of := lags[s.Application].Lag[s.In]
	for _, lag := range of {
		if lag.Lag != 0 {
			return false
		}
	}
	return len(of) == partitions
}

// replay reads everything again: what is known is built anew, nothing is called, and the metrics of the process, which
// nobody kills, say of every record what became of it.
func replay(t *testing.T, c *cluster.Cluster, s settings, g *gateway, n int, all []request) {
	before := g.total()
	s.Application, s.Mode = c.Name(t, "replay-app"), "REPLAY"
	s = s.instance("replay")
	suppressed := follow(t, c, s.Replay)
	p := launch(t, s)
	suppressed.reach(t, p, n)
	var got counters
	p.Await("every record", func() bool { got = scrape(t, s.Socket, s.In); return got.records >= len(all) })
	p.Stop()
	if made := g.total() - before; made != 0 {
		t.Errorf("a replay has called the gateway %d times", made)
	}
	want := map[string]int{"suppressed": fates(all)[0]}
	for _, class := range deadly {
		want["dead-letter-"+class.String()] = fates(all)[class]
	}
	if !maps.Equal(got.outcomes, want) || got.records != len(all) {
		t.Errorf("the metrics of the replay are %v, want %v of %d records", got, want, len(all))
	}
	t.Logf("replay: %d records, outcomes %v", got.records, got.outcomes)
}

// socket returns the path of a socket; the directory of a test has a path that can be too long for one.
func socket(t *testing.T) string {
	dir, err := os.MkdirTemp("", "drill")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "http")
}

// deadly are the classes of what cannot be done.
var deadly = []topology.Class{topology.Conflict, topology.Validation, topology.Poison}

// judge compares what the gateway has done with what was told.
func judge(t *testing.T, c *cluster.Cluster, s settings, g *gateway, results *results, n int, all []request) {
	calls := g.total()
	g.mu.Lock()
	defer g.mu.Unlock()
	captured, twice := 0, 0
	for key, times := range g.captured {
		captured++
		if times > 1 {
			twice++
			t.Errorf("%s was captured %d times", key, times)
		}
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
	want, letters := fates(all), lettersOf(t, c, s.Dead)
	for _, class := range deadly {
		if letters[class] != want[class] || want[class] == 0 {
			t.Errorf("there are %d dead letters of class %s, want %d", letters[class], class, want[class])
		}
	}
	t.Logf("%d requests: %d captured, %d twice, %d refused for good; %d calls, %d lookups, %d replies lost, "+
		"%d refusals; %d answers replayed; dead letters %v", n, captured, twice, failed, calls, g.lookups, g.lost, g.refused,
		results.replayed, letters)
}

// lettersOf counts dead letters by class.
func lettersOf(t *testing.T, c *cluster.Cluster, topic string) map[topology.Class]int {
	t.Helper()
	counts := map[topology.Class]int{}
	for _, r := range c.Records(t, topic) {
		headers := make([]topology.Header, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = topology.Header{Key: h.Key, Value: h.Value}
		}
		info, err := topology.ParseDeadLetter(headers)
		if err != nil {
			t.Fatal(err)
		}
		counts[info.Class]++
	}
	return counts
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

// reach waits for that many ends. Every thousand has a patience of its own.
func (r *results) reach(t *testing.T, p *instance.Process, ends int) {
	t.Helper()
	for have := len(r.ends); have < ends; have = len(r.ends) {
		p.Await("more ends", func() bool { return r.read(t) >= min(ends, have+1000) })
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
