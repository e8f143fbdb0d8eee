package restore

import (
	"slices"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// TestRelay: a store that is declared with another layout than its rows have is emptied for itself, and loses its position.
func TestRelay(t *testing.T) {
	windows := state.Layout{Kind: state.WindowKind, Retention: 1000}
	sessions := state.Layout{Kind: state.SessionKind, Retention: 1000}
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
	o := newBench(t, 0, 1, nil).opening(Store{Name: "kept"}, Store{Name: "relaid", Layout: sessions})
	o.req.Open = func() (state.Database, error) { return db, nil }
	if err := o.openDatabase(); err != nil {
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
	if err != nil || !slices.Contains(stores, state.Declaration{Name: "relaid", Layout: sessions}) {
		t.Errorf("the stores are %v, %v", stores, err)
	}
}
