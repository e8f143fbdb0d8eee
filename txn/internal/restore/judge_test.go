package restore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/task"
)

var (
	judgeNow = time.UnixMilli(1_800_000_000_000)
	topicA   = [16]byte{1}
	topicB   = [16]byte{2}
	round7   = state.RoundID{ProducerID: 7, Epoch: 1, Incarnation: 9}
	round6   = state.RoundID{ProducerID: 6, Epoch: 1, Incarnation: 9}
)

// committed are the positions of a last commit: input at 100, store a at 50 and store b at 30 of
// their changelogs.
func committed() state.Positions {
	return state.Positions{
		Round: round7, State: round6, WrittenAt: judgeNow.UnixMilli(),
		Inputs: []state.Input{{Topic: "in", Partition: 3, Offset: 100, StreamTime: 5}},
		Changelogs: []state.Changelog{
			{Store: "a", TopicID: topicA, Applied: 50, Scanned: 50, StreamTime: judgeNow.UnixMilli()},
			{Store: "b", TopicID: topicB, Applied: 30, Scanned: 30},
		},
	}
}

// found is a task whose database is at its last commit.
func found() Found {
	p := committed()
	committed := task.NewCommitMetadata([8]byte{1}, p)
	return Found{
		Task: graph.TaskID{Subtopology: "in", Partition: 3}, HasState: true, Now: judgeNow,
		Inputs: []Input{{Topic: "in", Partition: 3, Committed: 100}},
		Commit: &committed,
		Changelogs: []Changelog{
			{Store: "a", Topic: "app-a-changelog", TopicID: topicA, HighWatermark: 60, DeleteRetention: 10 * time.Hour},
			{Store: "b", Topic: "app-b-changelog", TopicID: topicB, HighWatermark: 30, DeleteRetention: 10 * time.Hour},
		},
		Database: p,
	}
}

// expires makes store a one of ids, which are remembered for an hour, with a log that is kept for a
// day more and begins at start.
func expires(f *Found, start int64) {
	c := &f.Changelogs[0]
	c.LogStart, c.Deletes, c.Retention = start, true, 25*time.Hour
	c.Layout = state.Layout{Kind: state.DedupeKind, Retention: time.Hour.Milliseconds()}
}

// inMemory makes store b one in memory, of which the database has what was set before as a note.
func inMemory(f *Found) {
	f.Changelogs[1].InMemory = true
	f.Database = f.Database.OnDisk(func(store string) bool { return store == "b" })
}

func TestJudge(t *testing.T) {
	old := judgeNow.Add(-9 * time.Hour).UnixMilli()
	for _, tc := range []struct {
		name   string
		change func(*Found)
		// Wanted: either a stop whose text contains stop, or from-target per store and why store a,
		// and no other, is restored in full.
		stop string
		a, b [2]int64
		full string
	}{
		{name: "nothing is missing", change: func(*Found) {}, a: [2]int64{50, 50}, b: [2]int64{30, 30}},
		{name: "nothing is missing, however old", change: func(f *Found) { f.Database.WrittenAt = 1 }, a: [2]int64{50, 50}, b: [2]int64{30, 30}},
		{name: "a tail is missing", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 40, 42
			f.Database.State = state.RoundID{ProducerID: 1, Incarnation: 1}
		}, a: [2]int64{42, 50}, b: [2]int64{30, 30}},
		{name: "a new database", change: func(f *Found) { f.Database = state.Positions{} }, a: [2]int64{0, 50}, b: [2]int64{0, 30}},
		{name: "a new database, a log that starts later", change: func(f *Found) {
			f.Database = state.Positions{}
			f.Changelogs[0].LogStart = 20
		}, a: [2]int64{20, 50}, b: [2]int64{0, 30}},
		{name: "the log was cut above the database", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 10, 10
			f.Changelogs[0].LogStart = 20
		}, a: [2]int64{20, 50}, b: [2]int64{30, 30}, full: "starts at 20"},
		{name: "a gap old enough for tombstones to be gone", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 40, 40
			f.Database.WrittenAt = old
		}, a: [2]int64{0, 50}, b: [2]int64{30, 30}, full: "deletions may be missing"},
		{name: "a restore that was killed at its end", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 49, 50
			f.Database.State, f.Database.Round = state.RoundID{}, state.RoundID{}
		}, a: [2]int64{50, 50}, b: [2]int64{30, 30}},
		{name: "a log with a retention was cut above the database", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 10, 10
			expires(f, 20)
		}, a: [2]int64{20, 50}, b: [2]int64{30, 30}},
		{name: "a log with a retention, cut, and a gap old enough for tombstones to be gone", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 10, 10
			expires(f, 20)
			f.Database.WrittenAt = old
		}, a: [2]int64{20, 50}, b: [2]int64{30, 30}, full: "deletions may be missing"},
		{name: "a log from which brokers deleted by the clock what the store can still read", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 10, 10
			expires(f, 20)
			f.Changelogs[0].Retention = 30 * time.Minute
		}, a: [2]int64{20, 50}, b: [2]int64{30, 30}, full: "starts at 20"},
		{name: "a log of which only the owner deletes", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 10, 10
			expires(f, 20)
			f.Changelogs[0].Retention = 0
		}, a: [2]int64{20, 50}, b: [2]int64{30, 30}},
		{name: "a log without a retention, cut", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 10, 10
			expires(f, 20)
			f.Changelogs[0].Deletes = false
		}, a: [2]int64{20, 50}, b: [2]int64{30, 30}, full: "starts at 20"},
		{name: "nothing but markers was read of another changelog", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 0, 10
			f.Database.Changelogs[0].TopicID = [16]byte{99}
		}, a: [2]int64{0, 50}, b: [2]int64{30, 30}},
		{name: "a gap as old as nothing is missing from yet", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 40, 40
			f.Database.WrittenAt = judgeNow.Add(-8 * time.Hour).UnixMilli()
		}, a: [2]int64{40, 50}, b: [2]int64{30, 30}},
		{name: "the changelog of the database was recreated", change: func(f *Found) {
			f.Database.Changelogs[0].TopicID = [16]byte{99}
		}, a: [2]int64{0, 50}, b: [2]int64{30, 30}, full: "does not exist any more"},

		{name: "a store in memory", change: inMemory, a: [2]int64{50, 50}, b: [2]int64{0, 30}},
		{name: "a store in memory, and a tail is missing on the disk", change: func(f *Found) {
			f.Database.Changelogs[0].Applied, f.Database.Changelogs[0].Scanned = 40, 42
			inMemory(f)
		}, a: [2]int64{42, 50}, b: [2]int64{0, 30}},
		{name: "a gap old enough on the disk, and none of the store in memory", change: func(f *Found) {
			f.Database.WrittenAt = old
			inMemory(f)
		}, a: [2]int64{50, 50}, b: [2]int64{0, 30}},
		{name: "a later round that wrote to memory only", change: func(f *Found) {
			f.Database.State, f.Database.Changelogs[1].Applied = state.RoundID{ProducerID: 1, Incarnation: 1}, 29
			inMemory(f)
		}, a: [2]int64{50, 50}, b: [2]int64{0, 30}},
		{name: "a store in memory whose log starts later", change: func(f *Found) {
			inMemory(f)
			f.Changelogs[1].LogStart = 20
		}, a: [2]int64{50, 50}, b: [2]int64{20, 30}},
		{name: "a new database for a store in memory", change: func(f *Found) {
			inMemory(f)
			f.Database = state.Positions{}
		}, a: [2]int64{0, 50}, b: [2]int64{0, 30}},
		{name: "a store on the disk again", change: func(f *Found) {
			inMemory(f)
			f.Changelogs[1].InMemory = false
		}, a: [2]int64{50, 50}, b: [2]int64{0, 30}},
		{name: "the same place by another round, with a store in memory", change: func(f *Found) {
			f.Database.State = round7
			inMemory(f)
		}, stop: "another round"},
		{name: "the database has seen more of the store in memory", change: func(f *Found) {
			f.Database.Changelogs[1].Applied = 31
			inMemory(f)
		}, stop: "was at 31"},
		{name: "the changelog of the store in memory was recreated, and a store is gone from the topology", change: func(f *Found) {
			f.Database.Changelogs[1].TopicID = [16]byte{99}
			inMemory(f)
			f.Changelogs = f.Changelogs[1:]
		}, stop: "the topic that it means is unknown"},

		{name: "a database that no round has written, where one should have", change: func(f *Found) { f.Database.State = state.RoundID{} }, stop: "another round"},
		{name: "the database is ahead", change: func(f *Found) { f.Database.Changelogs[0].Applied = 51 }, stop: "contains changelog app-a-changelog[3] up to 51"},
		{name: "the same place by another round", change: func(f *Found) { f.Database.State = round7 }, stop: "another round"},
		{name: "the cluster lost records", change: func(f *Found) { f.Changelogs[1].HighWatermark = 29 }, stop: "lost records"},
		{name: "both changelogs were recreated", change: func(f *Found) {
			f.Changelogs[0].TopicID = [16]byte{99}
			f.Database = state.Positions{}
		}, stop: "deleted and created again"},
		{name: "a changelog was recreated, and a store is gone from the topology", change: func(f *Found) {
			f.Database.Changelogs[0].TopicID = [16]byte{99}
			f.Changelogs = f.Changelogs[:1]
		}, stop: "the topic that it means is unknown"},
		{name: "offset set back from outside", change: func(f *Found) { f.Inputs[0].Committed = 10 }, stop: "committed offset of in[3] is 10"},
		{name: "offset set forward from outside", change: func(f *Found) { f.Inputs[0].Committed = 1000 }, stop: "committed offset of in[3] is 1000"},
		{name: "no metadata, but state", change: func(f *Found) { f.Commit = nil }, stop: "no metadata"},
		{name: "offsets expired, the database is there", change: func(f *Found) { f.Inputs[0].Committed, f.Commit = -1, nil }, stop: "offsets expire"},
		{name: "offsets expired, only changelogs are there", change: func(f *Found) {
			f.Inputs[0].Committed, f.Commit = -1, nil
			f.Database = state.Positions{}
		}, stop: "holds records"},
		{name: "a new store whose changelog is not empty", change: func(f *Found) {
			f.Changelogs = append(f.Changelogs, Changelog{Store: "c", Topic: "app-c-changelog"})
		}, stop: "store c is new"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := found()
			tc.change(&f)
			plan, err := Judge(f)
			if tc.stop != "" {
				var stop *StopError
				if !errors.As(err, &stop) || !strings.Contains(err.Error(), tc.stop) || stop.Recovery == "" {
					t.Fatalf("got %v, want a stop that says %q and a way out", err, tc.stop)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range [][2]int64{tc.a, tc.b} {
				if got := [2]int64{plan.Replays[i].From, plan.Replays[i].Target}; got != want {
					t.Errorf("store %s is replayed over %v, want %v", plan.Replays[i].Store, got, want)
				}
			}
			if a := plan.Replays[0]; (a.Full != "") != (tc.full != "") || !strings.Contains(a.Reason, tc.full) {
				t.Errorf("store a is restored in full for %q (%s), want %q", a.Full, a.Reason, tc.full)
			}
			if b := plan.Replays[1]; b.Full != "" && b.Full != Volatile || b.Full == Volatile && !b.InMemory || plan.Wipe != "" {
				t.Errorf("store b is restored in full for %q (%s), the database for %q, and nothing is wrong with them", b.Full, b.Reason, plan.Wipe)
			}
			if !plan.Positions.Same(committed()) {
				t.Errorf("positions are %v, want %v", plan.Positions, committed())
			}
		})
	}
}

func TestJudgeNewTask(t *testing.T) {
	f := found()
	f.Commit, f.Database = nil, state.Positions{}
	f.Inputs[0].Committed, f.Inputs[0].Start = -1, 17
	for i := range f.Changelogs {
		// A first round that was killed leaves aborted records: the high watermark says nothing.
		f.Changelogs[i].Empty, f.Changelogs[i].HighWatermark = true, 60
	}
	plan, err := Judge(f)
	if err != nil {
		t.Fatal(err)
	}
	if in := plan.Positions.Inputs[0]; in.Offset != 17 || in.StreamTime != state.NoTime {
		t.Errorf("a new task starts at %+v, want offset 17 and no stream time", in)
	}
	if !plan.Positions.Round.IsZero() || len(plan.Positions.Changelogs) != 2 || plan.Positions.Changelogs[0].Applied != 0 {
		t.Errorf("a new task is at %v", plan.Positions)
	}
}

func TestJudgeNewInputAndStore(t *testing.T) {
	f := found()
	f.Inputs = append(f.Inputs, Input{Topic: "other", Partition: 3, Committed: -1, Start: 4})
	f.Changelogs = append(f.Changelogs, Changelog{Store: "c", Topic: "app-c-changelog", Empty: true})
	plan, err := Judge(f)
	if err != nil {
		t.Fatal(err)
	}
	if in := plan.Positions.Inputs[1]; in.Topic != "other" || in.Offset != 4 {
		t.Errorf("the new input starts at %+v", in)
	}
	if c := plan.Positions.Changelogs[2]; c.Store != "c" || c.Applied != 0 {
		t.Errorf("the new store is at %+v", c)
	}
}

func TestJudgeStateless(t *testing.T) {
	f := Found{Inputs: []Input{{Topic: "in", Committed: 12}, {Topic: "more", Committed: -1, Start: 3}}, Now: judgeNow}
	plan, err := Judge(f)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Positions.Inputs[0].Offset != 12 || plan.Positions.Inputs[1].Offset != 3 {
		t.Errorf("a stateless task takes any committed offset, got %v", plan.Positions)
	}
}

// TestJudgeParked: no task is opened without the store in which records of its input wait, also one
// that has no store left.
func TestJudgeParked(t *testing.T) {
	for store, stops := range map[string]bool{"a": false, "in.parked": true} {
		f := found()
		f.Commit.Parked = []task.CommittedParked{{Store: store, Records: 3}}
		stateless := Found{Task: f.Task, Inputs: f.Inputs, Commit: f.Commit, Now: judgeNow}
		_, err := Judge(f)
		_, alone := Judge(stateless)
		if !errors.Is(alone, ErrParked) {
			t.Errorf("without stores: %v", alone)
		}
		if errors.Is(err, ErrParked) != stops || !stops && err != nil {
			t.Errorf("%s: %v", store, err)
		}
		if stops && (!strings.Contains(err.Error(), "task in_3 is not opened: 3 records wait in store in.parked") ||
			!strings.Contains(err.Error(), "ParkKeys")) {
			t.Errorf("%v", err)
		}
	}
}

// TestJudgeParkStore: a stop for the store of parked records names only recovery actions that this
// store has. Its name is given, and its rows are adopted only without what may have waited.
func TestJudgeParkStore(t *testing.T) {
	f := found()
	f.Changelogs = append(f.Changelogs, Changelog{Store: "in.parked", Topic: "app-in.parked-changelog", Parks: true})
	_, err := Judge(f)
	stop, stops := errors.AsType[*StopError](err)
	if !stops || stop.Recovery != "Recovery action: delete that topic, once the last commit of no task names it" {
		t.Errorf("a new one with rows: %v", err)
	}
	f = found()
	f.Changelogs[1].Parks, f.Changelogs[1].HighWatermark = true, 29
	_, err = Judge(f)
	if stop, stops = errors.AsType[*StopError](err); !stops || !stop.Parked || strings.Contains(stop.Recovery, "`onceward adopt in_3`") ||
		!strings.Contains(stop.Recovery, "`onceward adopt --without-parked in_3`") {
		t.Errorf("one that has lost records: %v", err)
	}
}

// A first restore that was killed leaves data under no round. When the operator then deletes
// offsets and changelogs, as a stop advises, the database must not be taken for empty.
func TestJudgePartOfARestore(t *testing.T) {
	f := found()
	f.Inputs[0].Committed, f.Commit = -1, nil
	f.Database = state.Positions{Changelogs: []state.Changelog{{Store: "a", TopicID: topicA, Applied: 20, Scanned: 20}}}
	for i := range f.Changelogs {
		f.Changelogs[i].Empty = true
	}
	plan, err := Judge(f)
	if err != nil || plan.Wipe != Interrupted {
		t.Errorf("the plan is %+v (%v), want a wipe", plan, err)
	}
}

// TestJudgeReplacedStores: where a new version has other stores than the last commit, an instance
// without a database opens the task as one with a database does.
func TestJudgeReplacedStores(t *testing.T) {
	for _, database := range []state.Positions{committed(), {}} {
		f := found()
		f.Database = database
		for i := range f.Changelogs {
			f.Changelogs[i].Store, f.Changelogs[i].HighWatermark, f.Changelogs[i].Empty = f.Changelogs[i].Store+"2", 0, true
		}
		plan, err := Judge(f)
		if err != nil || plan.Wipe != "" {
			t.Errorf("database at %s: wiped for %q, %v", database, plan.Wipe, err)
		}
	}
}

// TestJudgeMovedOffset: while the metadata are there, one offset that was moved can be set back by
// any tool. Where they are gone, setting it back is not enough.
func TestJudgeMovedOffset(t *testing.T) {
	const back, accept = "set that offset back", "`onceward accept-skip in_3`"
	for _, tc := range []struct {
		name         string
		change       func(f *Found)
		first, holds string
	}{
		{"forward", func(f *Found) { f.Inputs[0].Committed++ }, back, accept},
		{"back", func(f *Found) { f.Inputs[0].Committed-- }, back, "rebuild from-input in_3"},
		{"by a tool that leaves no metadata", func(f *Found) { f.Commit = nil }, "if the last stop was clean, set the offsets of all inputs", accept},
	} {
		f := found()
		tc.change(&f)
		_, err := Judge(f)
		stop, stops := errors.AsType[*StopError](err)
		if !stops || !strings.HasPrefix(stop.Recovery, "Recovery action: "+tc.first) || !strings.Contains(stop.Recovery, tc.holds) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestJudgeHalfRebuilt: a state that a rebuild from input has begun to empty has one recovery
// action, and no offsets that it could belong to.
func TestJudgeHalfRebuilt(t *testing.T) {
	f := found()
	f.Commit, f.Rebuilding = nil, true
	_, err := Judge(f)
	if err == nil || !strings.Contains(err.Error(), "was interrupted") || !strings.Contains(err.Error(), "rebuild from-input in_3") {
		t.Fatalf("got %v, want a stop that names the rebuild", err)
	}
	for _, refused := range []string{"adopt", "accept-skip", "offset back", "offsets back"} {
		if strings.Contains(err.Error(), refused) {
			t.Errorf("%v names %q, which is refused", err, refused)
		}
	}
	f.Database = state.Positions{}
	for i := range f.Changelogs {
		f.Changelogs[i].Empty = true
	}
	if _, err := Judge(f); err != nil {
		t.Errorf("nothing is left of the old state: %v", err)
	}
}

// begun is the digest of a state that has taken nothing.
var begun = task.FirstDigest(judgeNow)

// fromSource makes store b one that is restored from the input, of which records with a digest were
// taken.
func fromSource(f *Found, digest int64) {
	f.Changelogs[1] = Changelog{
		Store: "b", Topic: "in", TopicID: topicB, HighWatermark: 120, DeleteRetention: time.Hour, FromSource: &graph.SourceRows{}, Taken: 100,
	}
	at := state.Changelog{Store: "b", TopicID: topicB, Applied: 100, Scanned: 100, StreamTime: digest}
	f.Database.SetChangelog(at)
	p := committed()
	p.SetChangelog(at)
	committed := task.NewCommitMetadata([8]byte{1}, p)
	f.Commit = &committed
}

// TestJudgeFromSource: the input stands in for the changelog, and the digest of its records for
// what cannot be seen of it.
func TestJudgeFromSource(t *testing.T) {
	again := task.NextDigest(begun)
	for _, tc := range []struct {
		name         string
		change       func(f *Found)
		from, digest int64
		full         Cause
		stop         string
	}{
		{"at the commit", func(*Found) {}, 100, begun + 70, "", ""},
		{"behind it, for longer than deletions are kept", func(f *Found) {
			f.Database.WrittenAt = judgeNow.Add(-9 * time.Hour).UnixMilli()
			f.Database.SetChangelog(state.Changelog{Store: "b", TopicID: topicB, Applied: 40, Scanned: 42, StreamTime: begun + 30})
		}, 42, begun + 30, "", ""},
		{"no database", func(f *Found) { f.Database = state.Positions{} }, 0, begun, "", ""},
		{"read again since, and further", func(f *Found) { f.Commit.Changelogs[1].StreamTime = again + 90 }, 0, again, Reread, ""},
		{"read again since, and less far", func(f *Found) {
			f.Inputs[0].Committed, f.Commit.Inputs[0].Offset, f.Changelogs[1].Taken = 10, 10, 10
			f.Commit.Changelogs[1].Applied, f.Commit.Changelogs[1].StreamTime = 10, again+9
		}, 0, again, Reread, ""},
		{"records before the database's position deleted", func(f *Found) {
			f.Database.SetChangelog(state.Changelog{Store: "b", TopicID: topicB, Applied: 40, Scanned: 42, StreamTime: begun + 30})
			f.Changelogs[1].LogStart = 50
		}, 50, begun, Truncated, ""},
		{"ahead of the commit", func(f *Found) {
			f.Database.SetChangelog(state.Changelog{Store: "b", TopicID: topicB, Applied: 110, Scanned: 110, StreamTime: begun + 80})
		}, 0, 0, "", "up to 110, and the last commit names 100"},
		{"the option added, and a changelog before that ends there too", func(f *Found) { f.Commit.Changelogs[1].StreamTime = 0 }, 0, 0, "",
			"had a changelog when the last commit was made"},
		{"the option removed, with another store, and an old changelog", func(f *Found) {
			f.Changelogs[1].FromSource = nil
			f.Changelogs, f.Database.Changelogs = f.Changelogs[1:], nil // what the hash says of the topics cannot be compared
		}, 0, 0, "", "was restored from its source when the last commit was made"},
		{"a changelog before", func(f *Found) { f.Commit.Changelogs[1].Applied = 30 }, 0, 0, "", "had a changelog when the last commit was made"},
		{"new, and its input is not", func(f *Found) { f.Commit.Changelogs = f.Commit.Changelogs[:1] }, 0, 0, "", "has processed all up to 100 without it"},
		{"new, and its log has lost its beginning", func(f *Found) {
			f.Commit.Changelogs = f.Commit.Changelogs[:1]
			f.Changelogs[1].LogStart = 7
		}, 0, 0, "", "whose log begins at 7"},
		{"offset moved forward", func(f *Found) { f.Inputs[0].Committed++ }, 0, 0, "", "the state was written for 100"},
		{"offset moved back", func(f *Found) { f.Inputs[0].Committed-- }, 0, 0, "", "the state was written for 100"},
		{"no metadata", func(f *Found) { f.Commit = nil }, 0, 0, "", "carry no metadata"},
		{"records lost", func(f *Found) { f.Changelogs[1].HighWatermark = 99 }, 0, 0, "", "the input in[3] ends before 100"},
		{"recreated", func(f *Found) { f.Changelogs[1].TopicID = topicA }, 0, 0, "", "deleted and created again"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := found()
			fromSource(&f, begun+70)
			tc.change(&f)
			plan, err := Judge(f)
			if tc.stop != "" {
				stop, stops := errors.AsType[*StopError](err)
				if !stops || !strings.Contains(stop.Error(), tc.stop) {
					t.Fatalf("it returned %v, want %q", err, tc.stop)
				}
				if strings.Contains(stop.Recovery, "accept-skip") || strings.Contains(stop.Recovery, "onceward adopt") {
					t.Errorf("it names what is refused for such a task: %s", stop.Recovery)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r := plan.Replays[len(plan.Replays)-1]
			if r.From != tc.from || r.Digest != tc.digest || r.Full != tc.full || r.Target != f.Changelogs[1].Taken {
				t.Errorf("it reads %d to %d, with digest %x, cause %q: %s", r.From, r.Target, r.Digest, r.Full, r.Reason)
			}
			if r.StreamTime != f.Commit.Changelogs[1].StreamTime || plan.Positions.Changelogs[1].StreamTime != r.StreamTime {
				t.Errorf("it ends at %x, and positions say %x", r.StreamTime, plan.Positions.Changelogs[1].StreamTime)
			}
		})
	}
}
