package txn_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/internal/task"
)

// TestLostRecords: a commit names a position behind the end of a changelog. The input is not read
// again into a state that databases may be ahead of, and adopting continues with the remaining
// records.
func TestLostRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		dir := t.TempDir()
		cfg := b.config(txn.Config{StateDir: dir, Workers: 1})
		_, stop := start(t, countTopology(t), cfg)
		feed(t, b, 100)
		b.read(t, "out", 100)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		// The commits are raised instead of the logs being cut.
		raised := kadm.Offsets{}
		b.offsetsOf(t, "in").Each(func(o kadm.OffsetResponse) {
			committed, err := task.ParseCommitMetadata(o.Metadata)
			if err != nil {
				t.Fatal(err)
			}
			committed.Changelogs[0].Applied += 1000
			o.Metadata = committed.Encode()
			raised.Add(o.Offset)
		})
		if err := b.adm.CommitAllOffsets(t.Context(), "counting", raised); err != nil {
			t.Fatal(err)
		}
		stops(t, cfg, "the cluster lost records", "`onceward rebuild from-input in_0`", "`onceward adopt in_0`")

		client := b.office(t)
		op := client.Application(countTopology(t))
		_, err := op.RebuildFromInput(t.Context(), admin.Options{}, nil)
		if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "databases may have rows that the log does not have") {
			t.Errorf("the rebuild returned %v, want a refusal", err)
		}
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
	})
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

// TestInterruptedRebuild: a rebuild from input that was interrupted while it emptied a changelog
// leaves a task that does not open, because nothing names its state any more, and is done again.
func TestInterruptedRebuild(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		_, stop := start(t, countTopology(t), cfg)
		feed(t, b, 100)
		b.read(t, "out", 100)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		client := b.office(t)
		op := client.Application(countTopology(t))
		fault := b.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "counting-counts-changelog", Err: kerr.TopicAuthorizationFailed})
		_, err := op.RebuildFromInput(t.Context(), admin.Options{}, nil)
		if !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), "done again") {
			t.Errorf("the rebuild returned %v, want that it was not authorised and is to be done again", err)
		}
		fault.Remove()
		stops(t, cfg, "a rebuild from input was interrupted", "Recovery action: `onceward rebuild from-input in_0` once more")
		for name, act := range map[string]func(context.Context, admin.Options) (admin.Report, error){
			"adopt": op.Adopt, "adopt --from-rounds": op.AdoptFromRounds, "accept-skip": op.AcceptSkip,
			"reset": func(ctx context.Context, o admin.Options) (admin.Report, error) {
				return op.Reset(ctx, o, admin.Offsets{"in": admin.End})
			},
		} {
			if _, err := act(t.Context(), admin.Options{}); !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "do it again") ||
				strings.Contains(err.Error(), "`onceward adopt") || strings.Contains(err.Error(), "`onceward accept-skip") {
				t.Errorf("%s of a state that is half empty: %v", name, err)
			}
		}
		if _, err := op.RebuildFromInput(t.Context(), admin.Options{}, nil); err != nil {
			t.Fatal(err)
		}
		_, stop = start(t, countTopology(t), cfg)
		counts := map[string][]int64{}
		for _, r := range b.read(t, "out", 200) {
			n, err := schemas.Int64().Decode(r.Value)
			if err != nil {
				t.Fatal(err)
			}
			counts[string(r.Key)] = append(counts[string(r.Key)], n)
		}
		for key, got := range counts {
			if !slices.Equal(got, []int64{1, 2, 3, 4, 5, 1, 2, 3, 4, 5}) {
				t.Errorf("key %s was counted %v, want to five twice", key, got)
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
