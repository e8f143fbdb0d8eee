package session

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/assign"
	"github.com/onceward/onceward/txn/internal/dispatch"
	"github.com/onceward/onceward/txn/internal/task"
	"github.com/onceward/onceward/txn/internal/worker"
)

// reading is a session without a cluster whose one task is open, at a known round.
type reading struct {
	reader Reader
	s      *Session // the one that the reader finds
	id     graph.TaskID
	e      *dispatch.Entry
	task   *task.Task
	db     state.Database
	round  state.RoundID
	// declared are the stores of the task.
	declared []state.Declaration
}

// newReading takes what changes the database before it is used, nil for nothing.
func newReading(t *testing.T, wrap func(state.Database) state.Database) *reading {
	t.Helper()
	b := topology.NewBuilder("reading")
	r := &reading{round: state.RoundID{ProducerID: 7, Epoch: 3, Incarnation: 1}}
	store := topology.KeyValueStore("rows", schemas.String(), schemas.String())
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	topology.Process(in, "keep", store, func(_ *topology.Context, rows state.KeyValue[string, string],
		rec topology.Record[string, string], _ topology.Emit[string, string]) error {
		return rows.Put(rec.Key, rec.Value)
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	r.reader = Reader{Topology: top, Current: func() *Session { return r.s }}
	sub := top.Subtopologies()[0]
	r.declared = sub.Declarations()
	r.s = &Session{
		cfg: Config{Topology: top, Logger: slog.New(slog.DiscardHandler)}, tasks: noTasks(), copies: noCopies(), subs: map[string]graph.Subtopology{sub.Name: sub},
		ownership: assign.New([]assign.Subtopology{{Name: sub.Name, Sources: []string{"in"}}}),
	}
	r.s.ctx, r.s.cancel = context.WithCancelCause(t.Context())
	cancel := r.s.cancel
	t.Cleanup(func() { cancel(nil) })
	r.id = r.s.ownership.Add(map[string][]int32{"in": {0}})[0]
	epoch, _ := r.s.ownership.Epoch(r.id)
	if r.db = r.database(t, r.round, "new"); wrap != nil {
		r.db = wrap(r.db)
	}
	st, err := state.NewTask(r.db, r.declared)
	if err != nil {
		t.Fatal(err)
	}
	// There is no group client: the member id of this process is empty, and stays so.
	r.task = task.New(task.Spec{ID: r.id, Epoch: epoch, State: st})
	r.e = r.s.tasks.Enter(r.id)
	if _, err := r.s.tasks.Adopt(r.task, r.e, []*worker.Worker{nil}, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	return r
}

// restores has the task opened again, with a database that is not at the last commit yet, nil for
// none.
func (r *reading) restores(db state.Database) {
	r.s.tasks.Remove(r.id)
	r.e, r.task = r.s.tasks.Enter(r.id), nil
	if db != nil {
		r.s.tasks.Restoring(r.e, db)
	}
}

// database returns one with the row k.
func (r *reading) database(t *testing.T, round state.RoundID, value string) state.Database {
	t.Helper()
	db := memstore.New()
	if err := db.Declare(r.declared...); err != nil {
		t.Fatal(err)
	}
	write := state.Write{Store: state.IDOf("rows"), Key: []byte("k"), Value: []byte(value)}
	next := state.Positions{Round: round, Inputs: []state.Input{{Topic: "in", Offset: 5}}}
	if err := db.Apply(state.Positions{}, next, func(yield func(state.Write) bool) { yield(write) }); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestReadRefusals: each reason not to serve a view has an error of its own, which is one kind of
// ErrNotServing; with Stale there is a view that says why it is stale (rule 8.3).
func TestReadRefusals(t *testing.T) {
	doubt := func(age time.Duration) func(*testing.T, *reading) {
		return func(_ *testing.T, r *reading) {
			sent := time.Now().Add(-age)
			r.task.SetDoubt(&sent)
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *reading)
		want   error  // nil: it is served
		stale  string // what a stale read finds, "" if it is refused as well
	}{
		{"running", func(*testing.T, *reading) {}, nil, "new"},
		{"no membership", func(_ *testing.T, r *reading) { r.s = nil }, ErrNotServing, ""},
		{"not assigned", func(_ *testing.T, r *reading) { r.s.tasks.Remove(r.id) }, ErrNotServing, ""},
		{"restoring, not open yet", func(_ *testing.T, r *reading) { r.restores(nil) }, ErrRestoring, ""},
		{"restoring", func(t *testing.T, r *reading) {
			r.restores(r.database(t, state.RoundID{ProducerID: 1}, "old"))
		}, ErrRestoring, "old"},
		{"restoring, wiped just now", func(t *testing.T, r *reading) {
			old := r.database(t, state.RoundID{ProducerID: 1}, "old")
			r.restores(old)
			_ = old.Close()
		}, ErrRestoring, ""},
		{"stopped", func(_ *testing.T, r *reading) { r.s.tasks.Stop(r.id, r.e, ErrIntegrity, false) }, ErrTaskStopped, "new"},
		{"stopped before it was open", func(_ *testing.T, r *reading) {
			r.restores(nil)
			r.s.tasks.Stop(r.id, r.e, ErrIntegrity, false)
		}, ErrTaskStopped, ""},
		{"closed", func(_ *testing.T, r *reading) { _ = r.db.Close() }, state.ErrClosed, ""},
		{"a commit on its way", doubt(time.Millisecond), nil, "new"},
		{"in doubt for as long as is served", doubt(5 * time.Second), nil, "new"},
		{"in doubt for longer", doubt(5*time.Second + time.Nanosecond), ErrInDoubt, "new"},
		{"was in doubt", func(t *testing.T, r *reading) {
			doubt(time.Hour)(t, r)
			r.task.SetDoubt(nil)
		}, nil, "new"},
		{"given up", func(_ *testing.T, r *reading) {
			r.s.ownership.Remove(map[string][]int32{"in": {0}})
		}, ErrOwnershipLost, "new"},
		{"given up and assigned again", func(_ *testing.T, r *reading) {
			r.s.ownership.Remove(map[string][]int32{"in": {0}})
			r.s.ownership.Add(map[string][]int32{"in": {0}})
		}, ErrOwnershipLost, "new"},
		{"a new member", func(_ *testing.T, r *reading) { r.task.Member = "as it was" }, ErrOwnershipLost, "new"},
		{"the membership is over", func(_ *testing.T, r *reading) { r.s.cancel(assign.ErrMemberChanged) }, ErrOwnershipLost, "new"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) { // so that no time passes
				r := newReading(t, nil)
				tc.change(t, r)
				got, err := r.reader.Read("rows", 0, false)
				switch {
				case !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil):
					t.Errorf("Read returned %v, want %v", err, tc.want)
				case err == nil:
					r.check(t, got, "new")
					if why := got.Stale; why != nil {
						t.Errorf("a current view is stale: %v", why)
					}
				case !errors.Is(err, ErrNotServing):
					t.Errorf("%v is not ErrNotServing", err)
				default:
					for _, other := range []error{ErrRestoring, ErrTaskStopped, ErrInDoubt, ErrOwnershipLost} {
						if !errors.Is(tc.want, other) && errors.Is(err, other) {
							t.Errorf("%v is also %v", err, other)
						}
					}
				}
				got, err = r.reader.Read("rows", 0, true)
				if tc.stale == "" {
					if !errors.Is(err, tc.want) {
						t.Errorf("a stale read returned %v, want %v", err, tc.want)
					}
					return
				}
				if err != nil {
					t.Fatalf("a stale read returned %v", err)
				}
				r.check(t, got, tc.stale)
				if why := got.Stale; !errors.Is(why, tc.want) || (why == nil) != (tc.want == nil) {
					t.Errorf("the view is stale because of %v, want %v", why, tc.want)
				}
			})
		})
	}
}

// check reads the row and closes the view.
func (r *reading) check(t *testing.T, got Served, want string) {
	t.Helper()
	if value, ok, err := got.View.Get(state.IDOf("rows"), []byte("k")); string(value) != want || !ok || err != nil {
		t.Errorf("the row is %q (%t, %v), want %q", value, ok, err, want)
	}
	if round := got.View.Positions().Round; want == "new" && round != r.round {
		t.Errorf("the round is %s, want %s", round, r.round)
	}
	member, revokes := "", uint64(0)
	if r.task != nil {
		member, revokes = r.task.Member, r.task.Epoch
	}
	if got.Member != member || got.Revokes != revokes {
		t.Errorf("the epoch is %s/%d, want %s/%d", got.Member, got.Revokes, member, revokes)
	}
	if err := got.View.Close(); err != nil {
		t.Error(err)
	}
}

// slowView resolves the doubt while its view is taken.
type slowView struct {
	state.Database
	resolve func()
}

func (d slowView) View() (state.View, error) {
	v, err := d.Database.View()
	d.resolve()
	return v, err
}

// TestReadWhileDoubtEnds: a view that was taken just before a long doubt ended lacks what that
// commit brought, and is not served although nothing is in doubt any more when it is there.
func TestReadWhileDoubtEnds(t *testing.T) {
	var r *reading
	r = newReading(t, func(db state.Database) state.Database { return slowView{db, func() { r.task.SetDoubt(nil) }} })
	sent := time.Now().Add(-time.Minute)
	r.task.SetDoubt(&sent)
	if got, err := r.reader.Read("rows", 0, false); !errors.Is(err, ErrInDoubt) {
		t.Fatalf("Read returned %v and %v, want %v", got, err, ErrInDoubt)
	}
	if got, err := r.reader.Read("rows", 0, false); err != nil {
		t.Errorf("after the doubt Read returned %v", err)
	} else {
		r.check(t, got, "new")
	}
}

// TestReadUnknownStore: a store that the topology does not have is a mistake, and nothing that
// passes.
func TestReadUnknownStore(t *testing.T) {
	r := newReading(t, nil)
	if _, err := r.reader.Read("others", 0, true); !errors.Is(err, state.ErrUnknownStore) || errors.Is(err, ErrNotServing) {
		t.Errorf("Read returned %v, want %v", err, state.ErrUnknownStore)
	}
}
