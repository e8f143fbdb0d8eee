package purge

import (
	"reflect"
	"testing"

	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/task"
)

var at = dispatch.Input{Topic: "moved", Partition: 3}

// TestPurgedIsWhatWasReadATurnBefore: of a repartition partition is deleted what a task had read at
// the turn before, once, and nothing while another task may need it.
func TestPurgedIsWhatWasReadATurnBefore(t *testing.T) {
	one, two := &task.Task{}, &task.Task{}
	seen := map[dispatch.Input]purgeable{}
	for i, turn := range []struct {
		what   string
		reader *task.Task // nil: the partition is not owned
		offset int64
		want   int64 // 0: nothing is deleted
	}{
		{what: "the first turn", reader: one, offset: 10},
		{what: "what was read then", reader: one, offset: 25, want: 10},
		{what: "what was read since", reader: one, offset: 25, want: 25},
		{what: "nothing is new", reader: one, offset: 25},
		{what: "nothing is new", reader: one, offset: 25},
		{what: "it is read on", reader: one, offset: 40},
		{what: "it is given up"},
		{what: "it is opened again", reader: two, offset: 40},
		{what: "a turn later", reader: two, offset: 50, want: 40},
		{what: "another task has it at once", reader: one, offset: 60},
		{what: "a turn later", reader: one, offset: 60, want: 60},
	} {
		now := map[dispatch.Input]purgeable{}
		if turn.reader != nil {
			now[at] = purgeable{task: turn.reader, offset: turn.offset}
		}
		want := map[string]map[int32]int64{}
		if turn.want > 0 {
			want["moved"] = map[int32]int64{3: turn.want}
		}
		if before := due(seen, now); !reflect.DeepEqual(before, want) {
			t.Errorf("turn %d, %s: %v is deleted, want %v", i, turn.what, before, want)
		}
		seen = now
	}
}

// TestChangelogIsPurgedUpToWhatHasNotExpired, and never past the last applied round: what is behind
// it may be of a round that is being committed, or of an aborted one.
func TestChangelogIsPurgedUpToWhatHasNotExpired(t *testing.T) {
	log := dispatch.Input{Topic: "changelog", Partition: 1}
	for name, c := range map[string]struct {
		applied, deleted int64
		first            map[int32]int64
		want             int64
	}{
		"some have expired":                     {applied: 100, first: map[int32]int64{1: 40}, want: 40},
		"all have expired":                      {applied: 100, first: map[int32]int64{1: -1}, want: 100},
		"the first valid one is not applied":    {applied: 100, first: map[int32]int64{1: 120}, want: 100},
		"it was deleted before":                 {applied: 100, deleted: 40, first: map[int32]int64{1: 40}},
		"more has expired":                      {applied: 100, deleted: 40, first: map[int32]int64{1: 41}, want: 41},
		"the leader does not answer":            {applied: 100, first: map[int32]int64{0: 40}},
		"none has expired":                      {applied: 100, first: map[int32]int64{1: 0}},
		"nothing is applied, all have expired":  {first: map[int32]int64{1: -1}},
		"what is applied was deleted long ago":  {applied: 30, deleted: 40, first: map[int32]int64{1: -1}},
		"the topic is not among those answered": {applied: 100},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]map[int32]int64{}
			if c.want > 0 {
				want["changelog"] = map[int32]int64{1: c.want}
			}
			deleted := map[dispatch.Input]int64{}
			if c.deleted > 0 {
				deleted[log] = c.deleted
			}
			before := expired(map[dispatch.Input]expiring{log: {applied: c.applied, oldest: 1}}, map[string]map[int32]int64{"changelog": c.first}, deleted)
			if !reflect.DeepEqual(before, want) {
				t.Errorf("%v is deleted, want %v", before, want)
			}
		})
	}
}
