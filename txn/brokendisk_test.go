package txn_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/state/pebblestore/disktest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// keepTopology keeps the last value of each key, which reads nothing, and copies all records: a
// disk that fails is met by rounds that are committed already.
func keepTopology(t *testing.T) (*topology.Topology, topology.Store[state.KeyValue[string, string]]) {
	t.Helper()
	build := topology.NewBuilder("counting")
	last := topology.KeyValueStore("last", schemas.String(), schemas.String())
	topology.Process(topology.From(build, topology.Topic("in", schemas.String(), schemas.String())), "keep", last,
		func(c *topology.Context, last state.KeyValue[string, string], r topology.Record[string, string], emit topology.Emit[string, string],
		) error {
			if err := last.Put(r.Key, r.Value); err != nil {
				return err
			}
			return emit(c, r)
		}).Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := build.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top, last
}

// brokenDisk is a configuration whose databases lie on a disk that can be broken, and flush often.
func brokenDisk(t *testing.T, b *testBroker) (txn.Config, *disktest.Disk) {
	t.Helper()
	d := disktest.New(1 << 40)
	t.Cleanup(func() {
		if d.Refused() == 0 {
			t.Error("the disk has refused nothing: the test tested nothing")
		}
	})
	return b.config(txn.Config{
		StateDir: filepath.Join(t.TempDir(), "state"), Workers: 1,
		CommitIntervalMax: time.Millisecond, RoundBytesMax: 64 << 10,
	}).WithDatabases(func(o *pebblestore.Options) {
		o.FlushBytes, o.FlushInterval = 8<<10, 20*time.Millisecond
		d.Use(o)
	}), d
}

// keepFeed sends records to both partitions: keys "k0" to "k49", the even ones to partition 0.
type keepFeed struct {
	sent int
	last map[string]string
}

func (f *keepFeed) send(t *testing.T, b *testBroker, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		key, value := fmt.Sprint("k", f.sent%50), fmt.Sprint(f.sent)
		records[i] = &kgo.Record{Topic: "in", Partition: int32(f.sent % 2), Key: []byte(key), Value: []byte(value)}
		f.last[key] = value
		f.sent++
	}
	b.produce(t, records...)
}

// check waits until all that was sent has come out, once, and compares the stores with what they
// have to keep.
func (f *keepFeed) check(t *testing.T, b *testBroker, app *txn.App, last topology.Store[state.KeyValue[string, string]]) {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range b.read(t, "out", f.sent) {
		if seen[string(r.Value)] {
			t.Fatalf("record %s is there twice", r.Value)
		}
		seen[string(r.Value)] = true
	}
	waitFor(t, "the last round to be applied", func() bool { return app.Status().Totals.Records == int64(f.sent) })
	got := map[string]string{}
	for p := range int32(2) {
		v, err := txn.Read(app, last, p)
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range v.Store().All() {
			if err != nil {
				t.Fatal(err)
			}
			got[e.Key] = e.Value
		}
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(got, f.last) {
		t.Errorf("the stores hold %v, want %v", got, f.last)
	}
}

// TestBrokenDisk: an I/O error stops the task whose database met it, and no other. Nothing is lost:
// once the disk is repaired and the task resumed, what its database did not take is replayed (rule
// 10.5).
func TestBrokenDisk(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		top, last := keepTopology(t)
		cfg, disk := brokenDisk(t, b)
		app, stop := start(t, top, cfg)
		waitFor(t, "the tasks", running(app, 2))
		broken, healthy := app.Status().Tasks[0], app.Status().Tasks[1]
		disk.Break(filepath.Join(cfg.StateDir, "tasks", broken.ID.Subtopology, fmt.Sprint(broken.ID.Partition)))
		feed := keepFeed{last: map[string]string{}}
		const words = "stopped after an I/O error"
		for feed.sent < 40_000 && !stoppedFor(app, 1, words) {
			feed.send(t, b, 4000)
		}
		waitFor(t, "the task to stop", func() bool { return stoppedFor(app, 1, words, "did not take a committed round") })
		feed.send(t, b, 1000)
		half := int64(feed.sent / 2)
		waitFor(t, "the neighbour to go on", func() bool { return b.committed(t)[healthy.ID.Partition] == half })
		if at := b.committed(t)[broken.ID.Partition]; at >= half {
			t.Errorf("the offset of the stopped task is %d of %d", at, half)
		}
		disk.Break("")
		if err := app.Resume(broken.ID); err != nil {
			t.Fatal(err)
		}
		feed.check(t, b, app, last)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestEveryDiskBroken: where I/O errors stop all tasks, Run ends because of the disk, which is no
// contradiction in what is stored.
func TestEveryDiskBroken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		top, _ := keepTopology(t)
		cfg, disk := brokenDisk(t, b)
		cfg.Logger = testLogger(t)
		app, err := txn.New(top, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- app.Run(ctx) }()
		waitFor(t, "the tasks", running(app, 2))
		disk.Break(cfg.StateDir)
		feed := keepFeed{last: map[string]string{}}
		for feed.sent < 40_000 && len(ended) == 0 {
			feed.send(t, b, 4000)
		}
		err = <-ended
		if !errors.Is(err, txn.ErrAllStopped) || !errors.Is(err, state.ErrFailed) || errors.Is(err, txn.ErrIntegrity) ||
			errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("Run returns %v", err)
		}
	})
}
