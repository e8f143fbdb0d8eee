package versions

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/txn"
)

// testTurns: one state directory is used by both builds in turn. Each finds the state where the other has left it.
func testTurns(t *testing.T, e *env) {
	dir := t.TempDir()
	for turn, build := range []string{e.builds.this, e.builds.next, e.builds.this, e.builds.next} {
		next := build == e.builds.next
		p := e.start(build, "a", dir, "")
		e.until("the tasks to run", 0, func() string { return running(p.status(), partitions) })
		for _, task := range p.status().Tasks {
			if task.Restored > 0 {
				t.Errorf("turn %d: task %s read %d records of its changelog, want its state to be there", turn, task.ID, task.Restored)
			}
		}
		e.feed(50)
		for i, c := range e.commits() {
			if byNext(t, c) != next {
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
	e.checkExact()
}

// testNewerDirectory: the directory of a newer major version is refused, and the newer build goes on with it.
func testNewerDirectory(t *testing.T, e *env) {
	dir := t.TempDir()
	e.life(e.builds.this, dir, "")
	e.life(e.builds.next, dir, "state")
	e.refusal(e.builds.this, dir, "meta.json has version 2, this build reads 1", dir, "use the build that wrote it or a newer one")
	e.life(e.builds.next, dir, "state")
	e.checkExact()
}

// testNewerCommits: when all commits are of a newer major version, no task can be opened. The newer build goes on from them.
func testNewerCommits(t *testing.T, e *env) {
	dir := t.TempDir()
	e.life(e.builds.this, dir, "")
	e.life(e.builds.next, dir, "blob")
	e.refusal(e.builds.this, dir, "its last commit is that of a newer build", "version 2, this build reads 1", "run that build or a newer one")
	e.life(e.builds.next, dir, "blob")
	e.checkExact()
}

// testNewerPlan: the group of a newer major version is not joined, and does not notice.
func testNewerPlan(t *testing.T, e *env) {
	dir := t.TempDir()
	e.life(e.builds.this, dir, "")
	e.start(e.builds.next, "b", t.TempDir(), "plan")
	e.until("the newer build to join", 0, func() string { return e.view().evenly(partitions, "b") })
	e.feed(20)
	e.commits()
	e.refusal(e.builds.this, dir, "the group "+e.application+" is that of a newer build", "major version 2, this build reads 1")
	e.feed(20)
	e.checkExact()
}

// life lets an instance process something and stop.
func (e *env) life(build, dir, major string) {
	e.t.Helper()
	p := e.start(build, "a", dir, major)
	e.feed(20)
	e.commits()
	p.Stop()
}

// refusal starts a build that has to end by itself and say why, and must not change anything in the directory or in the group.
func (e *env) refusal(build, dir string, says ...string) {
	e.t.Helper()
	files, group, commits := hash(e.t, dir), e.view(), e.committed()
	e.start(build, "a", dir, "").refused(says...)
	if hash(e.t, dir) != files {
		e.t.Error("the refusal changed the directory")
	}
	if now := e.view(); now.state != group.state || now.plan != group.plan || len(now.members) != len(group.members) {
		e.t.Errorf("the refusal made the group %+v, was %+v", now, group)
	}
	if now := e.committed(); !slices.Equal(now, commits) {
		e.t.Errorf("the refusal made the commits %+v, were %+v", now, commits)
	}
}

// running says what is missing until n tasks run.
func running(s txn.Status, n int) string {
	ok := len(s.Tasks) == n
	for _, task := range s.Tasks {
		ok = ok && task.State == txn.TaskRunning
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("the tasks are %+v", s.Tasks)
}

// testSharedGroup: tasks whose last commit is of a newer major version stop alone in the older build, say why, and keep their commits.
// Their neighbours go on, and they do when the newer build has them again.
func testSharedGroup(t *testing.T, e *env) {
	dirs := map[string]string{"old": t.TempDir(), "new": t.TempDir()}
	old := e.start(e.builds.this, "old", dirs["old"], "")
	e.until("the older build to join", 1, func() string { return e.view().evenly(partitions, "old") })
	newer := e.start(e.builds.next, "new", dirs["new"], "blob")
	e.until("the newer build to join", 1, func() string { return e.view().evenly(partitions/2, "old", "new") })
	e.feed(20)
	before := e.commits()
	newer.Stop()
	stopped := map[int]bool{}
	for p, c := range before {
		stopped[p] = strings.HasPrefix(c.Metadata, "ow2:")
	}
	e.until("the tasks of the newer build to stop", 0, func() string {
		tasks := old.status().Tasks
		for _, task := range tasks {
			switch {
			case !stopped[int(task.ID.Partition)] && task.State == txn.TaskRunning:
			case task.State != txn.TaskStopped || !strings.Contains(task.Reason, "version 2, this build reads 1"):
				return fmt.Sprintf("the tasks are %+v", tasks)
			}
		}
		if len(tasks) < partitions {
			return "there are fewer tasks"
		}
		return ""
	})
	e.feed(20)
	e.until("the neighbours to go on", 0, func() string {
		for p, c := range e.committed() {
			if stopped[p] && c != before[p] {
				t.Fatalf("the stopped task %d has committed %+v after %+v", p, c, before[p])
			}
			if !stopped[p] && c.Offset < e.fed {
				return fmt.Sprintf("partition %d is at %d of %d", p, c.Offset, e.fed)
			}
		}
		return ""
	})
	old.Tell(syscall.SIGTERM)
	old.refused("tasks are stopped", "version 2, this build reads 1")
	e.start(e.builds.next, "new", dirs["new"], "blob")
	e.checkExact()
}

// generationsMax is how many generations the exchange of an instance may take. It leaves, the others take its tasks, it comes back as the
// other build, and tasks move to it: each is one generation, or two where a task is given up first.
const generationsMax = 6

// testRolling: three instances are exchanged for those of the next build, one by one, and back, while records are processed.
func testRolling(t *testing.T, e *env) {
	instances := []string{"a", "b", "c"}
	dirs, processes := map[string]string{}, map[string]*process{}
	for _, instance := range instances {
		dirs[instance] = t.TempDir()
		processes[instance] = e.start(e.builds.this, instance, dirs[instance], "")
	}
	rest := e.settle(instances)
	began, exchanges := rest.generation, 0
	leaders := map[byte]int{rest.leader: 1}
	last := e.writers(rest)
	var upgraded, rolledBack int
	for _, step := range []struct {
		build string
		minor byte
		order []string
	}{{e.builds.next, 1, instances}, {e.builds.this, 0, []string{"b", "a", "c"}}} {
		for _, instance := range step.order {
			e.stopFed(processes[instance])
			processes[instance] = e.start(step.build, instance, dirs[instance], "")
			exchanges++
			v := e.settle(instances)
			if v.members[instance].minor != step.minor {
				t.Errorf("instance %s tells minor version %d, want %d", instance, v.members[instance].minor, step.minor)
			}
			leaders[v.leader]++
			now := e.writers(v)
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
	v := e.view()
	took := v.generation - began
	t.Logf("%d exchanges took %d generations; plans by this build %d, by the next %d; tasks went %d times to the next build and %d times back",
		exchanges, took, leaders[0], leaders[1], upgraded, rolledBack)
	if took > uint32(exchanges*generationsMax) {
		t.Errorf("%d exchanges took %d generations", exchanges, took)
	}
	if upgraded == 0 || rolledBack == 0 || leaders[0] == 0 || leaders[1] == 0 {
		t.Error("both builds have to take tasks over from the other, and to lead")
	}
	for range 20 {
		e.feed(5)
		e.commits()
	}
	if now := e.view(); now.plan != v.plan {
		t.Errorf("the group is at rest, and there is another plan: %+v, was %+v", now, v)
	}
	e.checkExact()
}

// settle feeds until the group is at rest with every task.
func (e *env) settle(instances []string) (v view) {
	e.t.Helper()
	e.until("the group to settle", 1, func() string {
		v = e.view()
		return v.evenly(partitions/len(instances), instances...)
	})
	return v
}

// stopFed ends a process in order while the input goes on.
func (e *env) stopFed(p *process) {
	e.t.Helper()
	p.Tell(syscall.SIGTERM)
	e.until("an instance to end", 1, func() string {
		if p.Alive() == nil {
			return "it is still there"
		}
		return ""
	})
	if p.Err() != nil {
		e.t.Fatalf("an instance ended with %v", p.Err())
	}
}

// writers returns, for each partition, whether its last commit is of the next build. It has to be that of its owner.
func (e *env) writers(v view) (out [partitions]bool) {
	e.t.Helper()
	e.feed(1)
	for p, c := range e.commits() {
		out[p] = byNext(e.t, c)
		for instance, m := range v.members {
			if slices.Contains(m.assigned, int32(p)) && out[p] != (m.minor == 1) {
				e.t.Errorf("partition %d of instance %s has the commit %q of the other build", p, instance, c.Metadata)
			}
		}
	}
	return out
}
