package runtime_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// looksShortened is part of the log line about a loss that the client suspected, and that did not
// happen.
const looksShortened = "a log looked shortened"

// TestInputLosesItsEnd: a broker comes back without the last batch of an input that was read and
// committed, as an unclean election leaves a log. The task that reads it stops for data integrity.
// Its neighbours are the negative control: their partitions have changed leaders as well and lost
// nothing, and they go on, suspected of nothing. Only a real broker has a log that can be cut.
func TestInputLosesItsEnd(t *testing.T) {
	t.Parallel()
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{ShortLived: true, SeparateController: true})
	e := newAppScene(t, c)
	b := topology.NewBuilder("copy")
	topology.From(b, topology.Topic(e.in, schemas.Bytes(), schemas.Bytes())).
		Into(topology.Topic(e.out, schemas.Bytes(), schemas.Bytes()))
	r := e.start(e.build(b))
	const each = 100
	e.feed(each, plain)
	e.feedOne(10)
	e.feedOne(10) // the batch that is lost
	e.until(r, each+20)
	before := r.Status()
	log := e.logOf(0)
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	cut := cutLastBatch(t, log)
	if err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Until("the task to stop", func(s txn.Status) bool {
		return len(s.Tasks) == partitions && s.Tasks[0].State == txn.TaskStopped
	})
	reason := r.Status().Tasks[0].Reason
	want := fmt.Sprintf("records up to offset %d, the last of them of leader epoch", before.Tasks[0].Inputs[0].Offset-1)
	if !strings.Contains(reason, want) || !strings.Contains(reason, fmt.Sprintf("It leaves that epoch at offset %d ", cut)) {
		t.Errorf("the task stops because of %q; want %q and the offset %d", reason, want, cut)
	}
	e.feed(each, plain)
	e.until(r, each+20+each*6/10) // the keys of the other two partitions
	if said := e.log.Lines(looksShortened); len(said) > 0 {
		t.Errorf("a change of leaders alone: %q", said)
	}
	if err := r.Stop(); !errors.Is(err, txn.ErrStopped) || !errors.Is(err, txn.ErrIntegrity) {
		t.Errorf("Run returns %v", err)
	}
}

// feedOne writes n records as one batch to partition 0.
func (e *appScene) feedOne(n int) {
	e.t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: e.in, Key: []byte("k0"), Value: []byte("v")}
	}
	if err := e.producer.ProduceSync(e.t.Context(), records...).FirstErr(); err != nil {
		e.t.Fatal(err)
	}
}

// logOf returns the path of the first segment of a partition of "in".
func (e *appScene) logOf(partition int) string {
	e.t.Helper()
	dirs, err := e.Admin().DescribeAllLogDirs(e.t.Context(), nil)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, of := range dirs {
		for dir := range of {
			path := filepath.Join(dir, fmt.Sprint(e.in, "-", partition), "00000000000000000000.log")
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	e.t.Fatalf("no broker has a log of %s", e.in)
	return ""
}

// cutLastBatch takes the last batch off a segment, and returns its offset.
func cutLastBatch(t *testing.T, path string) int64 {
	t.Helper()
	segment, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const header = 12 // offset and length, which counts from behind itself
	last := -1
	for at := 0; at+header < len(segment); at += header + int(binary.BigEndian.Uint32(segment[at+8:])) {
		last = at
	}
	if last <= 0 {
		t.Fatalf("%s has one batch or none", path)
	}
	if err := os.Truncate(path, int64(last)); err != nil {
		t.Fatal(err)
	}
	return int64(binary.BigEndian.Uint64(segment[last:]))
}
