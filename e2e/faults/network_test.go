package faults

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/proxy"
)

// TestNetwork: the whole network fails, in one direction or in both, or loses its connections, and nothing is lost or repeated.
func TestNetwork(t *testing.T) {
	partition := func(directions ...proxy.Direction) func(*scenario) {
		return func(s *scenario) {
			s.proxy.Partition(directions...)
			during(s, span)
			s.proxy.Heal()
		}
	}
	failures := map[string]func(*scenario){
		"no requests arrive": partition(proxy.ToBroker),
		"no replies arrive":  partition(proxy.ToClient),
		"nothing arrives":    partition(),
		// Beyond the session and the transaction timeout: the group and the coordinator have given the instance up.
		"nothing arrives for long": func(s *scenario) {
			s.proxy.Partition()
			during(s, sessionTimeout+transactionTimeout)
			s.proxy.Heal()
		},
		"connections are reset": func(s *scenario) {
			for range 10 {
				s.reset()
				during(s, span/10)
			}
		},
	}
	names := slices.Sorted(maps.Keys(failures))
	named := func(name string) string { return name }
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		cluster.Cells(t, len(names), names, named, func(t *testing.T, name string) {
			s := newScenario(t, c)
			i := s.start(t.TempDir())
			stop := s.feeding()
			defer stop()
			s.must(s.until(s.ctx, 50, i))
			failures[name](s)
			s.must(s.until(s.ctx, s.total()+50, i))
			stop()
			s.check(i)
		})
	})
}

// reset resets what connections there are, as soon as there are any: after a reset the client backs off, and on a busy machine it may be
// that none is open again when the next one is due.
func (s *scenario) reset() {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for s.proxy.ResetAll() == 0 {
		select {
		case <-again.C:
		case <-s.ctx.Done():
			s.t.Fatal("the application has opened no connection that could be reset")
		}
	}
}

// during lets a failure last.
func during(s *scenario, d time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	<-ctx.Done()
}
