package rebalance_test

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

// settleLimit is how long a group may take to come to rest on a slow machine.
const settleLimit = 90 * time.Second

// TestJoinAndLeave: instances come and go under load. Everything is counted once, no task ever keeps a part of its inputs, and a
// partition that does not move goes on while the others do. How long it stands still is judged on virtual time.
// Row of the failure matrix: rebalance in mid-batch.
func TestJoinAndLeave(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newEnv(t, c)
		output := e.follow()
		settle := func(what string, members int, before view) view {
			t.Helper()
			v := e.feedUntil(what, even(members, 1))
			for range 50 {
				e.feed(1)
			}
			report(t, e, what, before, v, output.take())
			return v
		}
		a := e.start("a", t.TempDir(), 1, false)
		one := settle("the first starts", 1, view{})
		b := e.start("b", t.TempDir(), 1, false)
		two := settle("the second joins", 2, one)
		d := e.start("d", t.TempDir(), 1, false)
		three := settle("the third joins", 3, two)
		e.feedWhileStopping(b)
		left := settle("the second leaves", 2, three)
		e.feedWhileStopping(a) // the leader
		settle("the first leaves", 1, left)
		e.checkExact()
		e.stop(d)
		if err := output.stop(); err != nil {
			t.Error(err)
		}
		if n := e.said(partial); n > 0 {
			t.Errorf("%d times a task kept some of its inputs", n)
		}
		if n := e.said(forced); n > 0 {
			t.Errorf("%d rebalances were forced, want none", n)
		}
	})
}

// stillMax is how long an input may stand still that does not move.
const stillMax = time.Second

// report tells the pauses, and fails where a partition stood still that had no reason to. On real time it fails for none: a busy machine makes
// everything stand still.
func report(t *testing.T, e *env, what string, before, after view, paused map[string]time.Duration) {
	t.Helper()
	var stayed, moved time.Duration
	n := 0
	for p := range partitions {
		part := fmt.Sprintf("%s[%d]", e.names.Left, p)
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
	t.Logf("%s: longest pause %s for the %d inputs that stay, %s for those that move", what, stayed.Round(time.Millisecond), n,
		moved.Round(time.Millisecond))
	if stayed > stillMax && e.Kind() == cluster.KindVirtual {
		t.Errorf("%s: an input that does not move stood still for %s, want %s at most", what, stayed, stillMax)
	}
}

// TestRestartTakesItsTasksBack: an instance that comes back within the session is given its tasks at once, and no plan is made.
func TestRestartTakesItsTasksBack(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t) // the embedded broker makes a new generation
	e := newEnv(t, c)
	dirs := map[string]string{"a": t.TempDir(), "b": t.TempDir(), "d": t.TempDir()}
	apps := map[string]*instance.App{}
	for i, instance := range []string{"a", "b", "d"} {
		apps[instance] = e.start(instance, dirs[instance], 1, true)
		e.await("joining", settleLimit, even(i+1, 1))
	}
	before := e.view()
	output := e.follow()
	e.feed(50)
	output.take()
	for _, instance := range []string{"b", "a", "d"} { // a leads
		e.feedWhileStopping(apps[instance])
		apps[instance] = e.start(instance, dirs[instance], 1, true)
		for range 100 {
			e.feed(1)
		}
		var longest time.Duration
		for _, d := range output.take() {
			longest = max(longest, d)
		}
		t.Logf("%s restarted: longest pause of any input %s", instance, longest.Round(time.Millisecond))
		after := e.await("the restart", settleLimit, even(3, 1))
		for other, plan := range before.plan {
			if after.plan[other] != plan || !slices.Equal(after.assigned[other], before.assigned[other]) {
				t.Errorf("%s was restarted, and %s has another plan: %v, was %v", instance, other, after.assigned[other], before.assigned[other])
			}
		}
	}
	e.checkExact()
	if err := output.stop(); err != nil {
		t.Error(err)
	}
	if n := e.said(forced); n > 0 {
		t.Errorf("%d rebalances were forced, want none", n)
	}
}

// TestOrphan: a member that is killed inside its revoke and comes back within the session leaves a task without an owner in a stable
// group. The leader asks for it.
func TestOrphan(t *testing.T) {
	t.Parallel()
	e := newEnv(t, cluster.Kafka(t)) // the embedded broker makes a new generation, which heals it
	marker := filepath.Join(t.TempDir(), "blocked")
	member := settings{
		Brokers: e.Brokers(), Application: e.application, Instance: "m", StateDir: t.TempDir(), Names: e.names, Marker: marker,
	}
	// The leader runs something else, so that it has nothing to give up and does not join again by itself.
	e.start("a", t.TempDir(), 3, false)
	e.await("the leader joins", settleLimit, func(v view) bool { return v.total() == partitions })
	p := startProcess(t, member)
	v := e.await("the member joins", settleLimit, even(2, 2))
	e.feed(20)
	e.checkExact()
	// A record that never ends keeps the revoke waiting.
	e.block(v.assigned["m"], marker)
	e.start("n", t.TempDir(), 1, false)
	e.await("a move from the member", settleLimit, func(v view) bool { return len(v.assigned) == 3 && v.total() < inputs(2) })
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	member.Marker = ""
	startProcess(t, member)
	began := time.Now()
	e.await("the leader heals the group", settleLimit, even(3, 2))
	t.Logf("the orphan had an owner after %s", time.Since(began).Round(time.Millisecond))
	e.feed(20)
	e.checkExact()
	if e.said(forced) == 0 {
		t.Error("nobody forced a rebalance: the scenario did not make an orphan")
	}
}

// block feeds a record that is never done with to a partition that is among assigned, and waits until it is met.
func (e *env) block(assigned []string, marker string) {
	e.t.Helper()
	for p := range int32(partitions) {
		if !slices.Contains(assigned, fmt.Sprintf("%s[%d]", e.names.Left, p)) {
			continue
		}
		key := fmt.Sprint("l", p)
		e.fed[key]++
		r := &kgo.Record{Topic: e.names.Left, Partition: p, Key: []byte(key), Value: []byte("block"), Timestamp: time.Now()}
		if err := e.producer.ProduceSync(e.t.Context(), r).FirstErr(); err != nil {
			e.t.Fatal(err)
		}
		tick := time.NewTicker(feedInterval)
		defer tick.Stop()
		for deadline := time.Now().Add(settleLimit); ; <-tick.C {
			if _, err := os.Stat(marker); err == nil {
				return
			}
			if time.Now().After(deadline) {
				e.t.Fatal("the blocking record was not met")
			}
		}
	}
	e.t.Fatalf("no input among %v", assigned)
}

// TestTwoVersions: an instance comes back as the next version, which reads one more topic. It is told from its old self, gets the new
// tasks, and then old and new share the group without another plan.
func TestTwoVersions(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newEnv(t, c)
		e.start("a", t.TempDir(), 1, false)
		e.await("the first", settleLimit, even(1, 1))
		dir := t.TempDir()
		old := e.start("b", dir, 1, true)
		e.await("the second", settleLimit, even(2, 1))
		e.feed(20)
		e.stop(old)
		e.start("b", dir, 2, false)
		rest := e.await("the next version", settleLimit, even(2, 2))
		for p := range partitions {
			if !slices.Contains(rest.assigned["b"], fmt.Sprintf("%s[%d]", e.names.Extra, p)) {
				t.Errorf("the new version has %v, want all of the new topic", rest.assigned["b"])
			}
		}
		e.checkExact()
		still := func() {
			t.Helper()
			e.feed(1)
			v := e.view()
			if !v.unanswered && (v.state != "Stable" || v.plan["a"] != rest.plan["a"] || v.plan["b"] != rest.plan["b"]) {
				t.Fatalf("there is another plan: %s, %v", v.state, v.assigned)
			}
		}
		still()
		if c.Kind() == cluster.KindVirtual { // for longer than any timer of the group
			for range 60 {
				time.Sleep(10 * time.Second)
				still()
			}
		}
		e.checkExact()
		if c.Kind() == cluster.KindKafka && e.said(forced) != 1 {
			t.Errorf("%d rebalances were forced, want the one of the new version", e.said(forced))
		}
	})
}
