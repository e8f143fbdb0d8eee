package faults

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
)

// TestNetwork: the whole network fails, in one direction or in both, or loses its connections, and
// nothing is lost or repeated.
func TestNetwork(t *testing.T) {
	t.Parallel()
	eachVirtual(t, failures(), failure.named, runFailure)
}

// TestNetworkOnKafka is TestNetwork where the coordinator is a real one.
func TestNetworkOnKafka(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the network fails before the brokers see anything: make test has it on virtual time, make nightly here")
	}
	eachOnKafka(t, requestsOnKafka, failures(), failure.named, runFailure)
}

// failure is one of the whole network.
type failure struct {
	name string
	do   func(*requestScene)
}

func (f failure) named() string { return f.name }

func failures() []failure {
	partition := func(name string, directions ...proxy.Direction) failure {
		return failure{name, func(s *requestScene) {
			s.link.Partition(directions...)
			during(s, s.timing.span)
			s.link.Heal()
		}}
	}
	return []failure{
		partition("no requests arrive", proxy.ToBroker),
		partition("no replies arrive", proxy.ToClient),
		partition("nothing arrives"),
		// Beyond the session and the transaction timeout: the group and the coordinator have given
		// the instance up.
		{"nothing arrives for long", func(s *requestScene) {
			s.link.Partition()
			during(s, s.timing.outage)
			s.link.Heal()
		}},
		{"connections are reset", func(s *requestScene) {
			for range 10 {
				s.must(s.link.reset(s.ctx))
				during(s, s.timing.span/10)
			}
		}},
	}
}

func runFailure(t *testing.T, c *cluster.Cluster, f failure) {
	s := newRequestScene(t, c)
	i := s.start(s.t.TempDir())
	stop := s.feeding()
	defer stop()
	s.must(s.until(s.ctx, 50, i))
	f.do(s)
	s.must(s.until(s.ctx, s.total()+50, i))
	stop()
	s.check(i)
}

// during lets a failure last.
func during(s *requestScene, d time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	<-ctx.Done()
}
