package runtime_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
)

// TestCopy: every record arrives once, in order, with key, value and headers, null keys included;
// an orderly stop leaves nothing open.
func TestCopy(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		b := topology.NewBuilder("copy")
		topology.From(b, topology.Topic(e.in, schemas.Bytes(), schemas.Bytes())).
			Into(topology.Topic(e.out, schemas.Bytes(), schemas.Bytes()))
		r := e.start(e.build(b))
		e.feed(5000, plain)
		e.until(r, 5000)
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		if got := len(e.Records(t, e.out)); got != 5000 {
			t.Errorf("%d records were copied, want 5000", got)
		}
		e.checkClosed()
	})
}

// checkClosed asserts that the application has left nothing behind that holds readers up.
func (e *appScene) checkClosed() {
	e.t.Helper()
	open, err := e.OpenTransactions(e.t.Context(), e.application+"~")
	if err != nil || len(open) > 0 {
		e.t.Errorf("open transactions: %v (%v)", open, err)
	}
	if err := e.WaitStable(e.t.Context(), e.in, e.out); err != nil {
		e.t.Error(err)
	}
}

// TestRestart: state and positions survive an orderly stop, and the second life processes only what
// is new.
func TestRestart(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		for life := range 3 {
			r := e.start(e.count())
			e.feed(3000, plain)
			e.until(r, 3000)
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			if got := r.Status().Totals.Records; got != 3000 {
				t.Errorf("life %d processed %d records, want 3000", life, got)
			}
		}
		for k, n := range testapp.LastCounts(t, e.Records(t, e.out)) {
			if n != 900 {
				t.Errorf("%s was counted to %d, want 900", k, n)
			}
		}
		e.checkClosed()
	})
}

// TestLostStateDirectory: with the whole directory gone the state comes back from the changelog,
// exactly. Row of the failure matrix: lost state directory.
func TestLostStateDirectory(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		r := e.start(e.count())
		e.feed(2000, plain)
		e.until(r, 2000)
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(e.stateDir); err != nil {
			t.Fatal(err)
		}
		r = e.start(e.count())
		e.feed(1000, plain)
		e.until(r, 1000)
		var restored int64
		for _, task := range r.Status().Tasks {
			restored += task.Restored
		}
		if restored == 0 {
			t.Error("nothing was restored")
		}
		for k, n := range testapp.LastCounts(t, e.Records(t, e.out)) {
			if n != 300 {
				t.Errorf("%s was counted to %d, want 300", k, n)
			}
		}
	})
}

// TestDeadLetters is requirement G4: a record that fails leaves its dead letter and nothing else,
// however much it had written before. Row of the failure matrix: poison payload.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		dead := c.Name(t, "dead")
		e := newAppScene(t, c, dead)
		r := e.start(e.count(topology.DeadLetters(dead)))
		e.feed(2000, func(i int) []byte {
			switch {
			case i%100 == 7:
				return []byte("poison")
			case i%100 == 8:
				return []byte{0xff, 0xfe} // not UTF-8: fails in the codec
			}
			return []byte("v")
		})
		e.until(r, 2000)
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		var total int64
		for n := range maps.Values(testapp.LastCounts(t, e.Records(t, e.out))) {
			total += n
		}
		if total != 1960 {
			t.Errorf("%d records were counted, want 1960", total)
		}
		classes := map[string]int{}
		for _, letter := range e.Records(t, dead) {
			info := map[string]string{}
			for _, h := range letter.Headers {
				info[h.Key] = string(h.Value)
			}
			classes[info[graph.HeaderClass]]++
			if info[graph.HeaderTopic] != e.in || info[graph.HeaderOffset] == "" {
				t.Fatalf("a dead letter without its origin: %v", info)
			}
		}
		if classes["validation"] != 20 || classes["poison"] != 20 || len(classes) != 2 {
			t.Errorf("dead letters by class: %v, want 20 validation and 20 poison", classes)
		}
	})
}

// TestRepartition: counting by another key through a repartition topic is exact.
func TestRepartition(t *testing.T) {
	t.Parallel()
	cluster.OnVirtual(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		b := topology.NewBuilder("repartitioning")
		in := topology.From(b, topology.Topic(e.in, schemas.String(), schemas.String()))
		parity := topology.SelectKey(in, "parity", func(r topology.Record[string, string]) (string, error) {
			return string('a' + rune(r.Key[1]-'0')%2), nil
		})
		counts := topology.KeyValueStore("parities", schemas.String(), schemas.Int64())
		topology.Process(topology.RepartitionWith(parity, "by-parity", schemas.String(), schemas.String()), "count", counts, countRecord).
			Into(topology.Topic(e.out, schemas.String(), schemas.Int64()))
		r := e.start(e.build(b))
		e.feed(4000, plain)
		e.until(r, 8000) // each record passes both subtopologies
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		last := testapp.LastCounts(t, e.Records(t, e.out))
		if last["a"] != 2000 || last["b"] != 2000 || len(last) != 2 {
			t.Errorf("counts are %v, want 2000 each", last)
		}
	})
}

// TestBadSurroundings: each mistake gets one error that says what, and changes nothing.
func TestBadSurroundings(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newAppScene(t, c)
		run := func(top *topology.Topology, change func(*txn.Config)) error {
			cfg := e.config()
			if change != nil {
				change(&cfg)
			}
			app, err := txn.New(top, cfg)
			if err != nil {
				return err
			}
			return app.Run(t.Context())
		}
		wrong := func(err error, parts ...string) {
			t.Helper()
			for _, part := range parts {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want an error that says %q", err, part)
				}
			}
		}

		missing := topology.NewBuilder("missing")
		topology.From(missing, topology.Topic("no-such-topic", schemas.Bytes(), schemas.Bytes())).
			Into(topology.Topic("nor-this", schemas.Bytes(), schemas.Bytes()))
		wrong(run(e.build(missing), nil), "no-such-topic", "nor-this", "do not exist")

		other := c.Name(t, "five")
		c.CreateTopics(t, partitions+2, other)
		uneven := topology.NewBuilder("uneven")
		left := topology.From(uneven, topology.Topic(e.in, schemas.String(), schemas.String()))
		right := topology.From(uneven, topology.Topic(other, schemas.String(), schemas.String()))
		counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
		topology.Process(left.Merge("both", right), "count", counts, countRecord).
			Into(topology.Topic(e.out, schemas.String(), schemas.Int64()))
		wrong(run(e.build(uneven), nil), e.in+" has 3", other+" has 5")

		wrong(run(e.count(), func(c *txn.Config) {
			c.Brokers = []string{"127.0.0.1:1"}
			c.ConnectTimeout = 2_000_000_000
		}), "127.0.0.1:1", "check the addresses")

		r := e.start(e.count())
		e.feed(10, plain)
		e.until(r, 10)
		err := run(e.count(), nil)
		wrong(err, e.stateDir)
		if !errors.Is(err, state.ErrLocked) {
			t.Errorf("a second process on the directory got %v, want ErrLocked", err)
		}
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		wrong(run(e.count(), func(c *txn.Config) { c.Application = "another" }), "another")

		topics, err := e.Admin().ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range topics.Names() {
			if strings.HasPrefix(name, "missing") || strings.HasPrefix(name, "uneven") {
				t.Errorf("topic %s was created by a start that failed", name)
			}
		}
		entries, err := os.ReadDir(filepath.Join(e.stateDir))
		if err != nil || !slices.ContainsFunc(entries, func(d os.DirEntry) bool { return d.Name() == "tasks" }) {
			t.Errorf("the state directory holds %v (%v)", entries, err)
		}
	})
}
