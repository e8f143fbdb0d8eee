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
				if s.proxy.ResetAll() == 0 {
					s.t.Error("there was no connection to reset")
				}
				during(s, span/10)
			}
		},
	}
	names := slices.Sorted(maps.Keys(failures))
	named := func(name string) string { return name }
	onEach(t, func(t *testing.T, c *cluster.Cluster) {
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

// during lets a failure last.
func during(s *scenario, d time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, d)
	defer cancel()
	<-ctx.Done()
}
