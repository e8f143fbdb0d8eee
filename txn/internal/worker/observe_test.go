package worker

import (
	"testing"
	"time"

	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
)

// BenchmarkObserve measures what a record costs beyond its processing: the count in the slice, and
// the counts when its round is applied.
func BenchmarkObserve(b *testing.B) {
	w := &Worker{}
	e := task.Entry{Record: &broker.Record{Timestamp: time.Now()}}
	sum := newJournalCounts(1)
	for b.Loop() {
		w.observed.processed++
		sum.add(e)
	}
	if sum.records == 0 {
		b.Fatal("nothing was counted")
	}
}

func TestJournalCounts(t *testing.T) {
	all := newJournalCounts(0)
	for _, ms := range [][]int64{{500, 300, 400}, {350}} {
		one := newJournalCounts(2)
		for i, at := range ms {
			one.add(task.Entry{Input: i % 2, Record: &broker.Record{Timestamp: time.UnixMilli(at)}})
		}
		if len(ms) == 3 && (one.byInput[0] != 2 || one.byInput[1] != 1) {
			t.Errorf("three records of two inputs in turn count %v", one.byInput)
		}
		all.merge(one)
	}
	if all.records != 4 || all.oldest != 300 {
		t.Errorf("4 records, the oldest of 300 ms, are %d with %d ms", all.records, all.oldest)
	}
}
