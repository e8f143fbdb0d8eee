package txn_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// smallDisk is a disk of a test.
type smallDisk struct {
	stateDir string
	// fill leaves no space, free gives it back.
	fill, free func()
	use        func(*pebblestore.Options)
}

// budgetDisk is a smallDisk without a file system of its own.
func budgetDisk(t *testing.T) smallDisk {
	d := disktest.New(1 << 30)
	t.Cleanup(func() {
		if d.Refused() == 0 {
			t.Error("the disk has refused nothing: the test tested nothing")
		}
	})
	return smallDisk{filepath.Join(t.TempDir(), "state"), func() { d.SetFree(0) }, func() { d.SetFree(1 << 30) }, d.Use}
}

// besideTopology counts the records of "in", and copies those of "plain" with tasks that have no
// store.
func besideTopology(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	counts := topology.KeyValueStore("counts", schemas.String(), schemas.Int64())
	topology.Process(in, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	topology.From(b, topology.Topic("plain", schemas.String(), schemas.String())).
		Into(topology.Topic("copied", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// spaceConfig flushes often, so that a full disk is met soon.
func spaceConfig(b *testBroker, d smallDisk) txn.Config {
	return b.config(txn.Config{StateDir: d.stateDir, Workers: 1}).WithDatabases(func(o *pebblestore.Options) {
		o.FlushBytes, o.FlushInterval = 8<<10, 20*time.Millisecond
		d.use(o)
	})
}

// stoppedFor reports whether n tasks are stopped, each with these words in its reason.
func stoppedFor(app *txn.App, n int, words ...string) bool {
	stopped := 0
	for _, s := range app.Status().Tasks {
		if s.State != txn.TaskStopped {
			continue
		}
		for _, w := range words {
			if !strings.Contains(s.Reason, w) {
				return false
			}
		}
		stopped++
	}
	return stopped == n
}

// TestFullDisk: a full disk stops the tasks that write to it, and no other; they keep their
// offsets, lose nothing, and go on by themselves (rule 10.5). Row of the failure matrix: disk full.
func TestFullDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) { testFullDisk(t, budgetDisk(t)) })
}

func testFullDisk(t *testing.T, d smallDisk) {
	b := newBroker(t, 2, "in", "out", "plain", "copied")
	cfg, looks := spaceConfig(b, d), newLogged(t, "tasks wait for space on the disk", "again_in")
	cfg.Logger = slog.New(looks)
	app, stop := start(t, besideTopology(t), cfg)
	feed(t, b, 400)
	b.read(t, "out", 400)
	d.fill()
	fed := 400
	waitFor(t, "the tasks with a store to stop", func() bool {
		feed(t, b, 100)
		fed += 100
		return stoppedFor(app, 2, "the disk is full", "bytes are free in the state directory "+d.stateDir, "by itself")
	})
	feed(t, b, 200) // they are not read
	fed += 200
	var plain []*kgo.Record
	for i := range 50 {
		plain = append(plain, &kgo.Record{Topic: "plain", Partition: int32(i % 2), Key: []byte("k"), Value: []byte("v")})
	}
	b.produce(t, plain...)
	b.read(t, "copied", 50)
	before := b.committed(t)
	var at []time.Time
	for turn := range 3 { // the disk is looked at, and still full
		waitFor(t, "the next look", func() bool { return len(looks.all()) > turn })
		at = append(at, time.Now())
		if !stoppedFor(app, 2) {
			t.Fatal("a task goes on although its disk is full")
		}
	}
	if got, want := looks.all(), []string{"2s", "4s", "8s"}; !slices.Equal(got, want) {
		t.Errorf("the waits after the first one are %v, want %v", got, want)
	}
	if took := at[2].Sub(at[1]); took < 4*time.Second-pollMax || took > 4*time.Second+pollMax {
		t.Errorf("the third look came %s after the second, want 4 s", took)
	}
	if after := b.committed(t); fmt.Sprint(before) != fmt.Sprint(after) || after[0]+after[1] >= int64(fed) {
		t.Errorf("the offsets of stopped tasks went from %v to %v, of %d records", before, after, fed)
	}
	d.free()
	check(t, b.read(t, "out", fed), int64(fed/20))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	start(t, besideTopology(t), spaceConfig(b, d))
	feed(t, b, 100)
	check(t, b.read(t, "out", fed+100), int64(fed/20)+5)
}

// TestFullDiskMeetsCommittedRounds: where nothing is read, a full disk is met by rounds that are
// committed already, with the next ones open upon them. Their tasks stop, and what the stores did
// not take is replayed. Row of the failure matrix: disk full.
func TestFullDiskMeetsCommittedRounds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		top, last := keepTopology(t)
		d := budgetDisk(t)
		cfg := spaceConfig(b, d)
		cfg.CommitIntervalMax, cfg.RoundBytesMax = time.Millisecond, 64<<10
		app, _ := start(t, top, cfg)
		waitFor(t, "the tasks", running(app, 2))
		d.fill()
		feed := keepFeed{last: map[string]string{}}
		for feed.sent < 40_000 && !stoppedFor(app, 2) {
			feed.send(t, b, 4000)
		}
		waitFor(t, "the tasks to stop", func() bool { return stoppedFor(app, 2, "the disk is full", "did not take a committed round") })
		d.free()
		feed.check(t, b, app, last)
	})
}

// TestFullDiskWhileRestoring: a disk that is full when a task is opened, and one that fills up
// while it is restored, stop it until there is space.
func TestFullDiskWhileRestoring(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		_, stop := start(t, countTopology(t), spaceConfig(b, smallDisk{stateDir: t.TempDir(), use: func(*pebblestore.Options) {}}))
		const keys = 4000
		records := make([]*kgo.Record, keys)
		for i := range records {
			records[i] = &kgo.Record{Topic: "in", Key: fmt.Appendf(nil, "key %d %x", i, uint32(i)*2654435761), Value: []byte("v")}
		}
		b.produce(t, records...)
		b.read(t, "out", keys)
		if err := stop(); err != nil {
			t.Fatal(err)
		}

		disk := disktest.New(0)
		d := smallDisk{stateDir: t.TempDir(), use: disk.Use}
		app, _ := start(t, countTopology(t), spaceConfig(b, d))
		waitFor(t, "the task that cannot be opened", func() bool {
			return stoppedFor(app, 1, "the disk is full", d.stateDir, "by itself")
		})
		// Enough to open the database, and for the check: not for the restore.
		disk.SetFree(120 << 10)
		waitFor(t, "the task that cannot be restored", func() bool {
			return stoppedFor(app, 1, "the disk is full", "restoring task in_0")
		})
		disk.SetFree(1 << 30)
		waitFor(t, "the task", running(app, 1))
		b.produce(t, records...)
		check(t, b.read(t, "out", 2*keys), 2)
	})
}

// TestFullDiskUnderGlobalTable: a full disk stops a global table and the tasks that read it. Both
// go on by themselves when there is space, without a record lost.
func TestFullDiskUnderGlobalTable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r, d := newRates(t), budgetDisk(t)
		cfg := spaceConfig(r.testBroker, d)
		cfg.Logger = r.cfg.Logger
		app, stop := start(t, ratedTopology(t), cfg)
		r.set(20, 1)
		r.current(app)
		r.ask("r1")
		d.fill()
		asked := 1
		waitFor(t, "the tasks that read the table to stop", func() bool {
			r.set(500, 2)
			r.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("r1")})
			asked++
			return stoppedFor(app, 1, "the disk is full", "by itself")
		})
		d.free()
		r.current(app)
		r.testBroker.read(t, "out", asked)
		r.read = asked
		if got := r.ask("r1"); got != "r1=2" {
			t.Errorf("the answer is %q", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFullDiskAndFailFast: an instance that is to end with the first task that stops ends with this
// one too.
func TestFullDiskAndFailFast(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out", "plain", "copied")
		d := budgetDisk(t)
		d.fill()
		cfg := spaceConfig(b, d)
		cfg.FailFast, cfg.Logger = true, testLogger(t)
		app, err := txn.New(besideTopology(t), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := app.Run(ctx); err == nil || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("Run returns %v", err)
		}
	})
}
