package admin_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/admin"
)

// timed is a record "key=value", or "key" for a null value, some time before a moment.
type timed struct {
	text   string
	before time.Duration
}

func (r timed) record(moment time.Time) state.ChangelogRecord {
	key, value, found := strings.Cut(r.text, "=")
	out := state.ChangelogRecord{Key: []byte(key), Timestamp: moment.Add(-r.before).UnixMilli()}
	if found {
		out.Value = []byte(value)
	}
	return out
}

// clockCase is a changelog with times, of which the beginning may be deleted, and the rows of a
// state.
type clockCase struct {
	name     string
	settings map[string]string
	log      []timed
	deleted  int64
	// position is the end of the log if it is not given.
	position              int64
	rows                  []timed
	differences, unjudged int64
	first                 string
}

// check verifies the case for a store whose stream time is moment.
func (c clockCase) check(t *testing.T, layout state.Layout, moment time.Time) {
	t.Helper()
	s := newScene(t)
	var alter []kadm.AlterConfig
	for name, value := range c.settings {
		alter = append(alter, kadm.AlterConfig{Name: name, Value: &value})
	}
	if len(alter) > 0 {
		if altered, err := s.adm.AlterTopicConfigs(s.ctx, alter, changelog); err != nil || altered[0].Err != nil {
			t.Fatal(err, altered)
		}
	}
	for _, r := range c.log {
		record := r.record(moment)
		err := s.cl.ProduceSync(s.ctx, &kgo.Record{
			Topic: changelog, Key: record.Key, Value: record.Value, Timestamp: time.UnixMilli(record.Timestamp),
		}).FirstErr()
		if err != nil {
			t.Fatal(err)
		}
	}
	if c.deleted > 0 {
		var upTo kadm.Offsets
		upTo.AddOffset(changelog, 0, c.deleted, -1)
		if _, err := s.adm.DeleteRecords(s.ctx, upTo); err != nil {
			t.Fatal(err)
		}
	}
	position := c.position
	if position == 0 {
		position = int64(len(c.log))
	}
	var writes []state.Write
	for _, r := range c.rows {
		w, err := layout.Row(r.record(moment))
		if err != nil {
			t.Fatal(err)
		}
		w.Store = state.IDOf("rows")
		writes = append(writes, w)
	}
	s.storeRows(t, state.Positions{
		Round: state.RoundID{ProducerID: 1}, WrittenAt: time.Now().UnixMilli(),
		Inputs: []state.Input{{Topic: "in", Offset: 1, StreamTime: state.NoTime}},
		Changelogs: []state.Changelog{{
			Store: "rows", TopicID: s.topicID, Applied: position, Scanned: position, StreamTime: moment.UnixMilli(),
		}},
	}, layout, writes)
	v := s.verify(t, admin.VerifyOptions{})
	var first []string
	for _, d := range v.First {
		p, err := layout.Parts(d.Key, append(d.Local, d.Changelog...))
		if d.Kind == admin.OtherValue {
			p, err = layout.Parts(d.Key, d.Local)
		}
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, string(d.Kind)+" "+string(p.Key))
	}
	slices.Sort(first)
	if v.Err != nil || v.Differences != c.differences || v.Unjudged != c.unjudged || strings.Join(first, ", ") != c.first {
		t.Errorf("%+v, the first are %q", v, first)
	}
}

// TestVerifyOfExpiredRows: what the broker has deleted of a changelog by the clock, and the store
// still has by its stream time, is no difference, and what it cannot have deleted is one.
func TestVerifyOfExpiredRows(t *testing.T) {
	const week = 7 * 24 * time.Hour
	layout := state.Layout{Kind: state.DedupeKind, Retention: time.Hour.Milliseconds()}
	settings := func(more ...string) map[string]string {
		out := map[string]string{
			"cleanup.policy": "compact,delete", "retention.ms": strconv.FormatInt((25 * time.Hour).Milliseconds(), 10),
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	log := []timed{{"a=1", 2 * time.Minute}, {"b=2", time.Minute}, {"c=3", 0}}
	lacksA := []timed{{"b=2", time.Minute}, {"c=3", 0}}
	for _, tc := range []struct {
		clockCase
		age time.Duration // of the stream time
	}{
		{clockCase{name: "all there", settings: settings(), log: log, rows: log}, 4 * week},
		{clockCase{name: "deleted by the clock", settings: settings(), log: log, deleted: 1, rows: log, unjudged: 1}, 4 * week},
		{clockCase{name: "restored without it", settings: settings(), log: log, deleted: 1, rows: lacksA}, 4 * week},
		{clockCase{name: "too young to be deleted", settings: settings(), log: log, deleted: 1, rows: log,
			differences: 1, first: "extra a"}, 0},
		{clockCase{name: "nothing was deleted", settings: settings(), log: lacksA, rows: log, differences: 1, first: "extra a"}, 4 * week},
		{clockCase{name: "nothing is deleted by time", settings: settings("retention.ms", "-1"), log: log, deleted: 1, rows: log,
			differences: 1, first: "extra a"}, 4 * week},
		{clockCase{name: "deleted by size", settings: settings("retention.bytes", "100000"), log: log, deleted: 1, rows: log, unjudged: 1}, 0},
		{clockCase{name: "a log that only compacts", settings: settings("cleanup.policy", "compact"), log: lacksA, rows: log,
			differences: 1, first: "extra a"}, 4 * week},
		{clockCase{name: "all that the state was made of", settings: settings(), log: append(slices.Clone(log), timed{"d=4", 0}), deleted: 4,
			position: 3, rows: log, unjudged: 3}, 4 * week},
		{clockCase{name: "another value", settings: settings(), log: log, deleted: 1, rows: []timed{{"b=9", time.Minute}, {"c=3", 0}},
			differences: 1, first: "value b"}, 4 * week},
		{clockCase{name: "missing", settings: settings(), log: log, deleted: 1, rows: []timed{{"c=3", 0}},
			differences: 1, first: "missing b"}, 4 * week},
		{clockCase{name: "out of sight", settings: settings(), log: log, rows: append(slices.Clone(log), timed{"old=1", 2 * time.Hour})}, 4 * week},
	} {
		t.Run(tc.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) { tc.check(t, layout, time.Now().Add(-tc.age)) })
		})
	}
}

// TestVerifyHistories: versions that are out of sight may be on either side, and one that was
// superseded may be compacted away.
func TestVerifyHistories(t *testing.T) {
	layout := state.Layout{Kind: state.VersionedKind, Retention: time.Hour.Milliseconds()}
	const minute = time.Minute
	// The moment is when a bubble begins. One second after 1970 is that long before it.
	epoch := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Sub(time.UnixMilli(1000))
	for _, c := range []clockCase{
		{name: "superseded long ago, and expired in the store", log: []timed{{"k=1", 180 * minute}, {"k=2", 120 * minute}, {"k=3", 0}},
			rows: []timed{{"k=2", 120 * minute}, {"k=3", 0}}},
		{name: "superseded long ago, and compacted", log: []timed{{"k=3", 0}}, rows: []timed{
			{"k=1", 180 * minute}, {"k=2", 120 * minute}, {"k=3", 0}}, unjudged: 1},
		{name: "superseded lately, and not in the store", log: []timed{{"k=1", 30 * minute}, {"k=2", 0}}, rows: []timed{{"k=2", 0}},
			differences: 1, first: "missing k"},
		{name: "the last version is not in the changelog", log: []timed{{"k=2", 0}}, rows: []timed{{"k=2", 0}, {"x=1", 180 * minute}},
			differences: 1, first: "extra x"},
		{name: "the last version is not in the store", log: []timed{{"k=2", 0}, {"x=1", 180 * minute}}, rows: []timed{{"k=2", 0}},
			differences: 1, first: "missing x"},
		{name: "deleted long ago, and expired in the store", log: []timed{{"x=1", 180 * minute}, {"x", 120 * minute}, {"k=2", 0}},
			rows: []timed{{"k=2", 0}}},
		{name: "deleted lately, and not in the store", log: []timed{{"x", 30 * minute}, {"k=2", 0}}, rows: []timed{{"k=2", 0}},
			differences: 1, first: "missing x"},
		{name: "another value", log: []timed{{"k=2", 0}}, rows: []timed{{"k=3", 0}}, differences: 1, first: "value k"},
		{name: "a longer key in between", log: []timed{{"k\x00\x00=1", 0}, {"k=2", 0}},
			rows: []timed{{"k=0", epoch}, {"k\x00\x00=1", 0}, {"k=2", 0}}, unjudged: 1},
		{name: "a longer key behind", log: []timed{{"k\x00\x00=1", 0}}, rows: []timed{{"k=0", epoch}, {"k\x00\x00=1", 0}},
			differences: 1, first: "extra k"},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) { c.check(t, layout, time.Now()) })
		})
	}
}
