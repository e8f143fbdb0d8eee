package instance

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// copying is an application that copies a topic, on the broker.
func copying(t *testing.T, c *cluster.Cluster, in, out string) *App {
	t.Helper()
	b := topology.NewBuilder("copying")
	topology.From(b, topology.Topic(in, schemas.Bytes(), schemas.Bytes())).Into(topology.Topic(out, schemas.Bytes(), schemas.Bytes()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return Start(t, top, txn.Config{
		Brokers: c.Brokers(), Application: c.Name(t, "app"), StateDir: t.TempDir(),
		Logger: slog.New(slog.NewTextHandler(NewLog(t, "the application"), nil)),
	})
}

// TestApp: one life works and is stopped, one ends by itself.
func TestApp(t *testing.T) {
	c := cluster.Embedded(t)
	in, out := c.Name(t, "in"), c.Name(t, "out")
	c.CreateTopics(t, 2, in, out)
	a := copying(t, c, in, out)
	if err := c.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: in, Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	a.Until("the copy", func(s txn.Status) bool { return s.Totals.Records == 1 })
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
	if got := c.Records(t, out); len(got) != 1 || string(got[0].Value) != "v" {
		t.Errorf("%d records were copied", len(got))
	}

	a = copying(t, c, in, c.Name(t, "missing"))
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
		in, out, dir := c.Name(t, "in"), c.Name(t, "out"), t.TempDir()
		c.CreateTopics(t, 2, in, out)
		b := topology.NewBuilder("copying")
		topology.From(b, topology.Topic(in, schemas.Bytes(), schemas.Bytes())).Into(topology.Topic(out, schemas.Bytes(), schemas.Bytes()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		life := func(host string) *App {
			return Start(t, top, On(c, host, txn.Config{
				Application: "app", Instance: "one", StateDir: dir, Logger: slog.New(slog.NewTextHandler(NewLog(t, host), nil)),
			}))
		}
		feed := func() {
			t.Helper()
			if err := c.Client(t).ProduceSync(t.Context(), &kgo.Record{Topic: in, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		a := life("first")
		feed()
		a.Until("the copy", func(s txn.Status) bool { return s.Totals.Records == 1 })
		dir = a.Kill(c.Network().Host("first"), dir)
		feed()
		time.Sleep(10 * time.Minute) // virtual
		if got := c.Records(t, out); len(got) != 1 {
			t.Errorf("%d records were copied, want that of the life that was killed", len(got))
		}
		a = life("second")
		a.Until("the copy", func(s txn.Status) bool { return s.Totals.Records == 1 })
		a.End()
		if got := c.Records(t, out); len(got) != 2 {
			t.Errorf("%d records were copied, want 2", len(got))
		}
	})
}
