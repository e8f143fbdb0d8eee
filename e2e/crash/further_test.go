//go:build unix

package crash

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
)

// onEach runs f with a scene of its own on a broker of the kind that the process tests on.
func onEach(t *testing.T, f func(s *scene)) {
	t.Helper()
	binary := build(t)
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		f(newScene(t, c, c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())), binary))
	})
}

// TestGivenBack: tasks go to another instance and come back to the same member, first in order, then because the other one was
// killed with a transaction open.
func TestGivenBack(t *testing.T) {
	onEach(t, func(s *scene) {
		l := s.start("the first instance", s.settings)
		for range 2 {
			s.feed(2 * batch)
			s.finish(l.Alive)
			other := s.start("the second instance", s.other())
			s.feedUntil(s.has(other, 1), "the second instance having a task", l.Alive)
			other.End()
		}
		s.feed(batch)
		s.finish(l.Alive)
		p := s.startArmed(s.other(), "offsets-after=kill,skip=2", "failpoint offsets-after kill")
		s.feedUntil(p.hits[0], "offsets-after", l.Alive)
		p.Killed()
		s.feed(batch)
		s.finish(l.Alive)
		s.checkState(l)
		l.End()
		s.fromNothing()
		s.checkTopics()
	})
}

// TestOneDirectoryTwice: a second process on the same state directory ends at once and says why; the first does not notice.
func TestOneDirectoryTwice(t *testing.T) {
	onEach(t, func(s *scene) {
		l := s.start("the first process", s.settings)
		s.feed(batch)
		s.finish(l.Alive)
		p := s.startArmed(s.settings, "")
		if err := p.Wait(); err == nil || !strings.Contains(p.Log.String(), "the state directory is in use") {
			s.t.Errorf("the second process ended with %v and said:\n%s", err, p.Log)
		}
		s.feed(batch)
		s.finish(l.Alive)
		s.checkState(l)
		l.End()
		s.checkTopics()
	})
}

// TestOneInstanceTwice: a second process with the same instance name and a directory of its own fences the first, which ends and
// says why. Nothing is lost or doubled, and the second one finishes.
func TestOneInstanceTwice(t *testing.T) {
	onEach(t, func(s *scene) {
		p := s.startArmed(s.settings, "")
		s.feed(2 * batch)
		s.finish(p.Alive)
		twin := s.settings
		twin.StateDir = filepath.Join(filepath.Dir(twin.StateDir), "twin")
		l := s.start("the twin", twin)
		s.feedUntil(p.Ended(), "the end of the first", l.Alive)
		if p.Err() == nil || !strings.Contains(p.Log.String(), `another process runs as instance "first"`) {
			s.t.Errorf("the first process ended with %v and does not say why", p.Err())
		}
		s.feed(batch)
		s.finish(l.Alive)
		s.checkState(l)
		l.End()
		s.fromNothing()
		s.checkTopics()
	})
}

// TestFreezeInsideRebalance freezes a member with a transaction open, starts a rebalance, and thaws it before its session is over.
// Row of the failure matrix: rebalance in mid-batch.
func TestFreezeInsideRebalance(t *testing.T) {
	onEach(t, func(s *scene) {
		s.settings.Patient = true
		p := s.startArmed(s.settings, "offsets-after=freeze,skip=5", "failpoint offsets-after freeze")
		s.feedUntil(p.hits[0], "offsets-after", p.Alive)
		other := s.start("the second instance", s.other())
		s.rebalancing()
		p.Tell(syscall.SIGCONT)
		s.feed(batch)
		s.finish(p.Alive)
		p.Tell(syscall.SIGTERM)
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
func (s *scene) rebalancing() {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		groups, err := s.cluster.Admin().DescribeGroups(s.t.Context(), s.settings.Application)
		if err != nil {
			s.t.Fatal(err)
		}
		if groups[s.settings.Application].State == "PreparingRebalance" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the group is %s", groups[s.settings.Application].State)
		}
		time.Sleep(5 * time.Millisecond) // polls
	}
}
