package txn_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestLostRecords: a commit names more of a changelog than there is. The input is not read again into a state that databases may be ahead
// of, a skip is none, and adopting goes on with what there is.
func TestLostRecords(t *testing.T) {
	b := newBroker(t, 2, "in", "out")
	dir := t.TempDir()
	cfg := txn.Config{Brokers: b.ListenAddrs(), StateDir: dir, Workers: 1}
	_, stop := start(t, countTopology(t), cfg)
	feed(t, b, 100)
	b.read(t, "out", 100)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// The commits are raised instead of the logs being cut.
	raised := kadm.Offsets{}
	b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) {
		blob, err := task.ParseBlob(o.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		blob.Changelogs[0].Applied += 1000
		o.Metadata = blob.Encode()
		raised.Add(o.Offset)
	})
	if err := b.adm.CommitAllOffsets(t.Context(), "counting", raised); err != nil {
		t.Fatal(err)
	}
	stops(t, cfg, "the cluster lost records", "`onceward rebuild from-input in_0`", "`onceward adopt in_0`")

	client, err := admin.Connect(t.Context(), b.ListenAddrs()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	op := client.Application(countTopology(t))
	refused := func(err error, words string) {
		t.Helper()
		if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want a refusal that says %q", err, words)
		}
	}
	_, err = op.RebuildFromInput(t.Context(), admin.Options{}, nil)
	refused(err, "databases may hold what the log does not")
	_, err = op.AcceptSkip(t.Context(), admin.Options{})
	refused(err, "the cluster lost records")
	b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) {
		if was, _ := raised.Lookup(o.Topic, o.Partition); o.Metadata != was.Metadata {
			t.Error("a refused action has committed something")
		}
	})
	if _, err := op.Adopt(t.Context(), admin.Options{}); err != nil {
		t.Fatal(err)
	}
	_, stop = start(t, countTopology(t), cfg)
	feed(t, b, 100)
	check(t, b.read(t, "out", 200), 10)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	_, stop = start(t, countTopology(t), cfg)
	feed(t, b, 100)
	check(t, b.read(t, "out", 300), 15)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// stops runs an application whose only task must stop for a reason with these words.
func stops(t *testing.T, cfg txn.Config, words ...string) {
	t.Helper()
	cfg.Logger = testLogger(t)
	app, err := txn.New(countTopology(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = app.Run(context.Background())
	for _, word := range words {
		if !errors.Is(err, txn.ErrAllStopped) || !strings.Contains(err.Error(), word) {
			t.Errorf("Run returned %v, want ErrAllStopped with %q", err, word)
		}
	}
}
