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

// copySettings are an application that copies a topic.
type copySettings struct {
	Brokers                        []string
	Application, StateDir, In, Out string
}

// copying makes the topics.
func copying(t *testing.T, c *cluster.Cluster) copySettings {
	t.Helper()
	s := copySettings{c.Brokers(), c.Name(t, "app"), t.TempDir(), c.Name(t, "in"), c.Name(t, "out")}
	c.CreateTopics(t, 2, s.In, s.Out)
	return s
}

func (s copySettings) Topology() (*topology.Topology, error) {
	b := topology.NewBuilder("copying")
	topology.From(b, topology.Topic(s.In, schemas.Bytes(), schemas.Bytes())).Into(topology.Topic(s.Out, schemas.Bytes(), schemas.Bytes()))
	return b.Build()
}

func (s copySettings) Config() txn.Config {
	return txn.Config{Brokers: s.Brokers, Application: s.Application, Instance: "one", StateDir: s.StateDir}
}

// feed writes a record to the input.
func (s copySettings) feed(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if err := c.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: s.In, Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// copied is that a life has copied a record.
func copied(s txn.Status) bool { return s.Totals.Records == 1 }

// checkCopies wants so many copies.
func (s copySettings) checkCopies(t *testing.T, c *cluster.Cluster, want int) {
	t.Helper()
	if got := c.Records(t, s.Out); len(got) != want || string(got[0].Value) != "v" {
		t.Errorf("%d records were copied, want %d", len(got), want)
	}
}

// TestApp: one life works and is stopped, one ends by itself.
func TestApp(t *testing.T) {
	c := cluster.Embedded(t)
	app := copying(t, c)
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

	app.Application, app.Out = c.Name(t, "app"), c.Name(t, "missing")
	a = StartOn(t, c, "", app, "", NewLog(t, "the application"))
	if err := a.Wait(); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("without its topic it ended with %v", err)
	}
	if err := a.Alive(); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("after that: %v", err)
	}
}

// TestKill: a life that is killed reaches no broker any more, although it is not told to end in
// order; the next one goes on with a copy of its directory, under its identity.
func TestKill(t *testing.T) {
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		app := copying(t, c)
		a := StartOn(t, c, "first", app, "", NewLog(t, "the first life"))
		app.feed(t, c)
		a.Until("the copy", copied)
		app.StateDir = a.Kill()
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
		app := copying(t, c)
		a := StartOn(t, c, "first", app, "", NewLog(t, "the application"))
		a.Until("the tasks", func(s txn.Status) bool { return len(s.Tasks) == 2 })
		a.Freeze()
		app.feed(t, c)
		time.Sleep(10 * time.Minute) // virtual
		if got := c.Records(t, app.Out); len(got) > 0 {
			t.Errorf("%d records were copied by a life that is frozen", len(got))
		}
		a.Thaw()
		a.Until("the copy", copied)
		a.End()
		app.checkCopies(t, c, 1)
	})
}
