//go:build unix && onceward_failpoints

package instance

import (
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

// TestVictim: a life that is frozen at a point or by the test does nothing until it is thawed, and
// goes on then. One that is killed at a point or by the test does nothing more, and the next one
// goes on with its directory. It is the same on virtual time and for a process.
func TestVictim(t *testing.T) {
	t.Run("virtual", func(t *testing.T) { cluster.OnVirtual(t, testVictim) })
	t.Run("process", func(t *testing.T) { testVictim(t, cluster.Embedded(t)) })
}

func testVictim(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	s := copying(t, c)
	start := func(host, arm string, lines ...string) (Victim, []chan struct{}) {
		log := NewLog(t, host)
		said := log.Await(lines...)
		return StartVictim(t, c, "copy", host, s, arm, log), said
	}
	v, said := start("first", "end-before=freeze;end-after=kill,skip=1", "failpoint end-before freeze", "failpoint end-after kill")
	s.feed(t, c)
	v.Await("the freeze", func() bool { return Closed(said[0]) })
	if got := stable(t, c, s.Out); got != 0 {
		t.Errorf("%d records are committed by a life that is frozen before", got)
	}
	v.Thaw()
	v.Await("the copy", func() bool { return copied(v.Status()) })
	s.feed(t, c)
	s.StateDir = v.Killed()
	if !Closed(said[1]) {
		t.Error("it was killed, and not at the point")
	}

	v, _ = start("second", "")
	s.feed(t, c)
	v.Await("the copy", func() bool { return copied(v.Status()) && stable(t, c, s.Out) == 3 })
	v.Freeze()
	s.feed(t, c)
	copyElsewhere(t, c, s, 4)
	if got := stable(t, c, s.Out); got != 3 {
		t.Errorf("%d records are copied, want the 3 from before the freeze", got)
	}
	v.Thaw()
	v.Await("the copy after the freeze", func() bool { return v.Status().Totals.Records == 2 })
	v.Kill()
	s.StateDir = v.Killed()

	v, _ = start("third", "")
	s.feed(t, c)
	v.Await("the copy", func() bool { return copied(v.Status()) })
	v.End()
	if err := v.Wait(); err != nil || v.Failed(err) {
		t.Errorf("it has ended with %v", err)
	}
	if got := len(c.Records(t, s.Out)); got != 5 {
		t.Errorf("%d records were copied, want 5", got)
	}

	s.Out = c.Name(t, "missing")
	v, _ = start("fourth", "")
	if err := v.Wait(); !v.Failed(err) {
		t.Errorf("without its topic it has ended with %v", err)
	}
}

// copyElsewhere copies the input from its beginning with another application, and returns when it
// has copied n records. A life that is not frozen copies the last one meanwhile.
func copyElsewhere(t *testing.T, c *cluster.Cluster, s copySettings, n int) {
	t.Helper()
	s.Application, s.StateDir, s.Out = c.Name(t, "other"), t.TempDir(), c.Name(t, "other-out")
	c.CreateTopics(t, 2, s.Out)
	v := StartVictim(t, c, "copy", "other", s, "", NewLog(t, "the other application"))
	v.Await("the copies of the other application", func() bool { return stable(t, c, s.Out) == n })
	v.End()
}

// stable counts what can be read of a topic now.
func stable(t *testing.T, c *cluster.Cluster, topic string) (n int) {
	t.Helper()
	partitions, err := c.ReadStable(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, records := range partitions {
		n += len(records)
	}
	return n
}
