package restore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/task"
)

var errKilled = errors.New("killed")

// dying is the database of a process that is killed over the emptying of a store, after so many
// others.
type dying struct {
	state.Database
	left int
	// keeps is broken: a store that was emptied keeps its position.
	keeps bool
}

func (d *dying) Remove(base, next state.Positions, store state.StoreID, r state.Range) error {
	if d.left == 0 {
		return errKilled
	}
	d.left--
	if d.keeps {
		next.Changelogs = base.Changelogs
	}
	return d.Database.Remove(base, next, store, r)
}

// killedWhileEmptied restores two stores in full, of a database that is so old that tombstones may
// be gone, is killed when so many of them are empty and nothing was read yet, and lives again. It
// returns how the stores differ from their changelogs in the end.
func killedWhileEmptied(t *testing.T, emptied int, keeps bool) error {
	t.Helper()
	b := newBench(t, 0, 2, randomLogs(31, 2, 60))
	stores := slices.Sorted(maps.Keys(b.logs))
	old := state.Positions{Round: round6, State: round6, WrittenAt: time.Now().Add(-9 * time.Hour).UnixMilli()}
	last := state.Positions{Round: round7, State: round7}
	last.SetInput(state.Input{Topic: "in", Partition: 1, Offset: 100, StreamTime: state.NoTime})
	f := Found{
		Task: graph.TaskID{Subtopology: "in", Partition: 1}, HasState: true, Now: time.Now(),
		Inputs: []Input{{Topic: "in", Partition: 1, Committed: 100}},
	}
	var rows []state.Write
	for _, store := range stores {
		end := b.logs[store].end
		old.SetChangelog(state.Changelog{Store: store, TopicID: [16]byte{1}, Applied: end / 2, Scanned: end / 2})
		last.SetChangelog(state.Changelog{Store: store, TopicID: [16]byte{1}, Applied: end, Scanned: end})
		f.Changelogs = append(f.Changelogs, Changelog{
			Store: store, Topic: store, TopicID: [16]byte{1}, HighWatermark: end, DeleteRetention: 10 * time.Hour,
		})
		rows = append(rows, state.Write{Store: state.IDOf(store), Key: []byte("deleted, and the tombstone is gone"), Value: []byte("v")})
	}
	committed := task.NewCommitMetadata([8]byte{1}, last)
	f.Commit = &committed
	if err := b.db.Apply(state.Positions{}, old, slices.Values(rows)); err != nil {
		t.Fatal(err)
	}
	life := func(db state.Database) (Plan, error) {
		f.Database = db.Positions()
		plan, err := Judge(f)
		if err != nil {
			t.Fatal(err)
		}
		o := b.opening()
		o.db = db
		return plan, o.empty(plan.Replays)
	}
	plan, err := life(&dying{b.db, emptied, keeps})
	if killed := emptied < len(stores); killed != errors.Is(err, errKilled) || !killed && err != nil {
		t.Fatalf("the first life ended with %v", err)
	}
	for _, r := range plan.Replays {
		if r.Full != Expired {
			t.Fatalf("store %s is restored in full for %q, want %q", r.Store, r.Full, Expired)
		}
	}
	if plan, err = life(b.db); err != nil {
		t.Fatal(err)
	}
	if err := b.opening().replay(t.Context(), plan.Replays); err != nil {
		t.Fatal(err)
	}
	for _, store := range stores {
		got := map[string]string{}
		for e, err := range b.db.Scan(state.IDOf(store), state.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			got[string(e.Key)] = string(e.Value)
		}
		if want := b.logs[store].below(t, b.logs[store].end); !maps.Equal(got, want) {
			return fmt.Errorf("store %s has %d keys, want the %d of its changelog", store, len(got), len(want))
		}
	}
	return nil
}

// TestKilledWhileEmptied: a kill between the emptying of a store and the first chunk that is read
// for it leaves nothing that looks like state. An empty store is read from the start, and the next
// incarnation empties the others.
func TestKilledWhileEmptied(t *testing.T) {
	for emptied := range 3 {
		if err := killedWhileEmptied(t, emptied, false); err != nil {
			t.Errorf("killed with %d stores empty: %v", emptied, err)
		}
	}
}

// TestKilledWhileEmptiedControl: a store that is emptied and keeps its position lacks what is below
// that.
func TestKilledWhileEmptiedControl(t *testing.T) {
	if killedWhileEmptied(t, 2, true) == nil {
		t.Error("nothing is missing: the test would not notice")
	}
}
