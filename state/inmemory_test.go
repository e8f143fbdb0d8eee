package state_test

import (
	"testing"

	"github.com/onceward/onceward/state"
)

// TestPositionsOnDisk: the disk has no position of a store in memory. It has a note of how far the
// store was, which survives further steps that do not name the store.
func TestPositionsOnDisk(t *testing.T) {
	inMemory := func(store string) bool { return store == "b" || store == "b-" }
	var p state.Positions
	for _, c := range []state.Changelog{
		{Store: "a", TopicID: [16]byte{1}, Applied: 7, Scanned: 9},
		{Store: "b", TopicID: [16]byte{2}, Applied: 5, Scanned: 8, StreamTime: 3},
		{Store: "b-", TopicID: [16]byte{3}, Applied: 6, Scanned: 6},
	} {
		p.SetChangelog(c)
	}
	q := p.OnDisk(inMemory)
	if err := q.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, ok := q.Changelog("b"); ok || len(p.Changelogs) != 3 || len(q.Changelogs) != 3 {
		t.Errorf("of %v the disk has %v", p, q)
	}
	note, ok := q.InMemory("b")
	if want := (state.Changelog{Store: note.Store, TopicID: [16]byte{2}, Applied: 5, Scanned: 5}); !ok || note != want {
		t.Errorf("the note is %+v, want %+v", note, want)
	}
	if _, ok := q.InMemory("a"); ok {
		t.Error("there is a note of a store on the disk")
	}
	if again := q.OnDisk(inMemory); !again.Same(q) {
		t.Errorf("a step that does not name the stores makes %v of %v", again, q)
	}
	q.SetChangelog(state.Changelog{Store: "b", Applied: 9, Scanned: 9})
	q = q.OnDisk(inMemory)
	if note, _ := q.InMemory("b"); note.Applied != 9 {
		t.Errorf("the note is %+v after a step to 9", note)
	}
	q.SetChangelog(state.Changelog{Store: "b", StreamTime: 9}) // of a store without a changelog
	if q = q.OnDisk(inMemory); len(q.Changelogs) != 2 {
		t.Errorf("the disk has %v of a store that has taken nothing", q)
	}
	q.SetChangelog(state.Changelog{Store: "b", Applied: 1})
	q = q.OnDisk(inMemory)
	q.ForgetInMemory("b")
	if _, ok := q.InMemory("b"); ok || len(q.Changelogs) != 2 {
		t.Errorf("the note is still in %v", q)
	}
}
