//go:build onceward_failpoints

package instance

import (
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn"
)

func TestParse(t *testing.T) {
	all, err := parseAll("end-after=error;ask-before=stall:3s,skip=2,times=4", txn.Failpoints())
	if err != nil {
		t.Fatal(err)
	}
	if a := all["end-after"]; a == nil || a.arming != (arming{point: "end-after", action: "error", times: 1}) {
		t.Errorf("end-after is %+v", a)
	}
	want := arming{point: "ask-before", action: "stall", wait: 3 * time.Second, skip: 2, times: 4}
	if a := all["ask-before"]; a == nil || a.arming != want {
		t.Errorf("ask-before is %+v", a)
	}
	for _, wrong := range []string{
		"nowhere=kill", "end-after", "end-after=explode", "end-after=delay:x", "end-after=kill,skip=x", "end-after=kill,often=1",
		"end-after=kill;end-after=error", "end-after=kill;",
	} {
		if _, err := parseAll(wrong, txn.Failpoints()); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

// TestArmedOnHost: a point that kills or freezes holds what has come to it, each time, until the
// life is killed or thawed.
func TestArmedOnHost(t *testing.T) {
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		app := copying(t, c)
		log := NewLog(t, "the application")
		hits := log.Await("failpoint end-before freeze", "failpoint end-after freeze")
		a := StartOn(t, c, "first", app, "end-before=freeze;end-after=freeze", log)
		app.feed(t, c)
		for i, hit := range hits {
			<-hit
			time.Sleep(10 * time.Second) // virtual, and shorter than the session
			if got := len(c.Records(t, app.Out)); got != i {
				t.Errorf("%d records were copied at point %d", got, i)
			}
			if n := a.Status().Totals.Commits; n > 0 {
				t.Errorf("the life went on from point %d: %d commits", i, n)
			}
			a.Thaw()
		}
		a.Until("the copy", func(s txn.Status) bool { return s.Totals.Commits > 0 })
		a.End()

		log = NewLog(t, "the next life")
		hits = log.Await("failpoint end-before kill")
		a = StartOn(t, c, "second", app, "end-before=kill", log)
		app.feed(t, c)
		<-hits[0]
		time.Sleep(10 * time.Minute) // virtual
		app.StateDir = a.Kill()
		app.checkCopies(t, c, 1)
		a = StartOn(t, c, "third", app, "", NewLog(t, "the last life"))
		a.Until("the copy", copied)
		a.End()
		app.checkCopies(t, c, 2)
	})
}
