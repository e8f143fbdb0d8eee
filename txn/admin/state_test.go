package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/pebblestore"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/internal/control"
)

const changelog = "app-rows-changelog"

// scene is an instance that does not run, and its changelog.
type scene struct {
	ctx     context.Context
	dir     string
	cl      *kgo.Client
	adm     *kadm.Client
	client  *admin.Client
	topicID [16]byte
}

func newScene(t *testing.T) *scene {
	t.Helper()
	client, broker := connect(t, kfake.SeedTopics(1, changelog))
	s := &scene{ctx: t.Context(), dir: filepath.Join(t.TempDir(), "state"), cl: broker.Client(t, "writer"), client: client}
	s.adm = kadm.NewClient(s.cl)
	listed, err := s.adm.ListTopics(s.ctx, changelog)
	if err != nil {
		t.Fatal(err)
	}
	s.topicID = listed[changelog].ID
	return s
}

// write appends records to the changelog, each "key=value", or "key" for a tombstone.
func (s *scene) write(t *testing.T, records ...string) {
	t.Helper()
	for _, text := range records {
		key, value, found := strings.Cut(text, "=")
		r := &kgo.Record{Topic: changelog, Key: []byte(key)}
		if found {
			r.Value = []byte(value)
		}
		if err := s.cl.ProduceSync(s.ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// store makes the state directory with the rows of "rows", each "key=value", at a position that was
// written some time ago.
func (s *scene) store(t *testing.T, position int64, age time.Duration, rows ...string) {
	t.Helper()
	s.storeAt(t, state.Positions{
		Round: state.RoundID{ProducerID: 1, Epoch: 2, Incarnation: 3}, WrittenAt: time.Now().Add(-age).UnixMilli(),
		Inputs:     []state.Input{{Topic: "in", Offset: 1, StreamTime: state.NoTime}},
		Changelogs: []state.Changelog{{Store: "rows", TopicID: s.topicID, Applied: position, Scanned: position}},
	}, rows...)
}

func (s *scene) storeAt(t *testing.T, at state.Positions, rows ...string) {
	t.Helper()
	var writes []state.Write
	for _, row := range rows {
		key, value, _ := strings.Cut(row, "=")
		writes = append(writes, state.Write{Store: state.IDOf("rows"), Key: []byte(key), Value: []byte(value)})
	}
	s.storeRows(t, at, state.Layout{}, writes)
}

func (s *scene) storeRows(t *testing.T, at state.Positions, layout state.Layout, writes []state.Write) {
	t.Helper()
	dir, err := state.OpenDirectory(s.dir, state.DirectoryOptions{Application: "app", Instance: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.RemoveTask("in", 0); err != nil {
		t.Fatal(err)
	}
	path, err := dir.TaskPath("in", 0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pebblestore.Open(path, pebblestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(db.Declare(state.Declaration{Name: "rows", Layout: layout}), db.Apply(state.Positions{}, at, slices.Values(writes)), db.Close(), dir.Close())
	if err != nil {
		t.Fatal(err)
	}
}

// open opens the state until the test ends.
func (s *scene) open(t *testing.T) *admin.State {
	t.Helper()
	st, err := admin.OpenState(s.ctx, s.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// TestStoppedState reads the directory of an instance that does not run.
func TestStoppedState(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.write(t, "a=1", "b=2", "c=3", "c=4")
		s.store(t, 3, time.Hour, "a=1", "b=2", "c=3")
		st := s.open(t)
		if st.Running() || st.Identity().Application != "app" {
			t.Errorf("running %t, %+v", st.Running(), st.Identity())
		}
		row, err := st.Get(s.ctx, "rows", 0, []byte("b"), false)
		if err != nil || !row.Found || string(row.Value) != "2" || row.Task.String() != "in_0" || row.Epoch != (txn.Epoch{}) || row.Stale != nil {
			t.Errorf("%+v, %v", row, err)
		}
		if row, err := st.Get(s.ctx, "rows", 0, []byte("x"), false); err != nil || row.Found {
			t.Errorf("an absent key: %+v, %v", row, err)
		}
		if _, err := st.Get(s.ctx, "rows", 1, nil, false); !errors.Is(err, txn.ErrNotServing) {
			t.Errorf("a partition that is elsewhere gave %v", err)
		}
		if _, err := st.Get(s.ctx, "other", 0, nil, false); !errors.Is(err, state.ErrUnknownStore) {
			t.Errorf("a store that is not there gave %v", err)
		}
		scan, err := st.Scan(s.ctx, admin.ScanRequest{Store: "rows", Limit: 2, Range: state.Range{Reverse: true}})
		if err != nil {
			t.Fatal(err)
		}
		var keys string
		for e, err := range scan.Rows() {
			if err != nil {
				t.Fatal(err)
			}
			keys += string(e.Key)
		}
		if err := scan.Close(); keys != "cb" || err != nil {
			t.Errorf("the scan found %q, %v", keys, err)
		}
		tasks, err := st.Tasks(s.ctx, admin.Estimates)
		if err == nil {
			err = s.client.FillEnds(s.ctx, tasks)
		}
		if err != nil || len(tasks) != 1 || len(tasks[0].Stores) != 1 || tasks[0].DirectoryBytes < 100 {
			t.Fatalf("%+v, %v", tasks, err)
		}
		store := tasks[0].Stores[0]
		if lag, ok := store.Lag(tasks[0].Positions); lag != 0 || !ok || store.Keys != 3 || !store.Counted || store.Partitions != 1 {
			t.Errorf("lag %d, %t: %+v", lag, ok, store)
		}
	})
}

// TestUnfinishedRestore: the rows of an unfinished restore are read only by callers that ask for
// them.
func TestUnfinishedRestore(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		inputs := []state.Input{{Topic: "in", Offset: 1, StreamTime: state.NoTime}}
		for _, at := range []state.Positions{
			{Changelogs: []state.Changelog{{Store: "rows", TopicID: s.topicID, Applied: 1, Scanned: 1}}},
			{Inputs: inputs, Changelogs: []state.Changelog{{Store: "rows", TopicID: s.topicID, Applied: 1, Scanned: 2}}},
		} {
			s.storeAt(t, at, "a=1")
			st, err := admin.OpenState(s.ctx, s.dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := st.Get(s.ctx, "rows", 0, []byte("a"), false); !errors.Is(err, txn.ErrRestoring) {
				t.Errorf("at %v it is read: %v", at, err)
			}
			if row, err := st.Get(s.ctx, "rows", 0, []byte("a"), true); err != nil || !row.Found || !errors.Is(row.Stale, txn.ErrRestoring) {
				t.Errorf("%+v, %v", row, err)
			}
			if got, err := s.client.Verify(s.ctx, st, admin.VerifyOptions{}); err != nil || !errors.Is(got[0].Err, txn.ErrRestoring) {
				t.Errorf("it is verified: %+v, %v", got, err)
			}
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestSilentOwner: a directory whose process does not answer is told from one that is free.
func TestSilentOwner(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		dir, err := state.OpenDirectory(filepath.Join(t.TempDir(), "state"), state.DirectoryOptions{Application: "app"})
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := admin.OpenState(ctx, dir.Path()); !errors.Is(err, state.ErrLocked) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("it is %v", err)
		}
	})
}

// answering is a running instance that gives one error to everything.
type answering struct {
	err    error
	reason string
}

func (a answering) States(context.Context, control.Detail) ([]control.TaskState, error) {
	return nil, a.err
}
func (a answering) View(string, int32, bool) (control.StateAt, state.View, error) {
	return control.StateAt{}, nil, a.err
}
func (a answering) Checkpoint(string, string) error { return a.err }
func (a answering) Reason(error) string             { return a.reason }

// TestRunningErrors: an error of a running instance is what it was, on the other side of its
// socket.
func TestRunningErrors(t *testing.T) {
	dir, err := state.OpenDirectory(filepath.Join(t.TempDir(), "state"), state.DirectoryOptions{Application: "app"})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for reason, want := range map[string]error{
		control.ReasonNotServing: txn.ErrNotServing, control.ReasonRestoring: txn.ErrRestoring, control.ReasonStopped: txn.ErrTaskStopped,
		control.ReasonInDoubt: txn.ErrInDoubt, control.ReasonLost: txn.ErrOwnershipLost, control.ReasonUnknownStore: state.ErrUnknownStore,
		control.ReasonCorrupt: state.ErrCorrupt, control.ReasonFailed: state.ErrFailed, control.ReasonClosed: state.ErrClosed,
	} {
		src := answering{fmt.Errorf("because: %w", want), reason}
		server, err := control.Serve(dir.Path(), control.Instance{Status: func() any { return struct{}{} }, State: src, Rest: http.NotFoundHandler()})
		if err != nil {
			t.Fatal(err)
		}
		st, err := admin.OpenState(t.Context(), dir.Path())
		if err != nil || !st.Running() {
			t.Fatal(err)
		}
		_, getErr := st.Get(t.Context(), "rows", 0, nil, false)
		_, scanErr := st.Scan(t.Context(), admin.ScanRequest{Store: "rows"})
		_, tasksErr := st.Tasks(t.Context(), admin.Names)
		checkpointErr := admin.Checkpoint(t.Context(), dir.Path(), "in_0", filepath.Join(t.TempDir(), "to"))
		for _, err := range []error{getErr, scanErr, tasksErr, checkpointErr} {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), "because: ") {
				t.Errorf("%v became %v", src.err, err)
			}
		}
		if err := errors.Join(st.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	}
}

var inTask = graph.TaskID{Subtopology: "in", Partition: 0}

// verify verifies the one store of a scene.
func (s *scene) verify(t *testing.T, o admin.VerifyOptions) admin.Verification {
	t.Helper()
	st, err := admin.OpenState(s.ctx, s.dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.client.Verify(s.ctx, st, o)
	if err := errors.Join(err, st.Close()); err != nil || len(got) != 1 || got[0].Task != inTask || got[0].Store != "rows" {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := os.Stat(s.dir + ".verify"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the scratch directory is left: %v", err)
	}
	return got[0]
}

// TestVerify: what differs is told by key and kind, and what compaction may have changed is not
// called a difference.
func TestVerify(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		name                  string
		log                   []string
		position              int64
		age                   time.Duration
		rows                  []string
		differences, unjudged int64
		first                 string
	}{
		{"equal", []string{"a=1", "b=1", "b=2", "c=1", "c"}, 5, 0, []string{"a=1", "b=2"}, 0, 0, ""},
		{"empty", nil, 0, 0, nil, 0, 0, ""},
		{"empty value", []string{"a="}, 1, 0, []string{"a="}, 0, 0, ""},
		{"in the middle of the log", []string{"a=1", "b=1", "b=2", "d=9"}, 2, 0, []string{"a=1", "b=1"}, 0, 0, ""},
		{"other value", []string{"a=1", "b=2"}, 2, 0, []string{"a=1", "b=3"}, 1, 0, "value b"},
		{"extra", []string{"a=1", "c"}, 2, 0, []string{"a=1", "c=1"}, 1, 0, "extra c"},
		{"only the changelog has it", []string{"a=1", "b=2"}, 2, 0, []string{"b=2"}, 1, 0, "missing a"},
		{"last ones", []string{"a=1", "b=2", "x=1", "y=1"}, 4, 0, []string{"a=1"}, 3, 0, "missing b, missing x"},
		{"extra at the end", []string{"a=1"}, 1, 0, []string{"a=1", "x=1", "y=1"}, 2, 0, "extra x, extra y"},
		// The older records of b may have been compacted, since it was written later.
		{"written later", []string{"a=1", "b=9"}, 1, 0, []string{"a=1", "b=2"}, 0, 1, ""},
		{"one written later, one not", []string{"a=1", "b=9"}, 1, 0, []string{"a=2", "b=2"}, 1, 1, "value a"},
		// b may have been deleted later, and the tombstone be gone.
		{"deleted long ago", []string{"a=1", "z=9"}, 1, 2 * day, []string{"a=1", "b=2"}, 0, 1, ""},
		{"old, and nothing was written since", []string{"a=1"}, 1, 2 * day, []string{"a=1", "b=2"}, 1, 0, "extra b"},
		{"old, and missing", []string{"a=1", "b=2", "z=9"}, 2, 2 * day, []string{"a=1"}, 1, 0, "missing b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.write(t, tc.log...)
				s.store(t, tc.position, tc.age, tc.rows...)
				v := s.verify(t, admin.VerifyOptions{DifferencesMax: 2})
				var first []string
				for _, d := range v.First {
					first = append(first, string(d.Kind)+" "+string(d.Key))
				}
				if v.Err != nil || v.Differences != tc.differences || v.Unjudged != tc.unjudged || strings.Join(first, ", ") != tc.first ||
					v.Rows != int64(len(tc.rows)) || v.Position != tc.position || v.Equal() != (tc.differences+tc.unjudged == 0) {
					t.Errorf("%+v", v)
				}
			})
		})
	}
}

// TestVerifyWithoutChangelog: a changelog that cannot be the one of the state is an error, and not
// a difference.
func TestVerifyWithoutChangelog(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, s *scene)
		says  string
	}{
		{"another topic", func(t *testing.T, s *scene) {
			s.topicID[0] ^= 1
			s.store(t, 2, 0, "a=1", "b=2")
		}, "deleted and recreated"},
		{"ends before", func(t *testing.T, s *scene) { s.store(t, 9, 0, "a=1", "b=2") }, "ends at 2, the state is at 9"},
		{"cut off", func(t *testing.T, s *scene) {
			s.write(t, "c=3", "d=4")
			var upTo kadm.Offsets
			upTo.AddOffset(changelog, 0, 3, -1)
			if _, err := s.adm.DeleteRecords(s.ctx, upTo); err != nil {
				t.Fatal(err)
			}
		}, "begins at 3, the state is at 2"},
		{"gone", func(t *testing.T, s *scene) {
			if _, err := s.adm.DeleteTopics(s.ctx, changelog); err != nil {
				t.Fatal(err)
			}
		}, "does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				s := newScene(t)
				s.write(t, "a=1", "b=2")
				s.store(t, 2, 0, "a=1", "b=2")
				tc.spoil(t, s)
				v := s.verify(t, admin.VerifyOptions{})
				if !errors.Is(v.Err, admin.ErrChangelog) || !errors.Is(v.Err, txn.ErrIntegrity) || !strings.Contains(v.Err.Error(), tc.says) {
					t.Errorf("%v", v.Err)
				}
			})
		})
	}
}

// TestVerifyMany replays more than is kept in memory at a time, with many writes of each key.
func TestVerifyMany(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		const keys, rounds = 20_000, 4
		var records []*kgo.Record
		var rows []string
		for round := range rounds {
			for i := range keys {
				row := fmt.Sprintf("k%05d=%d", i, round)
				key, value, _ := strings.Cut(row, "=")
				records = append(records, &kgo.Record{Topic: changelog, Key: []byte(key), Value: []byte(value)})
				if round == rounds-1 {
					rows = append(rows, row)
				}
			}
		}
		if err := s.cl.ProduceSync(s.ctx, records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		rows[keys/2] = strings.Replace(rows[keys/2], "=3", "=2", 1)
		s.store(t, keys*rounds, 0, rows...)
		told := 0
		var last admin.Progress
		v := s.verify(t, admin.VerifyOptions{Progress: func(p admin.Progress) {
			if told++; p.Task != inTask || p.Store != "rows" || p.Records+p.Left > keys*rounds || p.Records < last.Records {
				t.Errorf("%+v", p)
			}
			last = p
		}})
		if last.Records != keys*rounds || last.Bytes != keys*rounds*7 || last.Left != 0 || last.Remaining != 0 {
			t.Errorf("at the end it is told %+v", last)
		}
		if v.Rows != keys || v.Differences != 1 || string(v.First[0].Key) != "k10000" || string(v.First[0].Changelog) != "3" || told == 0 {
			t.Errorf("%+v, told %d times", v, told)
		}
	})
}

// TestVerifyScratch: what a killed process left is taken over, what another one uses or what is
// none of ours is not touched.
func TestVerifyScratch(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		s := newScene(t)
		s.write(t, "a=1")
		s.store(t, 1, 0, "a=1")
		if err := os.MkdirAll(filepath.Join(s.dir+".verify", "replayed", "left"), 0o700); err != nil {
			t.Fatal(err)
		}
		if v := s.verify(t, admin.VerifyOptions{}); !v.Equal() {
			t.Errorf("%+v", v)
		}
		st := s.open(t)
		foreign := t.TempDir()
		file := filepath.Join(foreign, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.Verify(s.ctx, st, admin.VerifyOptions{Scratch: foreign}); err == nil {
			t.Error("a directory with a file in it is used")
		}
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(s.ctx)
		cancel()
		if _, err := s.client.Verify(ctx, st, admin.VerifyOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a verification that was ended returned %v", err)
		}
		if _, err := os.Stat(s.dir + ".verify"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the scratch directory is left: %v", err)
		}
	})
}
