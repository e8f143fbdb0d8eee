package txn_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// firstsStore is a store on the disk in the tasks of a table in memory. It counts how often a key
// came into the table, so that most rounds write to the table alone.
var firstsStore = topology.KeyValueStore("firsts", schemas.String(), schemas.Int64())

// inMemoryTopology has the table of pricesTopology in memory, or on the disk, and firstsStore.
func inMemoryTopology(t *testing.T, inMemory bool) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("pricing", topology.DeadLetters("dead"))
	store := pricesStore
	if inMemory {
		store = store.InMemory()
	}
	table := topology.TableFrom(b, pricesIn, store)
	showChanges(table)
	topology.Process(table.Changes(), "first", firstsStore, func(
		_ *topology.Context, firsts state.KeyValue[string, int64], r topology.Record[string, topology.Change[int]],
		_ topology.Emit[string, int64],
	) error {
		return countFirst(firsts, r)
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// countFirst counts a change that brings a key into the table.
func countFirst(firsts state.KeyValue[string, int64], r topology.Record[string, topology.Change[int]]) error {
	_, had := r.Value.Old.Get()
	_, has := r.Value.New.Get()
	if had || !has {
		return nil
	}
	n, _, err := firsts.Get(r.Key)
	if err != nil {
		return err
	}
	return firsts.Put(r.Key, n+1)
}

// set makes a round that changes one row of the table, and no other store.
func (p *prices) set(value int) {
	p.t.Helper()
	p.produce(p.t, &kgo.Record{Topic: "prices", Key: []byte("first"), Value: fmt.Append(nil, value), Timestamp: time.Now()})
	p.want["first"] = value
}

// wantFirsts is compareFirsts in a life of its own.
func (p *prices) wantFirsts(top *topology.Topology) {
	p.t.Helper()
	app, stop := start(p.t, top, p.cfg)
	waitFor(p.t, "the task", running(app, 1))
	p.compareFirsts(app)
	if err := stop(); err != nil {
		p.t.Fatal(err)
	}
}

// compareFirsts compares the store on the disk with the changes that were written.
func (p *prices) compareFirsts(app *txn.App) {
	p.t.Helper()
	got := readStore(p.t, app, firstsStore, func(s state.KeyValue[string, int64]) (sum string) {
		n := int64(0)
		for e, err := range s.All() {
			if err != nil {
				p.t.Fatal(err)
			}
			n += e.Value
		}
		return fmt.Sprint(n)
	})
	want := 0
	for _, r := range p.logged(p.t, "changes") {
		if r.Value[0] == '-' && string(r.Value) != "->-" {
			want++
		}
	}
	if got != fmt.Sprint(want) {
		p.t.Errorf("the store on the disk has counted %s keys, want %d", got, want)
	}
}

// TestStoreInMemory: a table in memory is restored in full by each start, to the last commit, and a
// store on the disk beside it goes on where it was. A change of the table after a restart names the
// value from before.
func TestStoreInMemory(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, kept)
		top := inMemoryTopology(t, true)
		for life := range 4 {
			p.feed(60, 20, 0)
			if n := p.lives(top); life > 0 && n < 20 {
				t.Errorf("life %d has restored %d records", life, n)
			}
		}
		p.set(7)
		p.lives(top)
		p.lives(top) // the last round has not written to the disk
		p.wantFirsts(top)
	})
}

// TestStoreBetweenMemoryAndDisk: a store moves between memory and disk with the topology, in one
// directory and from one instance to another, also with rounds that write to that store alone. The
// first instance with it on the disk restores it in full, and the second time it needs nothing.
func TestStoreBetweenMemoryAndDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, kept)
		one, other := p.cfg.StateDir, filepath.Join(t.TempDir(), "other")
		for i, step := range []struct {
			dir      string
			inMemory bool
			feed     int
			restores bool
		}{
			{one, false, 60, false},
			{one, true, 0, true},
			{one, true, 0, true},
			{other, false, 0, true},
			{one, true, 0, true},
			{other, false, 60, true},
			{other, false, 0, false},
			{other, true, 0, true},
			{one, true, 60, true},
			{other, true, 0, true},
			{one, false, 0, true},
			{one, false, 60, false},
		} {
			p.feed(step.feed, 20, 0)
			p.set(i)
			p.cfg.StateDir = step.dir
			if n := p.lives(inMemoryTopology(t, step.inMemory)); (n > 0) != step.restores {
				t.Errorf("step %d has restored %d records", i, n)
			}
		}
		p.wantFirsts(inMemoryTopology(t, false))
	})
}

// TestToolsAndStoreInMemory: commands that read the directory of a stopped instance say that a
// store is not in it, and read the others.
func TestToolsAndStoreInMemory(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p := newPrices(t, kept)
		top := inMemoryTopology(t, true)
		p.feed(60, 20, 0)
		p.lives(top)
		opened, err := admin.OpenState(t.Context(), p.cfg.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := opened.Get(t.Context(), "latest", 0, []byte("first"), false); !errors.Is(err, admin.ErrInMemory) {
			t.Errorf("a lookup of a row in memory: %v", err)
		}
		if _, err := opened.Scan(t.Context(), admin.ScanRequest{Store: "latest"}); !errors.Is(err, admin.ErrInMemory) {
			t.Errorf("a scan of rows in memory: %v", err)
		}
		if row, err := opened.Get(t.Context(), "firsts", 0, []byte("first"), false); err != nil || !row.Found {
			t.Errorf("a lookup of a row on the disk: %t, %v", row.Found, err)
		}
		tasks, err := opened.Tasks(t.Context(), admin.Counts)
		if err != nil || len(tasks) != 1 || len(tasks[0].Stores) != 2 {
			t.Fatalf("the tasks are %+v, %v", tasks, err)
		}
		for _, s := range tasks[0].Stores {
			if _, placed := tasks[0].Positions.Changelog(s.Name); s.InMemory != (s.Name == "latest") || placed == s.InMemory || s.InMemory && s.Keys > 0 {
				t.Errorf("the store is %+v, and has a position: %t", s, placed)
			}
		}
		outcomes, err := p.office(t).Verify(t.Context(), opened, admin.VerifyOptions{Scratch: filepath.Join(t.TempDir(), "scratch")})
		if err != nil || len(outcomes) != 2 {
			t.Fatalf("verify returned %+v, %v", outcomes, err)
		}
		for _, o := range outcomes {
			if o.Store == "latest" && !errors.Is(o.Err, admin.ErrInMemory) || o.Store == "firsts" && !o.Equal() {
				t.Errorf("verify says of %s: %+v", o.Store, o)
			}
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
		report, err := p.office(t).Application(top).RebuildFromChangelog(t.Context(), p.cfg.StateDir, []string{"firsts"}, admin.Options{})
		if err != nil || len(report.Tasks) != 1 {
			t.Errorf("the rebuild returned %+v, %v", report, err)
		}
		p.lives(top)
		p.wantFirsts(top)
	})
}
