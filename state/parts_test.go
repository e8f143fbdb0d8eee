package state_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/onceward/onceward/state"
)

// TestParts takes a row of each kind apart, and refuses what is none.
func TestParts(t *testing.T) {
	const (
		first, second, at = int64(day), int64(day + 5), int64(day + 7)
		none              = state.NoTime
	)
	pair := func(a, b int64) []byte {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte("k"), uint64(a)), uint64(b))
	}
	window := append(binary.BigEndian.AppendUint64([]byte("k"), uint64(first)), 0, 0, 0, 0)
	for _, tc := range []struct {
		layout state.Layout
		record state.ChangelogRecord
		want   state.Parts
	}{
		{layouts[0], state.ChangelogRecord{Key: []byte("k"), Value: []byte("v")}, state.Parts{Start: none, End: none, Time: none, ValidFrom: none}},
		{layouts[1], state.ChangelogRecord{Key: []byte("k"), Value: []byte("v"), Timestamp: at},
			state.Parts{Start: none, End: none, Time: at, ValidFrom: none}},
		{layouts[2], state.ChangelogRecord{Key: window, Value: []byte("v"), Timestamp: at},
			state.Parts{Start: first, End: none, Time: at, ValidFrom: none}},
		{layouts[3], state.ChangelogRecord{Key: pair(second, first), Value: []byte("v"), Timestamp: second},
			state.Parts{Start: first, End: second, Time: none, ValidFrom: none}},
		{layouts[4], state.ChangelogRecord{Key: []byte("k"), Value: []byte("v"), Timestamp: at},
			state.Parts{Start: none, End: none, Time: none, ValidFrom: at}},
		{layouts[5], state.ChangelogRecord{Key: []byte("k"), Value: []byte("v"), Timestamp: at},
			state.Parts{Start: none, End: none, Time: at, ValidFrom: none}},
		{layouts[6], state.ChangelogRecord{Key: append(window[:len(window)-1:len(window)-1], 3), Value: []byte("v"), Timestamp: first},
			state.Parts{Start: none, End: none, Time: first, ValidFrom: none}},
	} {
		row, err := tc.layout.Row(tc.record)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tc.layout.Parts(row.Key, row.Value)
		if err != nil || string(got.Key) != "k" || string(got.Value) != "v" {
			t.Errorf("%s: %+v, %v", tc.layout, got, err)
		}
		if got.Key, got.Value = nil, nil; got.Start != tc.want.Start || got.End != tc.want.End || got.Time != tc.want.Time ||
			got.ValidFrom != tc.want.ValidFrom {
			t.Errorf("%s has the times %+v, want %+v", tc.layout, got, tc.want)
		}
	}
	deleted, err := layouts[4].Row(state.ChangelogRecord{Key: []byte("k"), Timestamp: at})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := layouts[4].Parts(deleted.Key, deleted.Value); err != nil || got.Value != nil || got.ValidFrom != at {
		t.Errorf("a deleted version is %+v, %v", got, err)
	}
	for _, l := range layouts[1:] {
		if got, err := l.Parts([]byte("k"), nil); !errors.Is(err, state.ErrCorrupt) {
			t.Errorf("%s: a row that it cannot have is %+v, %v", l, got, err)
		}
	}
}
