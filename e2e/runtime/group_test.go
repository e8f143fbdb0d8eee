package runtime_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
)

// TestJoinAndLeave: instances come and go under load. Everything is counted once, no task ever
// keeps a part of its inputs, and a partition that does not move goes on while the others do. How
// long it stands still is judged on virtual time. Row of the failure matrix: rebalance in
// mid-batch.
func TestJoinAndLeave(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		s := newGroupScene(t, c)
		output := s.follow()
		settle := func(what string, members int, before groupView) groupView {
			t.Helper()
			v := s.until(what, 1, settled(members, 1))
			for range 50 {
				s.feed(1)
			}
			s.checkPauses(what, before, v, output.phase())
			return v
		}
		a := s.start("a", t.TempDir(), 1, false)
		one := settle("the first starts", 1, groupView{})
		b := s.start("b", t.TempDir(), 1, false)
		two := settle("the second joins", 2, one)
		d := s.start("d", t.TempDir(), 1, false)
		three := settle("the third joins", 3, two)
		s.endFed(b)
		left := settle("the second leaves", 2, three)
		s.endFed(a) // the leader
		settle("the first leaves", 1, left)
		s.checkExact()
		d.End()
		if n := s.logged(partial); n > 0 {
			t.Errorf("%d times a task kept some of its inputs", n)
		}
		if n := s.logged(forced) - s.logged(over); n > 0 {
			t.Errorf("%d rebalances were forced, want none", n)
		}
	})
}

// stillMax is how long an input may stand still that does not move.
const stillMax = time.Second

// checkPauses logs the pauses, and fails where a partition stood still that did not move. On real
// time it does not fail: a busy machine makes everything stand still.
func (s *groupScene) checkPauses(what string, before, after groupView, paused map[string]time.Duration) {
	s.t.Helper()
	var stayed, moved time.Duration
	n := 0
	for p := range groupPartitions {
		part := fmt.Sprintf("%s[%d]", s.topics.Left, p)
		stays := false
		for instance, parts := range after.assigned {
			stays = stays || slices.Contains(parts, part) && slices.Contains(before.assigned[instance], part)
		}
		for _, side := range []string{"l", "r"} {
			if d := paused[fmt.Sprint(side, p)]; stays {
				n++
				stayed = max(stayed, d)
			} else {
				moved = max(moved, d)
			}
		}
	}
	s.t.Logf("%s: longest pause %s for the %d inputs that stay, %s for those that move", what, stayed.Round(time.Millisecond), n,
		moved.Round(time.Millisecond))
	if stayed > stillMax && s.Kind() == cluster.KindVirtual {
		s.t.Errorf("%s: an input that does not move stood still for %s, want %s at most", what, stayed, stillMax)
	}
}

// TestRestartTakesItsTasksBack: an instance that comes back within the session is given its tasks
// at once, and no plan is made.
func TestRestartTakesItsTasksBack(t *testing.T) {
	t.Parallel()
	s := newGroupScene(t, cluster.Kafka(t)) // the embedded broker makes a new generation
	dirs := map[string]string{"a": t.TempDir(), "b": t.TempDir(), "d": t.TempDir()}
	apps := map[string]*instance.App{}
	for i, instance := range []string{"a", "b", "d"} {
		apps[instance] = s.start(instance, dirs[instance], 1, true)
		s.until("joining", 0, settled(i+1, 1))
	}
	before := s.view()
	output := s.follow()
	s.feed(50)
	output.phase()
	for _, instance := range []string{"b", "a", "d"} { // a leads
		s.endFed(apps[instance])
		apps[instance] = s.start(instance, dirs[instance], 1, true)
		for range 100 {
			s.feed(1)
		}
		var longest time.Duration
		for _, d := range output.phase() {
			longest = max(longest, d)
		}
		t.Logf("%s restarted: longest pause of any input %s", instance, longest.Round(time.Millisecond))
		after := s.until("the restart", 0, settled(3, 1))
		for other, plan := range before.plan {
			if after.plan[other] != plan || !slices.Equal(after.assigned[other], before.assigned[other]) {
				t.Errorf("%s was restarted, and %s has another plan: %v, was %v", instance, other, after.assigned[other], before.assigned[other])
			}
		}
	}
	s.checkExact()
	if n := s.logged(forced) - s.logged(over); n > 0 {
		t.Errorf("%d rebalances were forced, want none", n)
	}
}

// TestOrphan: a member that is killed inside its revoke and comes back within the session leaves a
// task without an owner in a stable group. The leader forces a rebalance for it.
func TestOrphan(t *testing.T) {
	t.Parallel()
	s := newGroupScene(t, cluster.Kafka(t)) // the embedded broker makes a new generation, which heals it
	member := memberSettings{
		Brokers: s.Brokers(), Application: s.application, Instance: "m", StateDir: t.TempDir(), Topics: s.topics,
		Marker: filepath.Join(t.TempDir(), "blocked"),
	}
	// The leader runs something else, so that it has nothing to give up and does not join again by
	// itself.
	s.start("a", t.TempDir(), 3, false)
	s.until("the leader joins", 0, func(v groupView) bool { return v.total() == groupPartitions })
	p := startMember(t, member)
	v := s.until("the member joins", 0, settled(2, 2))
	s.feed(20)
	s.checkExact()
	// A record that never ends keeps the revoke waiting.
	s.feedBlocking(v.assigned["m"])
	p.Await("the blocking record", func() bool { _, err := os.Stat(member.Marker); return err == nil })
	s.start("n", t.TempDir(), 1, false)
	s.until("a move from the member", 0, func(v groupView) bool { return len(v.assigned) == 3 && v.total() < inputs(2) })
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	member.Marker = ""
	startMember(t, member)
	began := time.Now()
	s.until("the leader heals the group", 0, settled(3, 2))
	t.Logf("the orphan had an owner after %s", time.Since(began).Round(time.Millisecond))
	s.feed(20)
	s.checkExact()
	if s.logged(forced)-s.logged(over) == 0 {
		t.Error("no rebalance was forced: the scenario did not make an orphan")
	}
}

// feedBlocking feeds a record that is never done with to a partition that is among assigned.
func (s *groupScene) feedBlocking(assigned []string) {
	s.t.Helper()
	for p := range int32(groupPartitions) {
		if !slices.Contains(assigned, fmt.Sprintf("%s[%d]", s.topics.Left, p)) {
			continue
		}
		key := fmt.Sprint("l", p)
		s.fed[key]++
		r := &kgo.Record{Topic: s.topics.Left, Partition: p, Key: []byte(key), Value: []byte("block"), Timestamp: time.Now()}
		if err := s.producer.ProduceSync(s.t.Context(), r).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.t.Fatalf("no input among %v", assigned)
}

// TestTwoVersions: an instance comes back as the next version, which reads one more topic. The
// group tells the two versions apart and gives the new one the new tasks. Then old and new share
// the group without another plan.
func TestTwoVersions(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		s := newGroupScene(t, c)
		s.start("a", t.TempDir(), 1, false)
		s.until("the first", 0, settled(1, 1))
		dir := t.TempDir()
		old := s.start("b", dir, 1, true)
		s.until("the second", 0, settled(2, 1))
		s.feed(20)
		old.End()
		s.start("b", dir, 2, false)
		rest := s.until("the next version", 0, settled(2, 2))
		for p := range groupPartitions {
			if !slices.Contains(rest.assigned["b"], fmt.Sprintf("%s[%d]", s.topics.Extra, p)) {
				t.Errorf("the new version has %v, want all of the new topic", rest.assigned["b"])
			}
		}
		s.checkExact()
		still := func() {
			t.Helper()
			s.feed(1)
			v := s.view()
			if !v.unanswered && (v.state != "Stable" || v.plan["a"] != rest.plan["a"] || v.plan["b"] != rest.plan["b"]) {
				t.Fatalf("there is another plan: %s, %v", v.state, v.assigned)
			}
		}
		still()
		if c.Kind() == cluster.KindVirtual { // for longer than any timer of the group
			tick := time.NewTicker(10 * time.Second)
			defer tick.Stop()
			for range 60 {
				<-tick.C
				still()
			}
		}
		s.checkExact()
		if c.Kind() == cluster.KindKafka && s.logged(forced)-s.logged(over) != 1 {
			t.Errorf("%d rebalances were forced, want the one of the new version", s.logged(forced)-s.logged(over))
		}
	})
}
