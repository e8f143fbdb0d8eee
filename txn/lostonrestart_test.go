package txn_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

var (
	looksIn   = topology.Topic("looks", schemas.String(), schemas.String())
	seenOut   = topology.Topic("seen", schemas.String(), schemas.JSON[int]())
	seenStore = topology.KeyValueStore("seen", schemas.String(), schemas.JSON[int]())
)

// looks are prices with a topic beside them whose records count in a store of their own. The n-th
// record of a key has the output n. So the outputs show what the store was.
type looks struct {
	*prices
	n int
	// since is how many outputs there were when the store was empty last.
	since int
}

func newLooks(t *testing.T) *looks {
	t.Helper()
	p := newPricesOn(t, newBroker(t, 1, "changes", "dead", "looks", "seen"), kept)
	p.inputs = append(p.inputs, "looks")
	return &looks{prices: p}
}

// looksTopology has three stores in one task: the table in memory, firstsStore on the disk, and the
// given store of looks.
func looksTopology(t *testing.T, seen topology.Store[state.KeyValue[string, int]]) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("pricing", topology.DeadLetters("dead"))
	table := topology.TableFrom(b, pricesIn, pricesStore.InMemory())
	showChanges(table)
	// The node names the store of looks, so that all are in one task.
	topology.Stateful(table.Changes(), "first", firstsStore, seen).Process(
		func(s *topology.Setup) (topology.Handler[string, topology.Change[int]], error) {
			firsts := firstsStore.In(s)
			return func(_ *topology.Context, r topology.Record[string, topology.Change[int]]) error {
				return countFirst(firsts, r)
			}, nil
		})
	topology.Process(topology.From(b, looksIn), "see", seen, countLook).Into(seenOut)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// countLook counts the looks at a key.
func countLook(
	c *topology.Context, seen state.KeyValue[string, int], r topology.Record[string, string], emit topology.Emit[string, int],
) error {
	n, _, err := seen.Get(r.Key)
	if err != nil {
		return err
	}
	if err := seen.Put(r.Key, n+1); err != nil {
		return err
	}
	return emit(c, topology.WithValue(r, n+1))
}

// look makes records for which only the store of looks is written.
func (l *looks) look(n int) {
	l.t.Helper()
	for range n {
		l.produce(l.t, &kgo.Record{Topic: "looks", Key: fmt.Appendf(nil, "k%d", l.n%5), Value: []byte("x"), Timestamp: time.Now()})
		l.n++
	}
}

// live lets an application process everything, compares its stores and all outputs, and stops it.
// The functions run before the comparison, one after the other.
func (l *looks) live(top *topology.Topology, during ...func(app *txn.App)) (restored int64) {
	l.t.Helper()
	if len(top.Subtopologies()[0].LostOnRestart()) > 0 {
		l.since = len(l.logged(l.t, "seen"))
	}
	app, stop := start(l.t, top, l.cfg)
	waitFor(l.t, "everything to be committed", func() bool { return l.caughtUp(app) })
	restored = app.Status().Tasks[0].Restored
	for _, f := range during {
		f(app)
		waitFor(l.t, "everything to be committed", func() bool { return l.caughtUp(app) })
	}
	l.compare(app)
	if err := stop(); err != nil {
		l.t.Fatal(err)
	}
	return restored
}

// compare compares the stores with the inputs and the outputs.
func (l *looks) compare(app *txn.App) {
	l.t.Helper()
	if got, want := l.table(app), fmt.Sprint(l.want); got != want {
		l.t.Errorf("the table is\n%s\nand should be\n%s", got, want)
	}
	if err := l.chained(); err != nil {
		l.t.Error(err)
	}
	l.compareFirsts(app)
	outputs := l.logged(l.t, "seen")
	if len(outputs) != l.n {
		l.t.Errorf("%d looks have %d outputs", l.n, len(outputs))
	}
	counts := map[string]int{}
	for _, r := range outputs[l.since:] {
		key := string(r.Key)
		counts[key]++
		if got, want := string(r.Value), fmt.Sprint(counts[key]); got != want {
			l.t.Errorf("an output of %s says %s, and is the one with number %s since the store was empty", key, got, want)
		}
	}
	if got, want := seenRows(l.t, app), fmt.Sprint(counts); got != want {
		l.t.Errorf("the store of looks has %s, want %s", got, want)
	}
}

func seenRows(t *testing.T, app *txn.App) string {
	t.Helper()
	return readStore(t, app, seenStore, func(s state.KeyValue[string, int]) string {
		all := map[string]int{}
		for e, err := range s.All() {
			if err != nil {
				t.Fatal(err)
			}
			all[e.Key] = e.Value
		}
		return fmt.Sprint(all)
	})
}

// TestStoreLostOnRestart: each start begins with an empty store and restores the others, whichever
// was written last. No record counts twice, and there is no changelog.
func TestStoreLostOnRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLooks(t)
		top := looksTopology(t, seenStore.LostOnRestart())
		for life := range 3 {
			l.feed(40, 20, 0)
			l.look(30)
			if n := l.live(top); life > 0 && n < 20 {
				t.Errorf("life %d has restored %d records", life, n)
			}
		}
		l.look(30)
		l.live(top) // rounds of the lost store alone
		l.set(7)
		l.live(top)
		l.live(top)
		found, err := l.adm.ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found.Has("pricing-seen-changelog") || !found.Has("pricing-latest-changelog") {
			t.Errorf("the topics are %v", found.Names())
		}
	})
}

// TestStoreLostWhenReopened: a task that is closed and opened again in the same process begins with
// the empty store too.
func TestStoreLostWhenReopened(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLooks(t)
		top := looksTopology(t, seenStore.LostOnRestart())
		l.feed(40, 20, 0)
		l.look(30)
		l.live(top, func(app *txn.App) {
			l.compare(app)
			task := graph.TaskID{Subtopology: "looks"}
			if err := app.Rebuild([]graph.TaskID{task}, "firsts"); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the task with an empty store", func() bool {
				view, err := txn.Read(app, seenStore, 0)
				if err != nil {
					return false
				}
				empty := true
				for range view.Store().All() {
					empty = false
				}
				return view.Close() == nil && empty
			})
			l.since = len(l.logged(t, "seen"))
			l.look(20)
			l.feed(20, 20, 0)
		})
	})
}

// TestStoreLostBetweenInstances: a task that moves to another instance and back finds the empty
// store in both, and the others as they were. The rounds of one instance have written to the lost
// store alone, and the state of the other instance is as new as the commit.
func TestStoreLostBetweenInstances(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLooks(t)
		top := looksTopology(t, seenStore.LostOnRestart())
		one, other := l.cfg.StateDir, filepath.Join(t.TempDir(), "other")
		l.feed(40, 20, 0)
		for i, dir := range []string{one, other, one, other} {
			if i == 2 {
				l.set(3)
			}
			l.cfg.StateDir = dir
			l.look(20)
			l.live(top)
		}
	})
}

// TestStoreBetweenChangelogAndLost: a store that loses its changelog is empty at each start. If it
// gets a changelog again, the rows of before are not taken for those of now: the task stops until
// the old topic is deleted, and then begins empty for the last time.
func TestStoreBetweenChangelogAndLost(t *testing.T) {
	for name, before := range map[string]topology.Store[state.KeyValue[string, int]]{"disk": seenStore, "memory": seenStore.InMemory()} {
		bubble(t, name, func(t *testing.T) {
			l := newLooks(t)
			with, lost := looksTopology(t, before), looksTopology(t, seenStore.LostOnRestart())
			for _, top := range []*topology.Topology{with, with, lost, lost} {
				l.feed(20, 20, 0)
				l.look(20)
				l.live(top)
			}
			app, err := txn.New(with, l.cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			want := "store seen is new, and its changelog pricing-seen-changelog[0] already holds records"
			if err := app.Run(ctx); !errors.Is(err, txn.ErrAllStopped) || !strings.Contains(err.Error(), want) {
				t.Fatalf("Run returned %v, want %q", err, want)
			}
			if _, err := l.adm.DeleteTopics(t.Context(), "pricing-seen-changelog"); err != nil {
				t.Fatal(err)
			}
			l.since = len(l.logged(t, "seen"))
			for range 2 {
				l.look(20)
				l.live(with)
			}
		})
	}
}

// TestToolsAndStoreLostOnRestart: commands that read the directory of a stopped instance say that
// nothing has the rows, leave the store out where it has no part, and read the others.
func TestToolsAndStoreLostOnRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		l := newLooks(t)
		top := looksTopology(t, seenStore.LostOnRestart())
		l.feed(40, 20, 0)
		l.look(30)
		l.live(top)
		opened, err := admin.OpenState(t.Context(), l.cfg.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := opened.Get(t.Context(), "seen", 0, []byte("k1"), false); !errors.Is(err, admin.ErrLostOnRestart) {
			t.Errorf("a lookup of a lost row: %v", err)
		}
		if _, err := opened.Scan(t.Context(), admin.ScanRequest{Store: "seen"}); !errors.Is(err, admin.ErrLostOnRestart) {
			t.Errorf("a scan of lost rows: %v", err)
		}
		tasks, err := opened.Tasks(t.Context(), admin.Counts)
		if err != nil || len(tasks) != 1 || len(tasks[0].Stores) != 3 {
			t.Fatalf("the tasks are %+v, %v", tasks, err)
		}
		if err := l.office(t).FillEnds(t.Context(), tasks); err != nil {
			t.Fatal(err)
		}
		for _, s := range tasks[0].Stores {
			_, placed := tasks[0].Positions.Changelog(s.Name)
			_, noted := tasks[0].Positions.InMemory(s.Name)
			if lost := s.Name == "seen"; lost && (placed || noted || !s.InMemory || s.Keys > 0 || s.End >= 0) || lost != (s.Changelog == "") {
				t.Errorf("the store is %+v, and has a position: %t, or a note: %t", s, placed, noted)
			}
		}
		scratch := filepath.Join(t.TempDir(), "scratch")
		outcomes, err := l.office(t).Verify(t.Context(), opened, admin.VerifyOptions{Scratch: scratch})
		if err != nil || len(outcomes) != 2 || outcomes[0].Store != "firsts" || !outcomes[0].Equal() {
			t.Errorf("verify returned %+v, %v", outcomes, err)
		}
		outcomes, err = l.office(t).Verify(t.Context(), opened, admin.VerifyOptions{Scratch: scratch, Store: "seen"})
		if err != nil || len(outcomes) != 1 || !errors.Is(outcomes[0].Err, admin.ErrLostOnRestart) {
			t.Errorf("verify of the lost store returned %+v, %v", outcomes, err)
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
		application := l.office(t).Application(top)
		if report, err := application.RebuildFromChangelog(t.Context(), l.cfg.StateDir, []string{"seen"}, admin.Options{}); !errors.Is(err, admin.ErrRefused) {
			t.Errorf("the rebuild of the lost store returned %+v, %v", report, err)
		}
		if report, err := application.RebuildFromChangelog(t.Context(), l.cfg.StateDir, nil, admin.Options{}); err != nil || len(report.Tasks) != 1 {
			t.Errorf("the rebuild returned %+v, %v", report, err)
		}
		l.look(10)
		l.live(top)
	})
}

// TestOnlyStoresLostOnRestart: a task that has no other stores has no state that offsets could
// contradict. Offsets that are moved, and those that are gone, are followed as in a task without
// stores.
func TestOnlyStoresLostOnRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "looks", "seen")
		builder := topology.NewBuilder("looking")
		seen := seenStore.LostOnRestart()
		topology.Process(topology.From(builder, looksIn), "see", seen, countLook).Into(seenOut)
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		cfg := b.config(txn.Config{StateDir: filepath.Join(t.TempDir(), "state"), Workers: 1})
		for range 6 {
			b.produce(t, &kgo.Record{Topic: "looks", Key: []byte("k"), Value: []byte("x")})
		}
		want := ""
		life := func(outputs ...int) {
			t.Helper()
			for _, n := range outputs {
				want += fmt.Sprint(" ", n)
			}
			app, stop := start(t, top, cfg)
			waitFor(t, "the outputs", func() bool { return len(b.logged(t, "seen")) >= len(strings.Fields(want)) })
			waitFor(t, "the task", running(app, 1))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, r := range b.logged(t, "seen") {
				got += " " + string(r.Value)
			}
			if got != want {
				t.Fatalf("the outputs are%s, want%s", got, want)
			}
		}
		life(1, 2, 3, 4, 5, 6)
		life()
		moved := kadm.Offsets{}
		moved.AddOffset("looks", 0, 4, -1)
		if err := b.adm.CommitAllOffsets(t.Context(), "looking", moved); err != nil {
			t.Fatal(err)
		}
		life(1, 2)
		if _, err := b.adm.DeleteGroups(t.Context(), "looking"); err != nil {
			t.Fatal(err)
		}
		life(1, 2, 3, 4, 5, 6)
	})
}
