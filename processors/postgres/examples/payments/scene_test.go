package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// programPayments is the program as a process.
const programPayments = "payments"

func TestMain(m *testing.M) {
	instance.Main(m, instance.Programs{programPayments: func() { os.Exit(run(os.Args[1:], os.Stderr)) }})
}

const (
	partitions = 4
	instances  = 2 // of each role
)

// The roles of processes.
const (
	roleService  = "service"
	roleRelay    = "relay"
	roleTopology = "topology"
	roleSink     = "sink"
)

var roles = []string{roleService, roleRelay, roleTopology, roleSink}

// member is one process of a role.
type member struct {
	role   string
	number int
}

func (m member) String() string { return fmt.Sprintf("%s-%d", m.role, m.number) }

// scene is the whole chain on a cluster and a database server, and its clients.
type scene struct {
	t       *testing.T
	cluster *cluster.Cluster
	server  *pgtest.Server
	db      *pgtest.Database
	topics  topics
	dir     string
	clients *clients

	processes map[member]*instance.Process

	mu        sync.Mutex
	addresses [services]string
}

// newScene starts a database server, creates topics and tables, and starts all processes. A role
// that is replaced has no processes.
func newScene(t *testing.T, c *cluster.Cluster, replaced map[string]func(s *scene)) *scene {
	t.Helper()
	s := &scene{
		t: t, cluster: c, topics: topicsOf(c.Name(t, "payments") + "-"), dir: t.TempDir(),
		processes: map[member]*instance.Process{},
	}
	s.server, s.db = pgtest.Own(t)
	c.CreateTopics(t, partitions, s.topics.steps.Name(), s.topics.facts.Name(), s.topics.refused.Name(), s.topics.balances.Name(), s.topics.dead)
	if err := s.launch(member{"migrate", 0}).Wait(); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles {
		if replace := replaced[role]; replace != nil {
			replace(s)
			continue
		}
		for n := range instances {
			s.start(member{role, n})
		}
	}
	s.clients = newClients(t, s.address)
	return s
}

// launch starts a process.
func (s *scene) launch(m member) *instance.Process {
	s.t.Helper()
	cmd := exec.Command(instance.Program(s.t, programPayments), m.role, "-database", s.db.URL, "-brokers", strings.Join(s.cluster.Brokers(), ","),
		"-prefix", s.topics.prefix, "-listen", "127.0.0.1:0", "-state-dir", filepath.Join(s.dir, m.String()), "-instance", m.String())
	return instance.Launch(s.t, cmd, instance.NewLog(s.t, m.String()))
}

var serving = regexp.MustCompile(`serving address=(\S+)`)

// start starts a process, and waits for the address of a service.
func (s *scene) start(m member) {
	s.t.Helper()
	p := s.launch(m)
	s.processes[m] = p
	if m.role != roleService {
		return
	}
	p.Await("the address of "+m.String(), func() bool {
		found := serving.FindStringSubmatch(p.Log.String())
		if found == nil {
			return false
		}
		s.serves(m.number, found[1])
		return true
	})
}

// serves stores the address of a service.
func (s *scene) serves(number int, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses[number] = address
}

func (s *scene) address(number int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addresses[number]
}

// kill ends a process with SIGKILL and starts its successor.
func (s *scene) kill(m member) {
	s.t.Helper()
	s.processes[m].Tell(syscall.SIGKILL)
	s.processes[m].Killed()
	s.start(m)
}

// stop ends all processes of a role in order.
func (s *scene) stop(role string) {
	s.t.Helper()
	for n := range instances {
		m := member{role, n}
		if p := s.processes[m]; p != nil {
			p.Stop()
			delete(s.processes, m)
		}
	}
}

// outage kills the database server, and starts it again when clients have noticed.
func (s *scene) outage() {
	s.t.Helper()
	s.server.Kill(s.t)
	before := s.clients.unavailable.Load()
	s.await("clients notice that the database is down", func() bool { return s.clients.unavailable.Load() > before })
	s.server.Resume(s.t)
	s.db.Pool.Reset()
}

// await waits for a condition while all processes are there.
func (s *scene) await(what string, is func() bool) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	alive := func() error {
		for m, p := range s.processes {
			if err := p.Alive(); err != nil {
				return fmt.Errorf("%s: %w", m, err)
			}
		}
		return nil
	}
	instance.Await(s.t, what, alive, func() error {
		if is() {
			return nil
		}
		<-tick.C
		return errors.New("it has not come to that")
	})
}

// republish writes the first steps again, as a relay leaves them that dies before it has stored
// that they are published. It adds records that are no steps.
func (s *scene) republish(n int) (poison []*kgo.Record) {
	s.t.Helper()
	var records []*kgo.Record
	for _, r := range s.cluster.Records(s.t, s.topics.steps.Name()) {
		if len(records) < n {
			records = append(records, &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers})
		}
	}
	for i := range 3 {
		poison = append(poison, &kgo.Record{Topic: s.topics.steps.Name(), Key: fmt.Append(nil, "poison-", i), Value: []byte(`{"payment":`),
			Headers: []kgo.RecordHeader{{Key: envelope.HeaderEventID, Value: fmt.Append(nil, "poison-", i)}}})
	}
	client := s.cluster.Client(s.t)
	if err := client.ProduceSync(s.t.Context(), append(records, poison...)...).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	return poison
}

// settle lets the chain finish what it was given, from its beginning to its end, and returns what
// is there then. The processes stop where nothing is left to do, so that no further effect can
// come.
func (s *scene) settle(copies int) *seen {
	s.t.Helper()
	s.await("everything is published", func() bool {
		return s.db.Int(s.t, "SELECT count(*) FROM onceward.outbox WHERE status <> 'PUBLISHED'") == 0
	})
	s.stop(roleRelay)
	poison := s.republish(copies)

	ctx, group, steps := s.t.Context(), s.topics.prefix+"topology", s.topics.steps.Name()
	s.await("the topology has decided about every step", func() bool {
		committed, err := s.cluster.CommittedOffsets(ctx, group, steps)
		if err != nil {
			s.t.Fatal(err)
		}
		ends, err := s.cluster.EndOffsets(ctx, steps)
		if err != nil {
			s.t.Fatal(err)
		}
		for p, end := range ends {
			if end > 0 && committed[steps][p].Offset < end {
				return false
			}
		}
		return true
	})
	moving := 0
	for _, r := range s.cluster.Records(s.t, s.topics.facts.Name()) {
		if _, f, err := s.topics.facts.Decode(r.Key, r.Value); err != nil {
			s.t.Fatal(err)
		} else if f.To == captured || f.To == refunded {
			moving++
		}
	}
	s.await("every capture and refund is in a balance", func() bool {
		return len(s.cluster.Records(s.t, s.topics.balances.Name())) >= moving
	})
	s.stop(roleTopology)

	for _, topic := range []string{s.topics.facts.Name(), s.topics.refused.Name(), s.topics.balances.Name()} {
		last := map[int32]int64{}
		for _, r := range s.cluster.Records(s.t, topic) {
			last[r.Partition] = max(last[r.Partition], r.Offset)
		}
		for partition, offset := range last {
			s.await("the sink has read "+topic, func() bool {
				return s.db.Int(s.t, "SELECT count(*) FROM onceward.sink_offsets WHERE topic = $1 AND partition = $2 AND next_offset > $3",
					topic, partition, offset) == 1
			})
		}
	}
	s.stop(roleSink)
	all := s.look(poison)
	s.clients.client.CloseIdleConnections() // a server that stops waits 5 s for one that was not used yet
	s.stop(roleService)
	return all
}
