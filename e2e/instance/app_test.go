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

// copied reports whether a life has copied one record.
func copied(s txn.Status) bool { return s.Totals.Records == 1 }

// TestApp: one life works and is stopped, one ends by itself.
func TestApp(t *testing.T) {
	c := cluster.Embedded(t)
	s := copying(t, c)
	a := StartProgram(t, c, "one", s)
	s.feed(t, c)
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
	if got := c.Records(t, s.Out); len(got) != 1 || string(got[0].Value) != "v" {
		t.Errorf("%d records were copied", len(got))
	}

	s.Application, s.Out = c.Name(t, "app"), c.Name(t, "missing")
	a = StartProgram(t, c, "one", s)
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
		s := copying(t, c)
		a := StartProgram(t, c, "first", s)
		s.feed(t, c)
		a.Until("the copy", copied)
		s.StateDir = a.Kill(c.Network().Host("first"), s.StateDir)
		s.feed(t, c)
		time.Sleep(10 * time.Minute) // virtual
		if got := c.Records(t, s.Out); len(got) != 1 {
			t.Errorf("%d records were copied, want that of the life that was killed", len(got))
		}
		a = StartProgram(t, c, "second", s)
		a.Until("the copy", copied)
		a.End()
		if got := c.Records(t, s.Out); len(got) != 2 {
			t.Errorf("%d records were copied, want 2", len(got))
		}
	})
}
