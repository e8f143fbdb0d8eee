package txn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// hides makes the next answers to the question for the changelog of the records that wait those to
// who may not see it.
func (s *shop) hides(t *testing.T, answers int64) *atomic.Int64 {
	t.Helper()
	a := s.absence(t, parkedChangelog)
	a.code = kerr.TopicAuthorizationFailed.Code
	a.answer.Store(answers)
	return &a.answer
}

// TestParkedRecordsWithoutKnownCommit: no commit is known, and the store of the parked records was
// the only store of a task, so only its changelog names the records. The task is not opened without
// them. Every recovery action that takes its offsets says so, until the records are given up.
// Requirement G6.
func TestParkedRecordsWithoutKnownCommit(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*testing.T, *shop)
		way     string
		act     func(*admin.Application, context.Context, admin.Options) (admin.Report, error)
	}{
		"offsets set by another program": {
			func(_ *testing.T, s *shop) { s.loseCommit() }, "`onceward adopt --without-parked in_0`", (*admin.Application).Adopt,
		},
		"offsets expired": {
			func(t *testing.T, s *shop) {
				if err := deleteGroup(t, s.testBroker); err != nil {
					t.Fatal(err)
				}
			}, "`onceward adopt --from-rounds --without-parked in_0`", (*admin.Application).AdoptFromRounds,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s, dir := newShop(t, topology.Policy{}), t.TempDir()
			var broken atomic.Bool
			broken.Store(true)
			app, stop := start(t, dock(t, &broken), s.config(dir))
			s.send("bad", 3)
			s.send("good", 1)
			s.read(t, "out", 1)
			waitFor(t, "all records", func() bool { return app.Status().Totals.Records == 4 })
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			test.happens(t, s)
			next := copyTopology(t, "out")
			s.stopsAs(next, dir, "3 records wait in store in.parked", "ParkKeys", test.way)
			op := s.office(t).Application(next)
			plan, err := op.Plan(t.Context(), nil)
			if err != nil || !slices.ContainsFunc(plan.Findings, func(f admin.Finding) bool {
				return f.Judgement == admin.Refused && f.Name == "in_0" && strings.Contains(f.What, "3 records wait in store in.parked")
			}) {
				t.Errorf("the plan is %+v, %v, want that it refuses the task", plan, err)
			}
			for name, act := range map[string]func(context.Context, admin.Options) (admin.Report, error){
				"the recovery action": func(ctx context.Context, o admin.Options) (admin.Report, error) { return test.act(op, ctx, o) },
				"reset": func(ctx context.Context, o admin.Options) (admin.Report, error) {
					return op.Reset(ctx, o, admin.Offsets{"in": admin.End})
				},
			} {
				_, err := act(t.Context(), admin.Options{})
				if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "3 records wait in store in.parked") ||
					!strings.Contains(err.Error(), "--without-parked") {
					t.Errorf("%s returned %v, want a refusal that says what waits", name, err)
				}
			}
			report, err := test.act(op, t.Context(), admin.Options{WithoutParked: true})
			if err != nil || !slices.Equal(report.Tasks[0].GivenUp, []admin.GivenUpReport{{Store: "in.parked", Records: 3}}) {
				t.Fatalf("giving up returned %+v, %v", report, err)
			}
			_, stop = start(t, next, s.config(dir))
			s.send("bad", 1)
			s.read(t, "out", 2)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestParkedChangelogLostRecords: where the last commit leaves it to the changelog what waits, and
// that has lost records, an operator has to give up what waited, whether the topology has a place
// for it or not. Stop and refusal name the option. Requirement G6.
func TestParkedChangelogLostRecords(t *testing.T) {
	remade := func(_ *testing.T, s *shop) { s.remake() }
	deleted := func(t *testing.T, s *shop) {
		ends, err := s.adm.ListEndOffsets(t.Context(), parkedChangelog)
		if err != nil {
			t.Fatal(err)
		}
		end, _ := ends.Lookup(parkedChangelog, 0)
		if err := s.DeleteRecords(parkedChangelog, 0, end.Offset); err != nil {
			t.Fatal(err)
		}
		s.commit(func(o *kadm.OffsetResponse) { o.At-- }) // or nothing would stop a task that has a place for what waits
	}
	for name, test := range map[string]struct {
		happens func(*testing.T, *shop)
		parks   bool // the topology has a place for parked records
		stop    []string
	}{
		"another topic":           {remade, true, []string{"the cluster lost records", "`onceward adopt --without-parked in_0`"}},
		"deleted records":         {deleted, true, []string{"the state was written for 13"}},
		"no place, another topic": {remade, false, []string{"ends at 0", "`onceward adopt --without-parked in_0`"}},
		"no place, deleted records": {deleted, false, []string{
			"as records were deleted: the records that wait", "`onceward adopt --without-parked in_0`",
		}},
	} {
		bubble(t, name, func(t *testing.T) {
			s, dir := parkedShop(t)
			s.unsayParked()
			test.happens(t, s)
			top := s.without()
			if test.parks {
				top = s.topology(topology.ParkKeys())
			}
			s.stopsAs(top, dir, test.stop...)
			op := s.office(t).Application(top)
			if _, err := op.Adopt(t.Context(), admin.Options{}); !errors.Is(err, admin.ErrRefused) ||
				!strings.Contains(err.Error(), "in.parked") || !strings.Contains(err.Error(), "--without-parked") {
				t.Errorf("adopt returned %v, want a refusal that says how what waits is given up", err)
			}
			report, err := op.Adopt(t.Context(), admin.Options{WithoutParked: true})
			if err != nil || !slices.Equal(report.Tasks[0].GivenUp, []admin.GivenUpReport{{Store: "in.parked", Records: -1}}) {
				t.Fatalf("giving up returned %+v, %v", report, err)
			}
		})
	}
}

// TestParkChangelogThatMayNotBeSeen: brokers answer "not authorized" for a missing topic. An
// application that never parked anything starts with such permissions, and its operator is told
// what to do. Requirement G6.
func TestParkChangelogThatMayNotBeSeen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, dir := newShop(t, topology.Policy{Action: topology.DeadLetter}), t.TempDir()
		s.hides(t, 1<<30)
		lives := func(written int) {
			t.Helper()
			_, stop := start(t, s.topology(), s.config(dir))
			s.send("good", 1)
			s.read(t, "out", written)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
		lives(1)
		s.loseCommit()
		op := s.office(t).Application(s.topology())
		_, err := op.Adopt(t.Context(), admin.Options{Mode: new(topology.Live)})
		if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "may not be described, or is not there") ||
			!strings.Contains(err.Error(), "--without-parked") {
			t.Errorf("adopt returned %v, want a refusal that says what to do", err)
		}
		if _, err := op.Adopt(t.Context(), admin.Options{Mode: new(topology.Live), WithoutParked: true}); err != nil {
			t.Fatal(err)
		}
		lives(2)
	})
}

// TestOlderCommitThatParksIsAskedAgain: a commit that names records without a place, or unknown
// records, is not believed at once. A coordinator that loads can answer with a commit from before
// they were processed. Requirement G6.
func TestOlderCommitThatParksIsAskedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		said bool
		then func(*testing.T, *shop)
	}{
		"said": {true, func(*testing.T, *shop) {}},
		"not said, no topic": {false, func(t *testing.T, s *shop) {
			if _, err := s.adm.DeleteTopics(t.Context(), parkedChangelog); err != nil {
				t.Fatal(err)
			}
		}},
		"not said, short": {false, func(_ *testing.T, s *shop) { s.remake() }},
	} {
		bubble(t, name, func(t *testing.T) {
			s, dir := parkedShop(t)
			if !test.said {
				s.unsayParked()
			}
			early := s.stableOffsets(t, "counting", "in")
			s.broken.Delete("bad")
			lives := func(top *topology.Topology, written int) {
				t.Helper()
				_, stop := start(t, top, s.config(dir))
				s.send("good", 1)
				s.read(t, "out", written)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			lives(s.topology(topology.ParkKeys()), 14)
			lives(s.without(), 15)
			test.then(t, s)
			var left atomic.Int64
			left.Store(2)
			s.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				s.KeepControl()
				req := kreq.(*kmsg.OffsetFetchRequest)
				of := req.Groups
				if !req.RequireStable || len(of) != 1 || len(of[0].Topics) != 1 || !slices.Equal(of[0].Topics[0].Partitions, []int32{0}) ||
					left.Add(-1) < 0 {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
				resp.Groups = early.Groups
				return resp, nil, true
			})
			lives(s.without(), 16)
			if left.Load() >= 0 {
				t.Errorf("%d answers are left", left.Load())
			}
		})
	}
}

// TestPlanKnowsThePlaceOfParkedRecords: a plan for a topology that has a place for parked records
// says that their changelog is lost, and not that there is no place for them. Requirement G6.
func TestPlanKnowsThePlaceOfParkedRecords(t *testing.T) {
	for name, said := range map[string]bool{"said": true, "not said": false} {
		bubble(t, name, func(t *testing.T) {
			s, _ := parkedShop(t)
			if !said {
				s.unsayParked()
			}
			if _, err := s.adm.DeleteTopics(t.Context(), parkedChangelog); err != nil {
				t.Fatal(err)
			}
			plan, err := s.office(t).Application(s.topology(topology.ParkKeys())).Plan(t.Context(), nil)
			i := slices.IndexFunc(plan.Findings, func(f admin.Finding) bool { return f.Name == "in_0" && f.Judgement == admin.Refused })
			if err != nil || i < 0 {
				t.Fatalf("the plan is %+v, %v, want that it refuses the task", plan, err)
			}
			if f := plan.Findings[i]; !strings.Contains(f.What, "the cluster lost records") || !strings.Contains(f.Remedy, "--without-parked") ||
				strings.Contains(f.Remedy, "ParkKeys") {
				t.Errorf("the finding is %+v", f)
			}
		})
	}
}

// TestRefusalsNameWithoutParked: a text that refers an operator to another recovery action names
// the option that this action needs. This holds for a task with waiting records that have no place
// or are lost. The text names nothing that would lead back. Requirement G6.
func TestRefusalsNameWithoutParked(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, _ := parkedShop(t)
		_, err := s.office(t).Application(s.without()).Reset(t.Context(), admin.Options{WithoutParked: true}, admin.Offsets{"in": admin.End})
		if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "see to that first") ||
			!strings.Contains(err.Error(), "`onceward adopt --without-parked in_0`") {
			t.Errorf("reset returned %v", err)
		}
		if err := deleteGroup(t, s.testBroker); err != nil {
			t.Fatal(err)
		}
		s.remake()
		_, err = s.office(t).Application(s.topology(topology.ParkKeys())).AdoptFromRounds(t.Context(), admin.Options{})
		if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "commit offsets and `onceward adopt --without-parked in_0`") {
			t.Errorf("adopt --from-rounds returned %v", err)
		}
	})
}

// TestEndOfParkChangelogIsAwaitedOnce: an end of a log that might still come is waited for once by
// one action, however often the changelog is asked. Requirement G6.
func TestEndOfParkChangelogIsAwaitedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const forEver = 1 << 30
		s, _ := parkedShop(t)
		s.unsayParked()
		left := s.shortens(parkedChangelog, forEver)
		report, err := s.office(t).Application(s.without()).Adopt(t.Context(), admin.Options{Tasks: []string{"in_0"}, WithoutParked: true})
		if err != nil || !slices.Equal(report.Tasks[0].GivenUp, []admin.GivenUpReport{{Store: "in.parked", Records: -1}}) {
			t.Fatalf("giving up returned %+v, %v", report, err)
		}
		// Two looks and two plans, and the two further readings of the first look.
		if asked := forEver - left.Load(); asked != 6 {
			t.Errorf("the end was asked for %d times, want 6", asked)
		}
	})
}

// TestNothingEverParked: a changelog in which nothing ever was, as the last commit has it, need not
// be there, nor be seen, by a topology that has no place for parked records any more. Requirement
// G6.
func TestNothingEverParked(t *testing.T) {
	for name, happens := range map[string]func(*testing.T, *shop){
		"no topic": func(t *testing.T, s *shop) {
			if _, err := s.adm.DeleteTopics(t.Context(), parkedChangelog); err != nil {
				t.Fatal(err)
			}
		},
		"hidden": func(t *testing.T, s *shop) { s.hides(t, 1<<30) },
	} {
		bubble(t, name, func(t *testing.T) {
			policy := topology.Policy{Action: topology.Park, Backoff: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond}
			s, dir := newShop(t, policy), t.TempDir()
			ran := s.topology(topology.ParkKeys())
			for i, top := range []*topology.Topology{ran, s.without()} {
				if i > 0 {
					happens(t, s)
				}
				_, stop := start(t, top, s.config(dir))
				s.send("good", 1)
				s.read(t, "out", i+1)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
