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
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/internal/task"
)

// parkedShop is a shop that does not run, in which three records of a key wait, with the directory
// of its instance.
func parkedShop(t *testing.T) (s *shop, dir string) {
	t.Helper()
	s = newShop(t, topology.Policy{Action: topology.Park, Backoff: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond})
	s.broken.Store("bad", true)
	dir = t.TempDir()
	_, stop := start(t, s.topology(topology.ParkKeys()), s.config(dir))
	s.send("bad", 3)
	s.send("good", 10)
	check(t, s.read(t, "out", 10), 10)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// without returns the topology of the shop without a place for parked records.
func (s *shop) without() *topology.Topology {
	s.t.Helper()
	parks := s.policy
	defer func() { s.policy = parks }()
	s.policy = topology.Policy{Action: topology.DeadLetter}
	return s.topology()
}

// commit sets the offsets of partition 0, as change makes them of what they are.
func (s *shop) commit(change func(o *kadm.OffsetResponse)) {
	s.t.Helper()
	offsets := kadm.Offsets{}
	for _, o := range s.offsetsOf(s.t, "in").Sorted() {
		if o.Partition == 0 {
			change(&o)
			offsets.Add(o.Offset)
		}
	}
	if err := s.adm.CommitAllOffsets(s.t.Context(), "counting", offsets); err != nil {
		s.t.Fatal(err)
	}
}

// loseCommit takes away all that says what the state of partition 0 is: the metadata of its commit,
// and what the clean stop has kept.
func (s *shop) loseCommit() {
	s.t.Helper()
	s.commit(func(o *kadm.OffsetResponse) { o.Metadata = "of another program" })
	s.produce(s.t, &kgo.Record{Topic: "counting-rounds", Key: task.PositionsKey("in_0")})
}

// TestOperatorsKeepParkedRecords: no recovery action takes a state for a topology that has no
// place for the records that wait in the state. With such a topology the commits would not name the
// records any more, and after the option came back their store would be unknown. The action is
// refused, and with the option the records are still there. Requirement G6.
func TestOperatorsKeepParkedRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, dir := parkedShop(t)
		gone := s.office(t).Application(s.without())
		refused := func(name string, act func(context.Context, admin.Options) (admin.Report, error)) {
			t.Helper()
			_, err := act(t.Context(), admin.Options{})
			if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "3 records wait in store in.parked") ||
				!strings.Contains(err.Error(), "ParkKeys") {
				t.Errorf("%s returned %v, want a refusal that says what waits", name, err)
			}
		}
		refused("adopt", gone.Adopt)
		refused("accept-skip", gone.AcceptSkip)
		refused("reset", func(ctx context.Context, o admin.Options) (admin.Report, error) {
			return gone.Reset(ctx, o, admin.Offsets{"in": admin.End})
		})
		if err := deleteGroup(t, s.testBroker); err != nil {
			t.Fatal(err)
		}
		refused("adopt --from-rounds", gone.AdoptFromRounds)
		if _, err := s.office(t).Application(s.topology(topology.ParkKeys())).AdoptFromRounds(t.Context(), admin.Options{}); err != nil {
			t.Fatal(err)
		}
		s.broken.Delete("bad")
		_, stop := start(t, s.topology(topology.ParkKeys()), s.config(dir))
		if got := consecutive(t, s.read(t, "out", 13)); got["good"] != 10 || got["bad"] != 3 {
			t.Errorf("counted %v", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// deleteGroup takes the offsets away, as their expiry does.
func deleteGroup(t *testing.T, b *testBroker) error {
	t.Helper()
	response, err := b.adm.DeleteGroup(t.Context(), "counting")
	return errors.Join(err, response.Err)
}

// TestAdoptCountsParkedRecords: what adopt commits says what waits in the changelog, also where no
// commit did, so that the store is missed if the topology loses it afterwards. Requirement G6.
func TestAdoptCountsParkedRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, dir := parkedShop(t)
		s.loseCommit()
		live := admin.Options{Mode: new(topology.Live)}
		if _, err := s.office(t).Application(s.topology(topology.ParkKeys())).Adopt(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		s.commit(func(o *kadm.OffsetResponse) {
			committed, err := task.ParseCommitMetadata(o.Metadata)
			if err != nil || len(committed.Parked) != 1 || committed.Parked[0] != (task.CommittedParked{Store: "in.parked", Records: 3}) {
				t.Errorf("the commit says %+v, %v", committed.Parked, err)
			}
		})
		s.broken.Delete("bad")
		_, stop := start(t, s.topology(topology.ParkKeys()), s.config(dir))
		if got := consecutive(t, s.read(t, "out", 13)); got["good"] != 10 || got["bad"] != 3 {
			t.Errorf("counted %v", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAdoptFindsParkedRecords: no commit is known, and the topology has no place for the records
// that wait. Their changelog names them: the state is not adopted without them, and the plan
// refuses the topology. No text tells the operator to delete the topic, because records of other
// tasks can wait in it too. If the topic does not exist, as with most applications, no record
// waits. Requirement G6.
func TestAdoptFindsParkedRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, dir := parkedShop(t)
		s.loseCommit()
		ran, gone := s.topology(topology.ParkKeys()).Description(), s.office(t).Application(s.without())
		_, err := gone.Adopt(t.Context(), admin.Options{})
		for _, text := range []string{
			"3 records wait in store in.parked", "ParkKeys", "rebuild from-input in_0", "--without-parked", "if they were processed since",
		} {
			if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "delete") {
				t.Errorf("adopt returned %v, want a refusal with %q", err, text)
			}
		}
		plan, err := gone.Plan(t.Context(), &ran)
		if err != nil || !slices.ContainsFunc(plan.Findings, func(f admin.Finding) bool {
			return f.Judgement == admin.Refused && f.Subject == graph.SubjectStore && f.Name == "in.parked" && strings.Contains(f.What, "3 parked")
		}) {
			t.Errorf("the plan is %+v, %v, want that it refuses the store", plan, err)
		}
		if _, err := s.adm.DeleteTopics(t.Context(), parkedChangelog); err != nil {
			t.Fatal(err)
		}
		if _, err := gone.Adopt(t.Context(), admin.Options{Mode: new(topology.Live)}); err != nil {
			t.Fatal(err)
		}
		_, stop := start(t, s.without(), s.config(dir))
		s.send("good", 1)
		if got := consecutive(t, s.read(t, "out", 11)); got["good"] != 11 {
			t.Errorf("counted %v", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// parkedChangelog is the changelog of the records that wait.
const parkedChangelog = "counting-in.parked-changelog"

// remake recreates the changelog of the parked records, without them.
func (s *shop) remake() {
	s.t.Helper()
	compacted := map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}
	_, err := s.adm.DeleteTopics(s.t.Context(), parkedChangelog)
	if err == nil {
		_, err = s.adm.CreateTopic(s.t.Context(), 2, 1, compacted, parkedChangelog)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestOperatorGivesUpParkedRecords: an operator can give up records that no recovery action keeps
// by itself, because the topology has no place for them or their changelog has lost them. The
// report says how many these are, the state stays, and the task continues. Requirement G6.
func TestOperatorGivesUpParkedRecords(t *testing.T) {
	nothing := func(*testing.T, *shop) {}
	remade := func(_ *testing.T, s *shop) { s.remake() }
	for name, test := range map[string]struct {
		happens func(*testing.T, *shop)
		parks   bool // the topology has a place for parked records
		act     func(*admin.Application, context.Context, admin.Options) (admin.Report, error)
	}{
		"no place, adopt":       {nothing, false, (*admin.Application).Adopt},
		"no place, accept-skip": {nothing, false, (*admin.Application).AcceptSkip},
		"no place, adopt --from-rounds": {
			func(t *testing.T, s *shop) {
				if err := deleteGroup(t, s.testBroker); err != nil {
					t.Fatal(err)
				}
			}, false, (*admin.Application).AdoptFromRounds,
		},
		"no place and no commit, adopt": {func(_ *testing.T, s *shop) { s.loseCommit() }, false, (*admin.Application).Adopt},
		"another topic, adopt":          {remade, true, (*admin.Application).Adopt},
		"lost, reset": {
			func(t *testing.T, s *shop) {
				ends, err := s.adm.ListEndOffsets(t.Context(), parkedChangelog)
				if err != nil {
					t.Fatal(err)
				}
				end, _ := ends.Lookup(parkedChangelog, 0)
				if err := s.DeleteRecords(parkedChangelog, 0, end.Offset); err != nil {
					t.Fatal(err)
				}
				s.send("good", 1) // which is skipped
			}, true,
			func(a *admin.Application, ctx context.Context, o admin.Options) (admin.Report, error) {
				return a.Reset(ctx, o, admin.Offsets{"in": admin.End})
			},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s, dir := parkedShop(t)
			test.happens(t, s)
			top := s.without()
			if test.parks {
				top = s.topology(topology.ParkKeys())
			}
			office := s.office(t).Application(top)
			if _, err := test.act(office, t.Context(), admin.Options{}); !errors.Is(err, admin.ErrRefused) ||
				!strings.Contains(err.Error(), "3 records wait in store in.parked") || !strings.Contains(err.Error(), "--without-parked") {
				t.Errorf("without the option it returned %v, want a refusal that names it", err)
			}
			report, err := test.act(office, t.Context(), admin.Options{WithoutParked: true, Mode: new(topology.Live)})
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Tasks[0]; got.Task != "in_0" || !slices.Equal(got.GivenUp, []admin.GivenUpReport{{Store: "in.parked", Records: 3}}) {
				t.Errorf("the report says %+v", got)
			}
			s.commit(func(o *kadm.OffsetResponse) {
				if committed, err := task.ParseCommitMetadata(o.Metadata); err != nil || len(committed.Parked) > 0 {
					t.Errorf("the commit says that %v wait, %v", committed.Parked, err)
				}
			})
			_, stop := start(t, top, s.config(dir))
			s.send("good", 1)
			if got := consecutive(t, s.read(t, "out", 11)); got["good"] != 11 {
				t.Errorf("counted %v", got)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// stopsWithout runs the shop without a place for parked records, until the task in which they wait
// is stopped for a reason with these words.
func (s *shop) stopsWithout(dir string, words ...string) {
	s.t.Helper()
	s.stopsAs(s.without(), dir, words...)
}

// stopsAs is stopsWithout with another topology.
func (s *shop) stopsAs(top *topology.Topology, dir string, words ...string) {
	s.t.Helper()
	app, stop := start(s.t, top, s.config(dir))
	reason := ""
	waitFor(s.t, "a task that is not opened", func() bool {
		for _, task := range app.Status().Tasks {
			if task.State == txn.TaskStopped && task.ID.Partition == 0 {
				reason = task.Reason
			}
		}
		return reason != ""
	})
	for _, word := range words {
		if !strings.Contains(reason, word) {
			s.t.Errorf("the task is stopped because %s, want %q", reason, word)
		}
	}
	if err := stop(); err == nil {
		s.t.Error("the end says nothing of the task that was not opened")
	}
}

// shortens makes the next answers to the question where a topic ends those of a leader that does
// not know it yet.
func (b *testBroker) shortens(topic string, answers int64) *atomic.Int64 {
	left := &atomic.Int64{}
	left.Store(answers)
	b.ControlKey(keyListOffsets, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		if left.Load() == 0 || len(req.Topics) != 1 || req.Topics[0].Topic != topic || req.Topics[0].Partitions[0].Timestamp != latest {
			return nil, nil, false
		}
		left.Add(-1)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		answer := kmsg.NewListOffsetsResponseTopic()
		answer.Topic = topic
		for _, asked := range req.Topics[0].Partitions {
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.Offset = asked.Partition, 0
			answer.Partitions = append(answer.Partitions, p)
		}
		resp.Topics = append(resp.Topics, answer)
		return resp, nil, true
	})
	return left
}

// TestParkChangelogNotSeenIsNotEmpty: the last commit names a changelog and does not say whether
// records wait in it. A broker that does not know the topic, or not its end, does not prove that no
// record waits: the task would continue without the records for good. When the brokers know the
// topic, everything is still there. Requirement G6.
func TestParkChangelogNotSeenIsNotEmpty(t *testing.T) {
	const forEver = 1 << 30
	unknown := func(t *testing.T, s *shop, answers int64) *atomic.Int64 {
		a := s.absence(t, parkedChangelog)
		a.answer.Store(answers)
		return &a.answer
	}
	short := func(_ *testing.T, s *shop, answers int64) *atomic.Int64 { return s.shortens(parkedChangelog, answers) }
	hidden := func(t *testing.T, s *shop, answers int64) *atomic.Int64 { return s.hides(t, answers) }
	for name, test := range map[string]struct {
		hides   func(t *testing.T, s *shop, answers int64) *atomic.Int64
		answers int64
		reason  string
	}{
		"no topic for a moment": {unknown, 2, "3 records wait in store in.parked"},
		"no topic":              {unknown, forEver, "which is not there: the records that wait"},
		"short for a moment":    {short, 1, "3 records wait in store in.parked"},
		"short":                 {short, forEver, "ends at 0"},
		"hidden":                {hidden, forEver, "allow the application to read that topic"},
	} {
		bubble(t, name, func(t *testing.T) {
			s, dir := parkedShop(t)
			s.unsayParked()
			left := test.hides(t, s, test.answers)
			s.stopsWithout(dir, test.reason, "`onceward adopt --without-parked in_0`")
			left.Store(0)
			s.broken.Delete("bad")
			_, stop := start(t, s.topology(topology.ParkKeys()), s.config(dir))
			if got := consecutive(t, s.read(t, "out", 13)); got["good"] != 10 || got["bad"] != 3 {
				t.Errorf("counted %v", got)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestDeletedParkChangelogStopsTheTask: who deletes the changelog has not said that nothing waits,
// whether the last commit says it or leaves it to the changelog. The task is not opened, and the
// plan and adopt refuse, until an operator gives up what waited. Requirement G6.
func TestDeletedParkChangelogStopsTheTask(t *testing.T) {
	for name, records := range map[string]int64{"said": 3, "not said": -1} {
		bubble(t, name, func(t *testing.T) {
			s, dir := parkedShop(t)
			if records < 0 {
				s.unsayParked()
			}
			if _, err := s.adm.DeleteTopics(t.Context(), parkedChangelog); err != nil {
				t.Fatal(err)
			}
			s.stopsWithout(dir, "in.parked", "`onceward adopt --without-parked in_0`")
			ran, gone := s.topology(topology.ParkKeys()).Description(), s.office(t).Application(s.without())
			plan, err := gone.Plan(t.Context(), &ran)
			if err != nil || !slices.ContainsFunc(plan.Findings, func(f admin.Finding) bool {
				return f.Judgement == admin.Refused && f.Subject == graph.SubjectStore && f.Name == "in.parked"
			}) {
				t.Errorf("the plan is %+v, %v, want that it refuses the store", plan, err)
			}
			if _, err := gone.Adopt(t.Context(), admin.Options{}); !errors.Is(err, admin.ErrRefused) ||
				!strings.Contains(err.Error(), "in.parked") || !strings.Contains(err.Error(), "--without-parked") {
				t.Errorf("adopt returned %v, want a refusal that says how what waits is given up", err)
			}
			report, err := gone.Adopt(t.Context(), admin.Options{WithoutParked: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := report.Tasks[0].GivenUp; !slices.Equal(got, []admin.GivenUpReport{{Store: "in.parked", Records: records}}) {
				t.Errorf("the report says that %v are given up, want %d", got, records)
			}
			_, stop := start(t, s.without(), s.config(dir))
			s.send("good", 1)
			if got := consecutive(t, s.read(t, "out", 11)); got["good"] != 11 {
				t.Errorf("counted %v", got)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAdoptRefusesLostParkedRecords: a state is not adopted if its changelog has lost the parked
// records, because they would never be processed. When they are read again with their input, they
// are processed. Requirement G6.
func TestAdoptRefusesLostParkedRecords(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, dir := parkedShop(t)
		s.remake()
		op := s.office(t).Application(s.topology(topology.ParkKeys()))
		_, err := op.Adopt(t.Context(), admin.Options{})
		if !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "3 records wait in store in.parked") ||
			!strings.Contains(err.Error(), "holds 0 of them") || !strings.Contains(err.Error(), "rebuild from-input in_0") {
			t.Errorf("adopt returned %v, want a refusal that says what is lost", err)
		}
		if _, err := op.RebuildFromInput(t.Context(), admin.Options{}, nil); err != nil {
			t.Fatal(err)
		}
		s.broken.Delete("bad")
		_, stop := start(t, s.topology(topology.ParkKeys()), s.config(dir))
		of := map[string]int{}
		for _, r := range s.read(t, "out", 23) {
			of[string(r.Key)]++
		}
		if of["bad"] != 3 || of["good"] != 20 {
			t.Errorf("the outputs are %v, want the good ones twice, and the bad ones", of)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
