package state_test

import (
	"strconv"
	"testing"

	"github.com/onceward/onceward/state"
)

// rounds runs n rounds on a task, with Expire after each, and returns the largest number of rows
// that the database had.
func rounds(t *testing.T, task *state.Task, n int, round func(i int)) (rowsMax int) {
	t.Helper()
	var positions state.Positions
	for i := range n {
		round(i)
		l := task.Freeze()
		next := at(int64(i + 1))
		next.SetChangelog(state.Changelog{Store: "s", StreamTime: l.StreamTime(state.IDOf("s"))})
		if err := task.Apply(l, positions, next); err != nil {
			t.Fatal(err)
		}
		if err := task.Expire(l, next); err != nil {
			t.Fatal(err)
		}
		task.Retire(l)
		positions = next
		if !task.Positions().Same(positions) {
			t.Fatalf("Expire moved the positions to %v", task.Positions())
		}
		if i%16 == 0 {
			rowsMax = max(rowsMax, len(collect(t, task.Database().Scan(state.IDOf("s"), state.Range{}))))
		}
	}
	return rowsMax
}

// TestExpireSegments: the rows on the disk are those of the retention and of two segments more.
func TestExpireSegments(t *testing.T) {
	task := newKind(t, dedupeLayout)
	s := state.NewDedupe(task.Store("s"), text{}, number{}, dedupeLayout)
	id := 0
	most := rounds(t, task, 400, func(i int) {
		for j := range 10 {
			if _, p, err := s.PutIfAbsent(strconv.Itoa(id), 1, int64(10*i+j)*6000); p != state.Absent || err != nil {
				t.Fatal(p, err)
			}
			id++
		}
	})
	const retained = 100 // ids of ten minutes
	if most > 2*retained+10 || most < retained {
		t.Errorf("up to %d rows are on the disk, of which %d can be seen", most, retained)
	}
}

// TestExpireVersions: rows that are over do not pile up, and what can be seen stays.
func TestExpireVersions(t *testing.T) {
	task := newKind(t, versionedLayout)
	s := state.NewVersioned(task.Store("s"), text{}, number{}, versionedLayout)
	const keys, perRound = 50, 40
	now := int64(0)
	most := rounds(t, task, 600, func(i int) {
		for j := range perRound {
			now++
			mustStore(t, s, strconv.Itoa((i*perRound+j)%keys), 1, now)
		}
	})
	const seen = keys + 100 // the latest, and one version for each millisecond of the retention
	if most > 2*seen+4*perRound {
		t.Errorf("up to %d rows are on the disk, of which %d can be seen", most, seen)
	}
	if all := collect(t, s.All()); len(all) != keys {
		t.Errorf("%d keys are left, want %d", len(all), keys)
	}
}

// TestExpireDeletedKeys: of a key that was deleted nothing stays.
func TestExpireDeletedKeys(t *testing.T) {
	task := newKind(t, versionedLayout)
	s := state.NewVersioned(task.Store("s"), text{}, number{}, versionedLayout)
	now := int64(0)
	most := rounds(t, task, 600, func(i int) {
		for j := range 10 {
			now += 5
			key := strconv.Itoa(10*i + j)
			mustStore(t, s, key, 1, now)
			if _, err := s.Delete(key, now+1); err != nil {
				t.Fatal(err)
			}
		}
	})
	if most > 200 {
		t.Errorf("up to %d rows are on the disk", most)
	}
}
