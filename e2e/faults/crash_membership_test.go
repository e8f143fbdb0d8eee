//go:build unix

package faults

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
)

// onEach runs f with a scene of its own on virtual time, or on real Kafka in a process that tests
// on it.
func onEach(t *testing.T, f func(s *crashScene)) {
	t.Helper()
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) { f(newCrashScene(t, c)) })
}

// TestGivenBack: tasks go to another instance and come back to the same member, first in order,
// then because the other one was killed with a transaction open.
func TestGivenBack(t *testing.T) {
	onEach(t, func(s *crashScene) {
		l := s.start("the first instance", s.settings)
		for range 2 {
			s.feed(2 * batch)
			s.finish(l.Alive)
			other := s.start("the second instance", s.other())
			s.feedUntil(has(other, 1), "the second instance having a task", l.Alive)
			other.End()
		}
		s.feed(batch)
		s.finish(l.Alive)
		p := s.startArmed(s.other(), "offsets-after=kill,skip=2", "failpoint offsets-after kill")
		s.feedUntil(closed(p.hits[0]), "offsets-after", l.Alive)
		p.Killed()
		s.feed(batch)
		s.finish(l.Alive)
		s.checkState(l)
		l.End()
		s.fromNothing()
		s.checkTopics()
	})
}

// TestOneDirectoryTwice: a second process on the same state directory ends at once and says why;
// the first does not notice.
func TestOneDirectoryTwice(t *testing.T) {
	onEach(t, func(s *crashScene) {
		l := s.start("the first process", s.settings)
		s.feed(batch)
		s.finish(l.Alive)
		p := s.startArmed(s.settings, "")
		if err := p.Wait(); err == nil || !strings.Contains(fmt.Sprint(p.log, err), "the state directory is in use") {
			s.t.Errorf("the second process ended with %v and said:\n%s", err, p.log)
		}
		s.feed(batch)
		s.finish(l.Alive)
		s.checkState(l)
		l.End()
		s.checkTopics()
	})
}

// TestOneInstanceTwice: a second process with the same instance name and a directory of its own
// fences the first, which ends and says why. Nothing is lost or doubled, and the second one
// finishes.
func TestOneInstanceTwice(t *testing.T) {
	onEach(t, func(s *crashScene) {
		p := s.startArmed(s.settings, "")
		s.feed(2 * batch)
		s.finish(p.Alive)
		twin := s.settings
		twin.StateDir = filepath.Join(filepath.Dir(twin.StateDir), "twin")
		l := s.start("the twin", twin)
		s.feedUntil(closed(p.Ended()), "the end of the first", l.Alive)
		if err := p.Wait(); err == nil || !strings.Contains(fmt.Sprint(p.log, err), `another process runs as instance "first"`) {
			s.t.Errorf("the first process ended with %v and does not say why", err)
		}
		s.feed(batch)
		s.finish(l.Alive)
		s.checkState(l)
		l.End()
		s.fromNothing()
		s.checkTopics()
	})
}

// TestFreezeInsideRebalance freezes a member with a transaction open, starts a rebalance, and thaws
// it before its session is over. Row of the failure matrix: rebalance in mid-batch.
func TestFreezeInsideRebalance(t *testing.T) {
	onEach(t, func(s *crashScene) {
		if !s.virtual() { // how long the process is frozen is the machine's business
			s.settings.SessionTimeout, s.settings.TransactionTimeout = time.Minute, time.Minute
		}
		p := s.startArmed(s.settings, "offsets-after=freeze,skip=5", "failpoint offsets-after freeze")
		s.feedUntil(closed(p.hits[0]), "offsets-after", p.Alive)
		other := s.start("the second instance", s.other())
		s.rebalancing()
		p.Thaw()
		s.feed(batch)
		s.finish(p.Alive)
		p.Cancel()
		if err := p.Wait(); err != nil {
			s.t.Errorf("the process that was frozen ended with %v", err)
		}
		s.feed(batch)
		s.finish(other.Alive)
		s.checkState(other)
		other.End()
		s.fromNothing()
		s.checkTopics()
	})
}

// rebalancing waits until the group wants its members to join again.
func (s *crashScene) rebalancing() {
	s.t.Helper()
	await(s.t, s.patience, "the rebalance", func() error {
		groups, err := s.cluster.Admin().DescribeGroups(s.t.Context(), s.settings.Application)
		if err != nil {
			s.t.Fatal(err)
		}
		if state := groups[s.settings.Application].State; state != "PreparingRebalance" {
			return fmt.Errorf("the group is %s", state)
		}
		return nil
	})
}
