package worker

import (
	"testing"

	"github.com/onceward/onceward/txn/internal/task"
)

// A round that is committed without the suspect clears no record. With more tasks than one round
// can hold, such rounds come between the refusal and the suspect's turn. They would clear the
// others each time before the search had found anything.
func TestSearchOutlivesRoundsWithoutSuspect(t *testing.T) {
	suspect, held, other := &task.Task{}, &task.Task{}, &task.Task{}
	i := isolation{suspect: suspect, limit: 1, held: map[*task.Task]bool{held: true}}
	without := newRound(0, outputs{})
	without.byTask[other] = &task.Contribution{Task: other}
	i.committed(without)
	if i.suspect != suspect || !i.full(held, nil) {
		t.Fatal("a round without the suspect has ended the search")
	}
	with := newRound(1, outputs{})
	with.byTask[suspect] = &task.Contribution{Task: suspect}
	i.committed(with)
	if i.suspect != nil || i.full(held, nil) || i.cleared[suspect] == 0 {
		t.Error("the suspect's committed prefix has not ended the search")
	}
}
