package restore

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker/batch/batchtest"
)

// dedupeLog is a changelog of ids with their times; a value of nil is a delete.
func dedupeLog(records ...batchtest.Record) *fakeLog {
	for i := range records {
		records[i].Delta = int64(i)
	}
	var p kmsg.FetchResponseTopicPartition
	p.RecordBatches = batchtest.Encode(0, int64(len(records)-1), 1, 0, kgo.NoCompression(), records)
	return newFakeLog(p)
}

func rowsOf(t *testing.T, db state.Database, store string) (ids []string) {
	t.Helper()
	for e, err := range db.Scan(state.IDOf(store), state.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(e.Key[4:]))
	}
	slices.Sort(ids)
	return ids
}

// TestReplayLeavesOutExpiredRows: rows that cannot be read any more at the committed stream time
// are left out.
func TestReplayLeavesOutExpiredRows(t *testing.T) {
	const minute = 60_000
	dedupe := Store{Name: "ids", Layout: state.Layout{Kind: state.DedupeKind, Retention: 2 * minute}}
	for _, tc := range []struct {
		committed int64
		ids       []string
	}{
		{committed: 0, ids: []string{"new", "old"}},
		{committed: 13 * minute, ids: []string{"new"}},
	} {
		b := newBench(t, 0, 1, map[string]*fakeLog{"ids": dedupeLog(
			batchtest.Record{Timestamp: 1 * minute, Key: []byte("old"), Value: []byte("v")},
			batchtest.Record{Timestamp: 12 * minute, Key: []byte("new"), Value: []byte("v")},
		)})
		replays := b.replays()
		replays[0].StreamTime = tc.committed
		if err := b.opening(dedupe).replay(t.Context(), replays); err != nil {
			t.Fatal(err)
		}
		at, _ := b.db.Positions().Changelog("ids")
		if ids := rowsOf(t, b.db, "ids"); !slices.Equal(ids, tc.ids) || at.Applied != 1 {
			t.Errorf("committed at %d: rows %q at %+v, want %q", tc.committed, ids, at, tc.ids)
		}
	}
}

// TestReplayDisplaces: an id that was deleted and came back in another segment, of which compaction
// has left the last record only. A database that has the row from before loses it.
func TestReplayDisplaces(t *testing.T) {
	const minute = 60_000
	dedupe := Store{Name: "ids", Layout: state.Layout{Kind: state.DedupeKind, Retention: 4 * minute}}
	b := newBench(t, 0, 1, map[string]*fakeLog{"ids": dedupeLog(
		batchtest.Record{Timestamp: 9 * minute, Key: []byte("other"), Value: []byte("v")},
		batchtest.Record{Timestamp: 7 * minute, Key: []byte("id"), Value: []byte("second")},
	)})
	before, err := dedupe.Layout.Row(state.ChangelogRecord{Key: []byte("id"), Value: []byte("first"), Timestamp: 9 * minute})
	if err != nil {
		t.Fatal(err)
	}
	before.Store = state.IDOf("ids")
	at := state.Positions{Changelogs: []state.Changelog{{Store: "ids", TopicID: [16]byte{1}, Applied: 1, Scanned: 1, StreamTime: 9 * minute}}}
	if err := b.db.Apply(state.Positions{}, at, slices.Values([]state.Write{before})); err != nil {
		t.Fatal(err)
	}
	replays := b.replays()
	replays[0].StreamTime = 9 * minute
	if err := b.opening(dedupe).replay(t.Context(), replays); err != nil {
		t.Fatal(err)
	}
	var found []string
	for e, err := range b.db.Scan(state.IDOf("ids"), state.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(e.Key[4:])+"="+string(e.Value[8:]))
		if ms := binary.BigEndian.Uint64(e.Value); ms != 7*minute {
			t.Errorf("a row has the time %d", ms)
		}
	}
	if !slices.Equal(found, []string{"id=second"}) {
		t.Errorf("the rows are %q", found)
	}
}

// TestReplayMisfit: a record that the store cannot have stops the task, with what is there and
// where, because another try would read the same.
func TestReplayMisfit(t *testing.T) {
	windows := Store{Name: "ids", Layout: state.Layout{Kind: state.WindowKind, Retention: 1000}}
	b := newBench(t, 0, 1, map[string]*fakeLog{"ids": dedupeLog(batchtest.Record{Timestamp: 5, Key: []byte("an id"), Value: []byte("v")})})
	err := b.opening(windows).replay(t.Context(), b.replays())
	stop, stops := errors.AsType[*StopError](err)
	if !stops || !errors.Is(err, state.ErrCorrupt) || !strings.Contains(stop.Reason, "ids[1] holds at offset 0") || stop.Recovery == "" {
		t.Errorf("got %v, want a stop", err)
	}
	if strings.Contains(err.Error(), "an id") {
		t.Errorf("%v tells a key", err)
	}
}
