package task

import (
	"testing"

	"github.com/onceward/onceward/txn/internal/broker"
)

// TestReusedJournalsAreEmpty: a journal that comes back keeps no record alive, one of a burst does
// not come back, and there are never more than the rounds in flight use.
func TestReusedJournalsAreEmpty(t *testing.T) {
	var s spare
	if s.take() != nil {
		t.Error("a journal came from nowhere")
	}
	s.put(make([]Entry, 10, 5*journalMin))
	if s.take() != nil {
		t.Error("a journal that is far longer than its round was kept")
	}
	journal := make([]Entry, 0, 5*journalMin)
	for range 2 * journalMin {
		journal = append(journal, Entry{Record: &broker.Record{}})
	}
	s.put(journal)
	got := s.take()
	if len(got) != 0 || cap(got) != cap(journal) {
		t.Fatalf("a journal of %d entries with room for %d came back", len(got), cap(got))
	}
	for _, e := range got[:cap(got)] {
		if e.Record != nil {
			t.Fatal("an old record is kept alive")
		}
	}
	for range 5 {
		s.put(make([]Entry, 1))
	}
	if len(s.journals) != 2 {
		t.Errorf("%d journals are kept", len(s.journals))
	}
}
