package task

import (
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// TestLostOnRestartIsNotCommitted: a round that has written to a store without a changelog alone
// leaves the state at the round before. The commit does not name the store, and the positions of
// the process have its stream time.
func TestLostOnRestartIsNotCommitted(t *testing.T) {
	lost := state.Layout{Kind: state.WindowKind, Retention: 1000}
	db := memstore.New()
	st, err := state.NewTask(db, []state.Declaration{{Name: "kept"}, {Name: "lost", Layout: lost}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	at := state.Positions{Changelogs: []state.Changelog{{Store: "kept", TopicID: [16]byte{1}}, {Store: "lost"}}}
	if err := db.Apply(state.Positions{}, at, func(func(state.Write) bool) {}); err != nil {
		t.Fatal(err)
	}
	inputs := []state.Input{{Topic: "in"}}
	task := New(Spec{
		Inputs: inputs, Changelogs: []Changelog{{Store: "kept", Topic: "kept-changelog"}}, Lost: []state.StoreID{state.IDOf("lost")},
		State: st, Committed: at,
	})
	for round, keeps := range []bool{false, true, false} {
		c := task.Begin()
		ms := int64(1000 * (round + 1))
		rows := state.NewWindow(st.Store("lost"), schemas.String(), schemas.String(), lost)
		if _, err := rows.Put("key", ms, "value", ms); err != nil {
			t.Fatal(err)
		}
		if keeps {
			if err := st.Store("kept").Put([]byte("key"), nil); err != nil {
				t.Fatal(err)
			}
		}
		before := task.Committed.State
		c.Seal(time.UnixMilli(1))
		if c.WroteState() != keeps {
			t.Errorf("round %d has written state: %t", round, c.WroteState())
		}
		id := state.RoundID{ProducerID: int64(round + 1)}
		c.Flushed(id, c.WroteState(), [8]byte{}, map[string]int64{})
		want := before
		if keeps {
			want = id
		}
		if c.Next.Round != id || c.Next.State != want {
			t.Errorf("round %d is followed by %s", round, c.Next)
		}
		if in, _ := c.Next.Changelog("lost"); in.StreamTime != ms || in.Applied != 0 {
			t.Errorf("round %d leaves the store at %+v", round, in)
		}
		b, err := ParseCommitMetadata(c.Metadata())
		if err != nil {
			t.Fatal(err)
		}
		if _, named := b.Changelog("kept"); !named || len(b.Changelogs) != 1 || b.Topics != TopicsHash(at.Changelogs[:1]) {
			t.Errorf("round %d has the commit %+v", round, b)
		}
		if err := c.Apply(); err != nil {
			t.Fatal(err)
		}
		c.Retire()
	}
}
