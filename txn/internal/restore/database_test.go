package restore

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// TestRelay: a store that is declared with another layout than its rows have is emptied for itself,
// and loses its position.
func TestRelay(t *testing.T) {
	windows := state.Layout{Kind: state.WindowKind, Retention: 1000}
	longer := state.Layout{Kind: state.WindowKind, Retention: 2000}
	db := memstore.New()
	if err := db.Declare(state.Declaration{Name: "kept"}, state.Declaration{Name: "relaid", Layout: windows}); err != nil {
		t.Fatal(err)
	}
	at := state.Positions{Round: round7, State: round7, Changelogs: []state.Changelog{
		{Store: "kept", TopicID: topicA, Applied: 5, Scanned: 5}, {Store: "relaid", TopicID: topicB, Applied: 7, Scanned: 7},
	}}
	writes := []state.Write{
		{Store: state.IDOf("kept"), Key: []byte("k"), Value: []byte("v")}, {Store: state.IDOf("relaid"), Key: []byte("k"), Value: []byte("v")},
	}
	if err := db.Apply(state.Positions{}, at, slices.Values(writes)); err != nil {
		t.Fatal(err)
	}
	o := newBench(t, 0, 1, nil).opening(Store{Name: "kept"}, Store{Name: "relaid", Layout: longer})
	o.req.Open = func() (state.Database, error) { return db, nil }
	if err := o.openDatabase(nil); err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for _, name := range []string{"kept", "relaid"} {
		for _, err := range o.db.Scan(state.IDOf(name), state.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			rows[name]++
		}
	}
	_, named := o.db.Positions().Changelog("relaid")
	if rows["kept"] != 1 || rows["relaid"] != 0 || named || !o.has("kept") || o.full != Relaid {
		t.Errorf("the rows are %v at %v, restored for %q", rows, o.db.Positions(), o.full)
	}
	stores, err := o.db.Stores()
	if err != nil || !slices.Contains(stores, state.Declaration{Name: "relaid", Layout: longer}) {
		t.Errorf("the stores are %v, %v", stores, err)
	}
}

// TestRelayOfAnotherKind: a store is not emptied whose changelog does not hold records of the
// declared kind, and nor is another one beside it.
func TestRelayOfAnotherKind(t *testing.T) {
	windows := state.Layout{Kind: state.WindowKind, Retention: 1000}
	longer := state.Layout{Kind: state.WindowKind, Retention: 2000}
	sessions := state.Layout{Kind: state.SessionKind, Retention: 1000}
	db := memstore.New()
	if err := db.Declare(state.Declaration{Name: "a", Layout: windows}, state.Declaration{Name: "b", Layout: windows}); err != nil {
		t.Fatal(err)
	}
	write := state.Write{Store: state.IDOf("a"), Key: []byte("k"), Value: []byte("v")}
	at := state.Positions{Round: round7, State: round7, Changelogs: []state.Changelog{
		{Store: "a", TopicID: topicA, Applied: 5, Scanned: 5}, {Store: "b", TopicID: topicB, Applied: 7, Scanned: 7},
	}}
	if err := db.Apply(state.Positions{}, at, slices.Values([]state.Write{write})); err != nil {
		t.Fatal(err)
	}
	o := newBench(t, 0, 1, nil).opening(Store{Name: "a", Layout: longer}, Store{Name: "b", Layout: sessions})
	err := o.relay(db, []Changelog{{Store: "a", TopicID: topicA}, {Store: "b", TopicID: topicB}})
	stop, stops := errors.AsType[*StopError](err)
	if !stops || !errors.Is(err, ErrKind) || !strings.Contains(stop.Reason, "store b is declared as session/1000, and was window/1000") ||
		!strings.Contains(stop.Recovery, "another name") {
		t.Errorf("it returned %v", err)
	}
	if !db.Positions().Same(at) {
		t.Errorf("the database is at %v", db.Positions())
	}
	for _, err := range db.Scan(state.IDOf("a"), state.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Error("store a was emptied")
}

// TestRelayOfAnotherKindAnew: the kind that the rows of a store were says nothing of a changelog
// that they are not of. The store is emptied where its changelog was deleted and made again, and
// where it was gone from the topology in between.
func TestRelayOfAnotherKindAnew(t *testing.T) {
	windows := state.Layout{Kind: state.WindowKind, Retention: 1000}
	sessions := state.Layout{Kind: state.SessionKind, Retention: 1000}
	for name, test := range map[string]struct {
		at       []state.Changelog
		declared Changelog
	}{
		"made again": {[]state.Changelog{{Store: "a", TopicID: topicA, Applied: 5, Scanned: 5}}, Changelog{Store: "a", TopicID: topicB}},
		"was gone":   {nil, Changelog{Store: "a", TopicID: topicA}},
	} {
		t.Run(name, func(t *testing.T) {
			db := memstore.New()
			if err := db.Declare(state.Declaration{Name: "a", Layout: windows}); err != nil {
				t.Fatal(err)
			}
			write := state.Write{Store: state.IDOf("a"), Key: []byte("k"), Value: []byte("v")}
			at := state.Positions{Round: round7, State: round7, Changelogs: test.at}
			if err := db.Apply(state.Positions{}, at, slices.Values([]state.Write{write})); err != nil {
				t.Fatal(err)
			}
			o := newBench(t, 0, 1, nil).opening(Store{Name: "a", Layout: sessions})
			o.req.Open = func() (state.Database, error) { return db, nil }
			if err := o.openDatabase([]Changelog{test.declared}); err != nil {
				t.Fatal(err)
			}
			for range o.db.Scan(state.IDOf("a"), state.Range{}) {
				t.Fatal("the store has rows of another kind")
			}
			if _, named := o.db.Positions().Changelog("a"); named || o.full != Relaid {
				t.Errorf("the database is at %v, restored for %q", o.db.Positions(), o.full)
			}
		})
	}
}
