package state_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/state"
)

const day = 24 * 3600 * 1000

var layouts = []state.Layout{
	{},
	{Kind: state.TimestampedKind},
	{Kind: state.WindowKind, Retention: day},
	{Kind: state.SessionKind, Retention: day},
	{Kind: state.VersionedKind, Retention: day},
	{Kind: state.DedupeKind, Retention: day},
	{Kind: state.SeriesKind, Retention: day},
}

func TestLayoutText(t *testing.T) {
	for _, l := range layouts {
		if got, err := state.ParseLayout(l.String()); err != nil || got != l {
			t.Errorf("%s is read as %s, %v", l, got, err)
		}
	}
	for _, s := range []string{"", "keyvalue/1", "window", "window/0", "window/-1", "window/01", "window/+1", "window/1/2", "kind 9", "Window/1", "series", "series/0"} {
		if l, err := state.ParseLayout(s); !errors.Is(err, state.ErrFormat) {
			t.Errorf("%q is read as %s, %v; want ErrFormat", s, l, err)
		}
	}
	for _, d := range []state.Declaration{{Name: "a"}, {Name: "a", Layout: layouts[2]}} {
		if got, err := state.ParseDeclaration(d.Append(nil)); err != nil || got != d {
			t.Errorf("%v is read as %v, %v", d, got, err)
		}
	}
	if string(state.Declaration{Name: "plain"}.Append(nil)) != "plain" {
		t.Error("a key-value store is more than its name")
	}
}

// TestReads: a store can be restored from the changelog of another layout if every record of that
// makes the same row, except for the time in rows without a time.
func TestReads(t *testing.T) {
	for i, l := range layouts {
		other := l
		if l.Retention > 0 {
			other.Retention += day
		}
		for j, of := range layouts {
			if want := i == j || i < 2 && j < 2; l.Reads(of) != want || other.Reads(of) != want {
				t.Errorf("%s reads the records of %s: %t, want %t", l, of, l.Reads(of), want)
			}
		}
	}
	record := state.ChangelogRecord{Key: []byte("k"), Value: []byte("v"), Timestamp: 7}
	for _, l := range layouts[:2] {
		row, err := l.Row(record)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := l.Record(row); err != nil || string(back.Key) != "k" || string(back.Value) != "v" {
			t.Errorf("%s makes %+v of the record of the other, %v", l, back, err)
		}
	}
}

// TestRecordsAreRows: each record has one row and each row one record, whatever the bytes.
func TestRecordsAreRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(layouts).Draw(t, "layout")
		r := state.ChangelogRecord{
			Key:       rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "key"),
			Value:     rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "value"),
			Timestamp: rapid.Int64Range(-1, 1<<50).Draw(t, "time"),
		}
		if rapid.Bool().Draw(t, "tombstone") {
			r.Value = nil
		}
		start := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		switch l.Kind { // bytes alone are hardly ever such a key
		case state.WindowKind:
			r.Key = append(binary.BigEndian.AppendUint64(r.Key, uint64(start)), 0, 0, 0, 0)
		case state.SeriesKind:
			r.Key = append(binary.BigEndian.AppendUint64(r.Key, uint64(start)), 0, 0, 0, byte(start))
		case state.SessionKind:
			end := rapid.Int64Range(start, 1<<51).Draw(t, "end")
			r.Key = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(r.Key, uint64(end)), uint64(start))
		}
		row, err := l.Row(r)
		if err != nil {
			if !errors.Is(err, state.ErrCorrupt) || r.Timestamp >= 0 {
				t.Fatal(err)
			}
			return
		}
		if row.Delete != (row.Value == nil) {
			t.Fatalf("the row of %v is %v", r, row)
		}
		got, err := l.Record(row)
		if err != nil || !bytes.Equal(got.Key, r.Key) || !bytes.Equal(got.Value, r.Value) || (got.Value == nil) != (r.Value == nil) {
			t.Fatalf("%s: the record %v became %v, %v", l, r, got, err)
		}
		again, err := l.Row(got)
		if err != nil || !bytes.Equal(again.Key, row.Key) || !bytes.Equal(again.Value, row.Value) || again.Delete != row.Delete {
			t.Fatalf("%s: the row %v became %v, %v", l, row, again, err)
		}
		if hasTime := r.Value != nil && (l.Kind != state.KeyValueKind && l.Kind != state.SessionKind && l.Kind != state.SeriesKind) || l.Kind == state.VersionedKind; hasTime &&
			got.Timestamp != r.Timestamp {
			t.Fatalf("%s: the time %d became %d", l, r.Timestamp, got.Timestamp)
		}
	})
}

// TestRecordsOfDamagedRows: a row that no record has is refused, and not given a record that comes
// back as another row.
func TestRecordsOfDamagedRows(t *testing.T) {
	const (
		minute = "\x00\x00\x00\x00\x00\x00\xea\x60" // 60,000, in segment 1 of the smallest retention
		before = "\xff\xff\xff\xff\xff\xff\xff\xff" // -1
		none   = "\x00\x00\x00\x00"
	)
	for name, row := range map[string]struct {
		kind       state.Kind
		key, value string
	}{
		"timestamped, no time":      {state.TimestampedKind, "k", "v"},
		"window, wrong segment":     {state.WindowKind, none + "k" + minute + none, minute + "v"},
		"window, before the epoch":  {state.WindowKind, none + "k" + before + none, minute + "v"},
		"session, wrong segment":    {state.SessionKind, none + "k" + minute + minute, "v"},
		"series, wrong segment":     {state.SeriesKind, none + "k" + minute + none, "v"},
		"series, before the epoch":  {state.SeriesKind, none + "k" + before + none, "v"},
		"series, no number":         {state.SeriesKind, none + minute, "v"},
		"version, another flag":     {state.VersionedKind, "k" + minute, "\x02v"},
		"version, deleted and more": {state.VersionedKind, "k" + minute, "\x00v"},
		"version, before the epoch": {state.VersionedKind, "k" + before, "\x01v"},
		"dedupe, wrong segment":     {state.DedupeKind, none + "k", minute + "v"},
		"dedupe, before the epoch":  {state.DedupeKind, none + "k", before + "v"},
	} {
		l := state.Layout{Kind: row.kind}
		if row.kind.Expires() {
			l.Retention = 1
		}
		if r, err := l.Record(state.Write{Key: []byte(row.key), Value: []byte(row.value)}); !errors.Is(err, state.ErrCorrupt) {
			t.Errorf("%s: the record is %v, %v; want ErrCorrupt", name, r, err)
		}
	}
}

// TestRowsAreDocumented pins the bytes of FORMAT.md.
func TestRowsAreDocumented(t *testing.T) {
	key := func(parts ...string) string {
		var b bytes.Buffer
		for _, p := range parts {
			b.WriteString(p)
		}
		return b.String()
	}
	const (
		minute = "\x00\x00\x00\x00\x00\x00\xea\x60" // 60,000
		later  = "\x00\x00\x00\x00\x00\x01\x11\x70" // 70,000
		none   = "\x00\x00\x00\x00"
	)
	for _, test := range []struct {
		layout           state.Layout
		key, value       string
		ms               int64
		rowKey, rowValue string
	}{
		{layout: state.Layout{}, key: "k", value: "v", ms: 5, rowKey: "k", rowValue: "v"},
		{layout: state.Layout{Kind: state.TimestampedKind}, key: "k", value: "v", ms: 60_000, rowKey: "k", rowValue: key(minute, "v")},
		{layout: state.Layout{Kind: state.WindowKind, Retention: 1}, key: key("k", minute, none), value: "v", ms: 70_000,
			rowKey: key("\x00\x00\x00\x01k", minute, none), rowValue: key(later, "v")},
		{layout: state.Layout{Kind: state.SessionKind, Retention: 1}, key: key("k", later, minute), value: "v", ms: 70_000,
			rowKey: key("\x00\x00\x00\x01k", later, minute), rowValue: "v"},
		{layout: state.Layout{Kind: state.VersionedKind, Retention: 1}, key: "k", value: "v", ms: 60_000, rowKey: key("k", minute), rowValue: "\x01v"},
		{layout: state.Layout{Kind: state.DedupeKind, Retention: 130_000}, key: "k", value: "v", ms: 70_000,
			rowKey: "\x00\x00\x00\x01k", rowValue: key(later, "v")},
		{layout: state.Layout{Kind: state.SeriesKind, Retention: 1}, key: key("k", minute, "\x00\x00\x00\x02"), value: "v", ms: 60_000,
			rowKey: key("\x00\x00\x00\x01k", minute, "\x00\x00\x00\x02"), rowValue: "v"},
	} {
		w, err := test.layout.Row(state.ChangelogRecord{Key: []byte(test.key), Value: []byte(test.value), Timestamp: test.ms})
		if err != nil || string(w.Key) != test.rowKey || string(w.Value) != test.rowValue {
			t.Errorf("%s: the row is %q = %q, %v; want %q = %q", test.layout, w.Key, w.Value, err, test.rowKey, test.rowValue)
		}
	}
}

// TestRowTime: a row expires by its own time, whatever the timestamp of its record.
func TestRowTime(t *testing.T) {
	const (
		minute = "\x00\x00\x00\x00\x00\x00\xea\x60" // 60,000
		later  = "\x00\x00\x00\x00\x00\x01\x11\x70" // 70,000
	)
	for _, test := range []struct {
		kind state.Kind
		key  string
		want int64
	}{
		{state.KeyValueKind, "k", 0},
		{state.TimestampedKind, "k", 0},
		{state.WindowKind, "k" + minute + "\x00\x00\x00\x00", 60_000},
		{state.SessionKind, "k" + later + minute, 70_000},
		{state.VersionedKind, "k", 65_000},
		{state.DedupeKind, "k", 65_000},
		{state.SeriesKind, "k" + minute + "\x00\x00\x00\x01", 60_000},
	} {
		l := state.Layout{Kind: test.kind}
		if test.kind.Expires() {
			l.Retention = 130_000
		}
		row, err := l.Row(state.ChangelogRecord{Key: []byte(test.key), Value: []byte("v"), Timestamp: 65_000})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := l.RowTime(row); err != nil || got != test.want {
			t.Errorf("%s: the time is %d, %v; want %d", l, got, err, test.want)
		}
	}
}

// FuzzRows: no row and no record makes the translation panic, and what it takes it gives back.
func FuzzRows(f *testing.F) {
	f.Add(byte(2), []byte("k\x00\x00\x00\x00\x00\x00\xea\x60\x00\x00\x00\x00"), []byte("v"), int64(70_000), false)
	f.Add(byte(4), []byte("k"), []byte{}, int64(-1), true)
	f.Add(byte(5), []byte("\x00\x00\x00\x00id"), []byte("\x00\x00\x00\x00\x00\x01\x11\x70v"), int64(0), true)
	f.Add(byte(6), []byte("\x00\x00\x00\x00k\x00\x00\x00\x00\x00\x00\xea\x60\x00\x00\x00\x02"), []byte("v"), int64(0), true)
	f.Fuzz(func(t *testing.T, kind byte, key, value []byte, ms int64, asRow bool) {
		l := layouts[int(kind)%len(layouts)]
		if asRow {
			row := state.Write{Key: key, Value: value, Delete: value == nil}
			r, err := l.Record(row)
			if err != nil {
				return
			}
			w, err := l.Row(r)
			if err != nil || !bytes.Equal(w.Key, key) || !bytes.Equal(w.Value, value) {
				t.Fatalf("%s: the row %q = %q became %q = %q, %v", l, key, value, w.Key, w.Value, err)
			}
			return
		}
		w, err := l.Row(state.ChangelogRecord{Key: key, Value: value, Timestamp: ms})
		if err != nil {
			return
		}
		r, err := l.Record(w)
		if err != nil || !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, value) {
			t.Fatalf("%s: %q = %q became %q = %q, %v", l, key, value, r.Key, r.Value, err)
		}
	})
}

// TestRetentionMax: what is longer by a day, as a changelog keeps its records, is still a duration.
func TestRetentionMax(t *testing.T) {
	most := state.Layout{Kind: state.DedupeKind, Retention: 200 * 365 * day}
	if err := most.Validate(); err != nil {
		t.Error(err)
	}
	if d := time.Duration(most.Retention)*time.Millisecond + 24*time.Hour; d < 200*365*24*time.Hour {
		t.Errorf("a day more is %s", d)
	}
	most.Retention++
	if err := most.Validate(); err == nil || !strings.Contains(err.Error(), "200 years") {
		t.Errorf("a millisecond more: %v", err)
	}
}
