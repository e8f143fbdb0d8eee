package capture

import (
	"flag"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/schemas"
)

// partitions is how many every topic has.
const partitions = 4

var full = flag.Bool("full", false, "100,000 captures and 10 kills, as make drill does")

// programApp is the application as a process.
const programApp = "app"

func TestMain(m *testing.M) {
	instance.Main(m, instance.Programs{programApp: func() { os.Exit(Command(os.Args[1:])) }})
}

// TestDrill is what the package says. It is requirement C2 for messages and for requests, H3 where
// a gateway does not know what it has done, I2 and I3. Row of the failure matrix: duplicate
// delivery.
func TestDrill(t *testing.T) {
	n, kills := 3000, 3
	if *full {
		n, kills = 100_000, 10
	}
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		began := time.Now()
		s := newScene(t, c)
		s.underKills(n, kills)
		s.countedLife(n / 10)
		s.replay()
		t.Logf("%d requests and %d kills in %s", len(s.requests.all), kills, time.Since(began).Round(time.Second))
	})
}

// scene is the application on a cluster, with everything that was fed to it and all that was seen
// of it.
type scene struct {
	*follower
	t           *testing.T
	cluster     *cluster.Cluster
	settings    Settings
	application string
	// dir has the state of every instance, and sockets their metrics: the directory of a test has a
	// path that can be too long for one.
	dir, sockets string
	gateway      *Gateway
	requests     *requests
	producer     *kgo.Client
	// answered is how many questions people have answered.
	answered int
}

func newScene(t *testing.T, c *cluster.Cluster) *scene {
	t.Helper()
	sockets, err := os.MkdirTemp("", "capture")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(sockets); err != nil {
			t.Error(err)
		}
	})
	s := &scene{
		t: t, cluster: c, settings: Settings{Requests: c.Name(t, "requests")},
		dir: t.TempDir(), sockets: sockets, gateway: NewGateway(), requests: newRequests(),
	}
	server := httptest.NewServer(s.gateway)
	t.Cleanup(server.Close)
	s.settings.Gateway = server.URL
	c.CreateTopics(t, partitions, s.settings.Requests)
	s.producer = c.Client(t, kgo.DefaultProduceTopic(s.settings.Requests))
	s.begin("live")
	return s
}

// begin makes the topics of an application that has told nothing yet.
func (s *scene) begin(name string) {
	s.t.Helper()
	s.application, s.settings.Prefix = s.cluster.Name(s.t, name), s.cluster.Name(s.t, name)+"-"
	var topics []string
	for _, topic := range Topics {
		topics = append(topics, s.settings.Prefix+topic)
	}
	s.cluster.CreateTopics(s.t, partitions, topics...)
	s.follower, s.answered = follow(s.t, s.cluster, s.settings.Prefix), 0
}

// pace is how long a life waits for an answer to a call, and how long its group and its
// transactions wait for the life.
type pace struct{ call, session, transaction time.Duration }

var (
	// hurried is for lives that are killed, because claims, memberships and transactions that they
	// leave behind are waited for.
	hurried = pace{timeout, 10 * time.Second, 10 * time.Second}
	// patient is for lives whose metrics are compared. An answer that comes after its timeout is in
	// the books of the gateway, and for the application it is none; a life that brokers take for
	// gone leaves its claims to expire. Neither is to follow from a slow machine.
	patient = pace{instance.Patience, instance.Patience, 2 * instance.Patience}
)

// launch begins a life of an instance.
func (s *scene) launch(name, mode string, waits pace) *instance.Process {
	s.t.Helper()
	cmd := exec.Command(instance.Program(s.t, programApp), "run", "--brokers", strings.Join(s.cluster.Brokers(), ","), "--application", s.application,
		"--instance", name, "--state-dir", s.stateDir(name), "--mode", mode, "--session-timeout", waits.session.String(),
		"--transaction-timeout", waits.transaction.String(), "--http", "unix:"+s.socket(name))
	cmd.Env = append(os.Environ(), EnvRequests+"="+s.settings.Requests, EnvPrefix+"="+s.settings.Prefix, EnvGateway+"="+s.settings.Gateway,
		EnvTimeout+"="+waits.call.String())
	return instance.Launch(s.t, cmd, instance.NewLog(s.t, "instance "+name))
}

func (s *scene) stateDir(name string) string { return filepath.Join(s.dir, name) }
func (s *scene) socket(name string) string   { return filepath.Join(s.sockets, name) }

// feed writes requests.
func (s *scene) feed(more []request) {
	s.t.Helper()
	if err := s.producer.ProduceSync(s.t.Context(), recordsOf(more)...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
}

// watch looks at what the application tells, and answers as people do, who can look into the books
// of the gateway.
func (s *scene) watch() {
	s.t.Helper()
	s.look()
	for ; s.answered < len(s.asked); s.answered++ {
		q := s.asked[s.answered]
		said := effect.Resolution{ID: q.result.ID, Attempts: q.result.Attempts, Status: effect.FailedRetryable, By: "the back office"}
		if s.gateway.Captured(q.result.IdempotencyKey) > 0 {
			said.Status, said.Response = effect.Completed, []byte(receipt)
		}
		value, err := schemas.JSON[effect.Resolution]().Append(nil, said)
		if err != nil {
			s.t.Fatal(err)
		}
		r := &kgo.Record{Topic: s.settings.Prefix + TopicResolutions, Key: q.key, Value: value}
		if err := s.producer.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// reach waits for that many ends. Every thousand has a patience of its own.
func (s *scene) reach(p *instance.Process, ends int) {
	s.t.Helper()
	for have := len(s.ends); have < ends; have = len(s.ends) {
		p.Await("more ends", func() bool { s.watch(); return len(s.ends) >= min(ends, have+1000) })
	}
}

// finish waits until all requests have led to what they have to lead to.
func (s *scene) finish(p *instance.Process, live bool) {
	s.t.Helper()
	goal := goalOf(s.requests.all, live)
	s.reach(p, goal.ends)
	p.Await("every decision and dead letter", func() bool { s.watch(); return goal.reached(s.seen) })
}

// underKills feeds requests to two instances, and kills them in turns.
func (s *scene) underKills(n, kills int) {
	s.t.Helper()
	s.requests.more(n)
	s.feed(s.requests.all)
	names := [2]string{"one", "two"}
	p := [2]*instance.Process{s.launch(names[0], "live", hurried), s.launch(names[1], "live", hurried)}
	for kill := range kills {
		victim := kill % 2
		s.reach(p[1-victim], (kill+1)*n/(kills+2))
		p[victim].Tell(syscall.SIGKILL)
		p[victim].Killed()
		p[victim] = s.launch(names[victim], "live", hurried)
	}
	s.finish(p[0], true)
	p[0].Stop()
	p[1].Stop()
	s.judge()
}

// judge looks at everything once more, when it can become no more.
func (s *scene) judge() {
	s.t.Helper()
	all := s.requests.all
	told := read(s.t, s.cluster, s.settings.Prefix)
	if err := told.judge(all, s.gateway); err != nil {
		s.t.Error(err)
	}
	b := s.gateway.Books()
	for what, n := range map[string]int{
		"lost replies": b.Lost, "calls that had to come again": b.Busy, "calls that were declined": b.Declined, "lookups that told": b.Found,
		"lookups that did not": b.Pending, "lookups that failed": b.Failed, "questions to people": s.answered,
		"captures that were asked for in several partitions": apart(all),
	} {
		if n == 0 {
			s.t.Errorf("there were no %s: nothing is shown of them", what)
		}
	}
	s.t.Logf("%d requests for %d captures, %d of them in several partitions: decisions %v; dead letters %v; the gateway has answered %+v, "+
		"and people %d times", len(all), len(told.ends), apart(all), told.decisions.totals, told.dead, b, s.answered)
}

// countedLife is a life that is not ended before its time, so that its metrics count all that it
// was fed.
func (s *scene) countedLife(n int) {
	s.t.Helper()
	before, asked, from := s.gateway.Books(), len(s.asked), len(s.requests.all)
	s.requests.again(100)
	s.requests.more(n)
	more := s.requests.all[from:]
	p := s.launch("one", "live", patient)
	s.feed(more)
	s.finish(p, true)
	s.wantMetrics("one", outcomesOf(more, s.gateway.Books().since(before), len(s.asked)-asked), len(more))
	p.Stop()
	s.judge()
}

// replay reads everything again, in an application of its own: it builds the same state, and makes
// no calls.
func (s *scene) replay() {
	s.t.Helper()
	before, live := s.gateway.Books(), readRows(s.t, s.stateDir("one"))
	s.begin("replay")
	p := s.launch("replay", "replay", patient)
	s.finish(p, false)
	s.wantMetrics("replay", outcomesOfReplay(s.requests.all), len(s.requests.all))
	p.Stop()
	if err := read(s.t, s.cluster, s.settings.Prefix).judgeReplay(s.requests.all); err != nil {
		s.t.Error(err)
	}
	if after := s.gateway.Books(); after != before {
		s.t.Errorf("a replay has called the gateway: %+v before, and %+v after it", before, after)
	}
	if err := compareRows(s.requests.all, live, readRows(s.t, s.stateDir("replay"))); err != nil {
		s.t.Errorf("rows: %v", err)
	}
}

// wantMetrics wants the metrics of an instance to come to this. They may be behind what has been
// told: they count a round once it is applied.
func (s *scene) wantMetrics(name string, outcomes map[string]int, records int) {
	s.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(instance.Patience)
	for {
		err := scrape(s.t, s.socket(name), s.settings.Requests).difference(outcomes, records)
		if err == nil {
			s.t.Logf("the metrics of instance %s: %v of %d records", name, outcomes, records)
			return
		}
		select {
		case <-tick.C:
		case <-late:
			s.t.Error(err)
			return
		}
	}
}
