package instance

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// copying is an application that copies a topic.
type copying struct {
	cfg     txn.Config
	in, out string
}

func (c copying) Topology() (*topology.Topology, error) {
	b := topology.NewBuilder("copying")
	topology.From(b, topology.Topic(c.in, schemas.Bytes(), schemas.Bytes())).Into(topology.Topic(c.out, schemas.Bytes(), schemas.Bytes()))
	return b.Build()
}

func (c copying) Config() txn.Config { return c.cfg }

// newCopying returns one with topics of its own.
func newCopying(t *testing.T, c *cluster.Cluster) copying {
	t.Helper()
	a := copying{cfg: txn.Config{Application: c.Name(t, "app"), StateDir: t.TempDir()}, in: c.Name(t, "in"), out: c.Name(t, "out")}
	c.CreateTopics(t, 2, a.in, a.out)
	return a
}

// feed writes a record to be copied.
func (c copying) feed(t *testing.T, cluster *cluster.Cluster) {
	t.Helper()
	if err := cluster.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: c.in, Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// copied is that a life has copied a record.
func copied(s txn.Status) bool { return s.Totals.Records == 1 }

// checkCopies wants so many copies.
func (c copying) checkCopies(t *testing.T, cluster *cluster.Cluster, want int) {
	t.Helper()
	if got := cluster.Records(t, c.out); len(got) != want || string(got[0].Value) != "v" {
		t.Errorf("%d records were copied, want %d", len(got), want)
	}
}

// TestApp: one life works and is stopped, one ends by itself.
func TestApp(t *testing.T) {
	c := cluster.Embedded(t)
	app := newCopying(t, c)
	a := StartOn(t, c, "", app, "", NewLog(t, "the application"))
	app.feed(t, c)
	a.Until("the copy", copied)
	if err := a.Alive(); err != nil {
		t.Errorf("at work: %v", err)
	}
	for range 2 { // the second time it is over already
		if err := a.Stop(); err != nil {
			t.Errorf("stopped: %v", err)
		}
	}
	if a.Alive() == nil {
		t.Error("it is stopped and alive")
	}
	app.checkCopies(t, c, 1)

	app.out = c.Name(t, "missing")
	a = StartOn(t, c, "", app, "", NewLog(t, "the application"))
	if err := a.Wait(); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without its topic it ended with %v", err)
	}
	if err := a.Alive(); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("after that: %v", err)
	}
}

// TestKill: a life that is killed reaches no broker any more, although it is not told to end in order; the next one goes on with a copy of
// its directory, under its identity.
func TestKill(t *testing.T) {
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		app := newCopying(t, c)
		a := StartOn(t, c, "first", app, "", NewLog(t, "the first life"))
		app.feed(t, c)
		a.Until("the copy", copied)
		app.cfg.StateDir = a.Kill()
		app.feed(t, c)
		time.Sleep(10 * time.Minute) // virtual
		app.checkCopies(t, c, 1)
		a = StartOn(t, c, "second", app, "", NewLog(t, "the second life"))
		a.Until("the copy", copied)
		a.End()
		app.checkCopies(t, c, 2)
	})
}

// TestFreeze: a life that is frozen reaches no broker, and goes on when it is thawed.
func TestFreeze(t *testing.T) {
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		app := newCopying(t, c)
		a := StartOn(t, c, "first", app, "", NewLog(t, "the application"))
		a.Until("the tasks", func(s txn.Status) bool { return len(s.Tasks) == 2 })
		a.Freeze()
		app.feed(t, c)
		time.Sleep(10 * time.Minute) // virtual
		if got := c.Records(t, app.out); len(got) > 0 {
			t.Errorf("%d records were copied by a life that is frozen", len(got))
		}
		a.Thaw()
		a.Until("the copy", copied)
		a.End()
		app.checkCopies(t, c, 1)
	})
}
