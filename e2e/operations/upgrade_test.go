package operations_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

// generationsMax is how many generations the exchange of an instance may take. It leaves, the
// others take its tasks, it comes back as the other build, and tasks move to it: each is one
// generation, or two where a task is given up first.
const generationsMax = 6

// TestRollingUpgradeAndRollback: three instances are exchanged for those of the next build, one by
// one, and back, while records are processed.
func TestRollingUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s := newUpgradeScene(t, c)
		instances := []string{"a", "b", "c"}
		dirs, processes := map[string]string{}, map[string]*process{}
		for _, instance := range instances {
			dirs[instance] = t.TempDir()
			processes[instance] = s.start(s.this, instance, dirs[instance], "")
		}
		rest := s.settle(instances)
		began, exchanges := rest.generation, 0
		leaders := map[byte]int{rest.leader: 1}
		last := s.writers(rest)
		var upgraded, rolledBack int
		for _, step := range []struct {
			build string
			minor byte
			order []string
		}{{s.next, nextMinor, instances}, {s.this, thisMinor, []string{"b", "a", "c"}}} {
			for _, instance := range step.order {
				s.endFed(processes[instance])
				processes[instance] = s.start(step.build, instance, dirs[instance], "")
				exchanges++
				v := s.settle(instances)
				if v.members[instance].minor != step.minor {
					t.Errorf("instance %s tells minor version %d, want %d", instance, v.members[instance].minor, step.minor)
				}
				leaders[v.leader]++
				now := s.writers(v)
				for p := range now {
					switch {
					case now[p] && !last[p]:
						upgraded++
					case !now[p] && last[p]:
						rolledBack++
					}
				}
				last = now
			}
		}
		v := s.view()
		took := v.generation - began
		t.Logf("%d exchanges took %d generations; plans by this build %d, by the next %d; tasks went %d times to the next build and %d times back",
			exchanges, took, leaders[thisMinor], leaders[nextMinor], upgraded, rolledBack)
		if took > uint32(exchanges*generationsMax) {
			t.Errorf("%d exchanges took %d generations", exchanges, took)
		}
		if upgraded == 0 || rolledBack == 0 || leaders[thisMinor] == 0 || leaders[nextMinor] == 0 {
			t.Error("both builds have to take tasks over from the other, and to lead")
		}
		for range 20 {
			s.feed(5)
			s.commits()
		}
		if now := s.view(); now.plan != v.plan {
			t.Errorf("the group is at rest, and there is another plan: %+v, was %+v", now, v)
		}
		s.checkExact()
	})
}

// writers returns, for each partition, whether its last commit is of the next build. It has to be
// that of its owner.
func (s *upgradeScene) writers(v upgradeView) (out [upgradePartitions]bool) {
	s.t.Helper()
	s.feed(1)
	for p, c := range s.commits() {
		out[p] = byNext(s.t, c)
		for instance, m := range v.members {
			if slices.Contains(m.assigned, int32(p)) && out[p] != (m.minor == nextMinor) {
				s.t.Errorf("partition %d of instance %s has the commit %q of the other build", p, instance, c.Metadata)
			}
		}
	}
	return out
}

// TestTasksOfNewerCommitsStopAlone: tasks whose last commit is of a newer major version stop in the
// older build, say why, and keep their commits. Their neighbours go on, and the tasks do when the
// newer build has them again.
func TestTasksOfNewerCommitsStopAlone(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s := newUpgradeScene(t, c)
		dirs := map[string]string{"old": t.TempDir(), "new": t.TempDir()}
		old := s.start(s.this, "old", dirs["old"], "")
		s.until("the older build to join", 1, func() string { return s.view().evenly(upgradePartitions, "old") })
		newer := s.start(s.next, "new", dirs["new"], "metadata")
		s.until("the newer build to join", 1, func() string { return s.view().evenly(upgradePartitions/2, "old", "new") })
		s.feed(20)
		before := s.commits()
		newer.Stop()
		stopped := map[int]bool{}
		for p, c := range before {
			stopped[p] = strings.HasPrefix(c.Metadata, "ow2:")
		}
		s.until("the tasks of the newer build to stop", 0, func() string {
			tasks := old.status().Tasks
			for _, task := range tasks {
				switch {
				case !stopped[int(task.ID.Partition)] && task.State == txn.TaskRunning:
				case task.State != txn.TaskStopped || !strings.Contains(task.Reason, "version 2, this build reads 1"):
					return fmt.Sprintf("the tasks are %+v", tasks)
				}
			}
			if len(tasks) < upgradePartitions {
				return "there are fewer tasks"
			}
			return ""
		})
		s.feed(20)
		s.until("the neighbours to go on", 0, func() string {
			for p, c := range s.committed() {
				if stopped[p] && c != before[p] {
					t.Fatalf("the stopped task %d has committed %+v after %+v", p, c, before[p])
				}
				if !stopped[p] && c.Offset < s.fed {
					return fmt.Sprintf("partition %d is at %d of %d", p, c.Offset, s.fed)
				}
			}
			return ""
		})
		old.Tell(syscall.SIGTERM)
		old.refused("tasks are stopped", "version 2, this build reads 1")
		s.start(s.next, "new", dirs["new"], "metadata")
		s.checkExact()
	})
}

// TestBuildsTakeTurns: one state directory is used by both builds in turn. Each finds the state
// where the other has left it.
func TestBuildsTakeTurns(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s := newUpgradeScene(t, c)
		dir := t.TempDir()
		for turn, build := range []string{s.this, s.next, s.this, s.next} {
			p := s.start(build, "a", dir, "")
			s.until("the tasks to run", 0, func() string { return running(p.status(), upgradePartitions) })
			for _, task := range p.status().Tasks {
				if task.Restored > 0 {
					t.Errorf("turn %d: task %s read %d records of its changelog, want its state to be there", turn, task.ID, task.Restored)
				}
			}
			s.feed(50)
			for i, c := range s.commits() {
				if byNext(t, c) != (build == s.next) {
					t.Errorf("turn %d: the commit of partition %d is %q, which is not that of the running build", turn, i, c.Metadata)
				}
			}
			p.Stop()
			meta, err := os.ReadFile(filepath.Join(dir, "meta.json"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(meta), `"next"`) != (turn > 0) {
				t.Errorf("turn %d: meta.json is %s", turn, meta)
			}
		}
		s.checkExact()
	})
}

// TestNewerDirectoryIsRefused: the directory of a newer major version is refused, and the newer
// build goes on with it.
func TestNewerDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s, dir := newUpgradeScene(t, c), t.TempDir()
		s.life(s.this, dir, "")
		s.life(s.next, dir, "state")
		s.refusal(s.this, dir, "meta.json has version 2, this build reads 1", dir, "use the build that wrote it or a newer one")
		s.life(s.next, dir, "state")
		s.checkExact()
	})
}

// TestNewerCommitsAreRefused: when all commits are of a newer major version, no task can be opened.
// The newer build goes on from them.
func TestNewerCommitsAreRefused(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s, dir := newUpgradeScene(t, c), t.TempDir()
		s.life(s.this, dir, "")
		s.life(s.next, dir, "metadata")
		s.refusal(s.this, dir, "its last commit is that of a newer build", "version 2, this build reads 1", "run that build or a newer one")
		s.life(s.next, dir, "metadata")
		s.checkExact()
	})
}

// TestNewerGroupIsNotJoined: the group of a newer major version is not joined, and does not notice.
func TestNewerGroupIsNotJoined(t *testing.T) {
	t.Parallel()
	cluster.Each(t, func(t *testing.T, c *cluster.Cluster) {
		s, dir := newUpgradeScene(t, c), t.TempDir()
		s.life(s.this, dir, "")
		s.start(s.next, "b", t.TempDir(), "plan")
		s.until("the newer build to join", 0, func() string { return s.view().evenly(upgradePartitions, "b") })
		s.feed(20)
		s.commits()
		s.refusal(s.this, dir, "the group "+s.application+" is that of a newer build", "major version 2, this build reads 1")
		s.feed(20)
		s.checkExact()
	})
}

// life lets an instance process something and stop.
func (s *upgradeScene) life(build, dir, major string) {
	s.t.Helper()
	p := s.start(build, "a", dir, major)
	s.feed(20)
	s.commits()
	p.Stop()
}

// refusal starts a build that has to end by itself and say why, and must not change anything in the
// directory or in the group.
func (s *upgradeScene) refusal(build, dir string, says ...string) {
	s.t.Helper()
	files, group, commits := hash(s.t, dir), s.view(), s.committed()
	s.start(build, "a", dir, "").refused(says...)
	if hash(s.t, dir) != files {
		s.t.Error("the refusal changed the directory")
	}
	if now := s.view(); now.state != group.state || now.plan != group.plan || len(now.members) != len(group.members) {
		s.t.Errorf("the refusal made the group %+v, was %+v", now, group)
	}
	if now := s.committed(); !slices.Equal(now, commits) {
		s.t.Errorf("the refusal made the commits %+v, were %+v", now, commits)
	}
}
