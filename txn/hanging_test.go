//go:build onceward_failpoints

package txn_test

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/proxy"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// loses has the broker lose the markers of the next commit of the application once lose is called,
// but for those of the topics that are written.
func (b *testBroker) loses(t *testing.T, written ...string) (lost func() bool, lose func()) {
	t.Helper()
	var armed, done atomic.Bool
	b.kafka.LoseMarkers(t, func(end virtual.End) virtual.Loss {
		if !end.Commit || !strings.HasPrefix(end.TransactionalID, "counting~") || !armed.CompareAndSwap(true, false) {
			return nil
		}
		done.Store(true)
		return func(topic string, _ int32) bool {
			for _, w := range written {
				if topic == w {
					return true
				}
			}
			return false
		}
	})
	return done.Load, func() { armed.Store(true) }
}

// hangingCommit returns a broker with a transaction whose commit was answered and whose markers are
// lost, except in the topics written, and the configuration of the instance that has committed it.
// That instance is stopped, and has committed so many records before.
func hangingCommit(t *testing.T, before int, repairs bool, written ...string) (*testBroker, txn.Config) {
	t.Helper()
	b := newBroker(t, 1, "in", "out")
	lost, lose := b.loses(t, written...)
	cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Instance: "one", RepairTransactions: repairs})
	_, stop := start(t, countTopology(t), cfg)
	for range before {
		b.one(t)
	}
	b.read(t, "out", before)
	lose()
	b.one(t)
	waitFor(t, "the loss", lost)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return b, cfg
}

// one sends a record to in[0].
func (b *testBroker) one(t *testing.T) {
	t.Helper()
	b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte("v")})
}

// TestHangingTransaction: the markers of a commit are lost (rule 13.7). The next incarnation finds
// the hanging transaction, says so in log, status and metrics, and does not produce under its id.
// If it may, it repairs the transaction that evidence decides: then the record appears, and
// everything after it is exact. A transaction that evidence does not decide stays as it is: the
// task waits for its offset.
func TestHangingTransaction(t *testing.T) {
	tests := []struct {
		name        string
		written     []string // topics whose markers are written
		withoutLook bool     // an incarnation initialises the ids, which removes what the coordinator said, and ends
		forgets     bool     // what the coordinator said to it is removed from the state directory
		repairs     bool     // Config.RepairTransactions
		verdict     string   // as the status says it, if the transaction still hangs then
	}{
		{name: "found", verdict: "commit"},
		{name: "the coordinator said that it was committed", repairs: true, verdict: "repaired"},
		{name: "the coordinator said so to a process that ended before it repaired", withoutLook: true, repairs: true, verdict: "repaired"},
		{name: "another partition has a commit marker", written: []string{"out"}, withoutLook: true, forgets: true, repairs: true, verdict: "repaired"},
		{name: "unknown", withoutLook: true, forgets: true, repairs: true, verdict: "unknown"},
	}
	for _, tc := range tests {
		bubble(t, tc.name, func(t *testing.T) {
			b, cfg := hangingCommit(t, 5, tc.repairs, tc.written...)
			if tc.withoutLook {
				app, stop := start(t, countTopology(t), cfg.WithFailpoints(nil, "look"))
				waitFor(t, "a member", func() bool { return len(app.Status().Tasks) == 1 })
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}
			if tc.forgets {
				forgetEnds(t, cfg)
			}
			reports := newLogged(t, "a transaction of the application hangs: nothing ends it, and readers of its partitions wait for it", "partitions")
			cfg.Logger = slog.New(reports)
			app, stop := start(t, countTopology(t), cfg)
			if tc.verdict == "repaired" {
				b.one(t)
				check(t, b.read(t, "out", 7), 7)
				waitFor(t, "what was repaired to be told no more", func() bool { return len(app.Status().Hanging) == 0 })
				if all := reports.all(); len(all) != 1 {
					t.Errorf("the reports are %q, want one", all)
				}
				if got := scrape(t, app).sum("onceward_transactions_repaired_total"); got < 2 {
					t.Errorf("%g partitions were repaired, want those of the output and of the offsets at least", got)
				}
				// The next start initialises the ids of the lives before, and the one after that
				// only those that it uses.
				var inits sync.Map
				b.ControlKey(int16(kmsg.InitProducerID), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
					b.KeepControl()
					if id := kreq.(*kmsg.InitProducerIDRequest).TransactionalID; id != nil {
						inits.Store(*id, true)
					}
					return nil, nil, false
				})
				for _, want := range []bool{!tc.forgets, false} {
					if err := stop(); err != nil {
						t.Fatal(err)
					}
					inits.Clear()
					app, stop = start(t, countTopology(t), cfg)
					waitFor(t, "the task to run", running(app, 1))
					if _, initialised := inits.Load("counting~one~1~0"); initialised != want {
						t.Errorf("the id of a second worker is initialised: %t, want %t", initialised, want)
					}
				}
				return
			}
			waitFor(t, "the finding", func() bool { return len(app.Status().Hanging) == 1 })
			time.Sleep(2 * time.Minute)
			got := app.Status().Hanging[0]
			if got.Verdict != tc.verdict || strings.Join(got.Partitions, " ") == "" {
				t.Errorf("the status has %+v, want the verdict %q", got, tc.verdict)
			}
			if all := reports.all(); len(all) != 1 || !strings.Contains(all[0], "out[0]") {
				t.Errorf("the reports are %q, want one of out[0]", all)
			}
			scrape(t, app).expect(t, series{"onceward_transactions_hanging": 1, "onceward_transactions_repaired_total": 0})
			if w, is := waitOf(app); !is || !w.Hanging || running(app, 1)() {
				t.Errorf("the task waits for %+v (%t), want its offset, which a transaction holds that hangs", w, is)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			used := b.transactionalIDs(t)
			if !tc.forgets && !used["counting~one~1~0"] {
				t.Errorf("the transactional ids are %v, want others beside the one whose transaction hangs", used)
			}
		})
	}
}

// forgetEnds removes what coordinators said of the last transactions from the state directory.
func forgetEnds(t *testing.T, cfg txn.Config) {
	t.Helper()
	if err := os.Remove(filepath.Join(cfg.StateDir, "transactions.json")); err != nil {
		t.Fatal(err)
	}
}

// transactionalIDs returns all that coordinators know.
func (b *testBroker) transactionalIDs(t *testing.T) map[string]bool {
	t.Helper()
	listed, err := b.adm.ListTransactions(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for id := range listed {
		ids[id] = true
	}
	return ids
}

// TestHangingBesideUnanswered: while a partition does not answer, what others hold open is found,
// and its id is not used; the status says what was not looked at. Nothing is repaired before all
// have answered, and then it is.
func TestHangingBesideUnanswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, cfg := hangingCommit(t, 1, true)
		away := b.kafka.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "counting-counts-changelog", Err: kerr.NotLeaderForPartition, Count: -1,
		})
		app, _ := start(t, countTopology(t), cfg)
		waitFor(t, "the finding", func() bool { return len(app.Status().Hanging) == 1 })
		waitFor(t, "a member", func() bool { return len(app.Status().Tasks) == 1 })
		time.Sleep(time.Minute)
		s := app.Status()
		if !strings.Contains(s.NotLookedAt, "counting-counts-changelog") || len(s.Hanging) != 1 || s.Hanging[0].Verdict != "commit" {
			t.Errorf("the status has %+v, not looked at: %q", s.Hanging, s.NotLookedAt)
		}
		if used := b.transactionalIDs(t); !used["counting~one~1~0"] {
			t.Errorf("the transactional ids are %v, want others beside the one whose transaction hangs", used)
		}
		if got := scrape(t, app).sum("onceward_transactions_repaired_total"); got != 0 {
			t.Errorf("%g partitions were repaired without a complete view", got)
		}
		away.Remove()
		b.one(t)
		check(t, b.read(t, "out", 3), 3)
		if s := app.Status(); s.NotLookedAt != "" {
			t.Errorf("after all have answered %q is not looked at", s.NotLookedAt)
		}
	})
}

// TestNoRepairWithoutRead: a topic that may not be read can hold the transaction open as well:
// nothing is written, in particular no offset before the results that belong to it.
func TestNoRepairWithoutRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, cfg := hangingCommit(t, 1, true)
		denied := b.kafka.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.TopicAuthorizationFailed, Count: -1,
		})
		app, _ := start(t, countTopology(t), cfg)
		waitFor(t, "the finding", func() bool { return len(app.Status().Hanging) == 1 })
		time.Sleep(10 * time.Minute)
		if s := app.Status(); !strings.Contains(s.NotLookedAt, `Read on Topic "out"`) || len(s.Hanging) != 1 {
			t.Errorf("the status has %+v, not looked at: %q", s.Hanging, s.NotLookedAt)
		}
		if got := scrape(t, app).sum("onceward_transactions_repaired_total"); got != 0 {
			t.Errorf("%g partitions were repaired although the output may not be read", got)
		}
		denied.Remove()
		b.one(t)
		check(t, b.read(t, "out", 3), 3)
	})
}

// TestNoRepairWhileATopicIsNotNamed: a broker that has just started may not have heard of a topic.
// Nothing is written then, because the topic can hold the transaction open too.
func TestNoRepairWhileATopicIsNotNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, cfg := hangingCommit(t, 1, true)
		var unnamed atomic.Bool
		var started sync.Once
		b.ControlKey(int16(kmsg.DescribeTransactions), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			started.Do(func() { unnamed.Store(true) }) // the topics were verified before
			return nil, nil, false
		})
		b.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if req := kreq.(*kmsg.MetadataRequest); req.IncludeTopicAuthorizedOperations && unnamed.Load() {
				req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return *t.Topic == "out" })
			}
			return nil, nil, false
		})
		app, _ := start(t, countTopology(t), cfg)
		waitFor(t, "the finding", func() bool { return len(app.Status().Hanging) == 1 })
		time.Sleep(7 * time.Second)
		if s := app.Status(); !strings.Contains(s.NotLookedAt, "not in the cluster's answer: out") || len(s.Hanging) != 1 {
			t.Errorf("the status has %+v, not looked at: %q", s.Hanging, s.NotLookedAt)
		}
		if got := scrape(t, app).sum("onceward_transactions_repaired_total"); got != 0 {
			t.Errorf("%g partitions were repaired although the output was not looked at", got)
		}
		unnamed.Store(false)
		b.one(t)
		check(t, b.read(t, "out", 3), 3)
	})
}

// TestSettleBesideADeletedOutput: a round that does not write to a deleted topic is settled,
// although the producer has written there before.
func TestSettleBesideADeletedOutput(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out", "other")
		build := topology.NewBuilder("counting")
		values := func(topic string) topology.TopicOf[string, string] {
			return topology.Topic(topic, schemas.String(), schemas.String())
		}
		in := topology.From(build, values("in"))
		for _, to := range []string{"out", "other"} {
			in.Filter("for-"+to, func(r topology.Record[string, string]) (bool, error) { return r.Value == to, nil }).Into(values(to))
		}
		top, err := build.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, stop := start(t, top, b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Instance: "one"}))
		feed := func(to string) { b.produce(t, &kgo.Record{Topic: "in", Key: []byte("k"), Value: []byte(to)}) }
		for range 2 { // each of the worker's producers writes to both
			feed("out")
			feed("other")
		}
		b.read(t, "out", 2)
		b.read(t, "other", 2)
		if _, err := b.adm.DeleteTopics(t.Context(), "out"); err != nil {
			t.Fatal(err)
		}
		cut := b.network.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToClient}, proxy.Cut())
		feed("other")
		waitFor(t, "the doubt", func() bool { return scrape(t, app).sum("onceward_rounds_in_doubt_total") > 0 })
		cut.Lift()
		feed("other")
		b.read(t, "other", 4)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestHangingUnderAnIDInUse: a commit is answered, and its markers are lost. The producer sees no
// error. A failed round of the worker's other producer has everything looked at: the membership
// ends before the first one writes again, and the next one has other ids.
func TestHangingUnderAnIDInUse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		lost, lose := b.loses(t)
		ended := newLogged(t, "the membership ended and is begun again", "error")
		app, _ := start(t, countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, Instance: "one", Logger: slog.New(ended),
		}))
		for range 4 {
			b.one(t)
		}
		b.read(t, "out", 4)
		lose()
		b.one(t)
		waitFor(t, "the loss", lost)
		waitFor(t, "the answer", func() bool { return app.Status().Totals.Records == 5 })
		cut := b.network.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToClient}, proxy.Cut())
		b.one(t)
		waitFor(t, "the doubt", func() bool { return scrape(t, app).sum("onceward_rounds_in_doubt_total") > 0 })
		cut.Lift()
		waitFor(t, "other ids", func() bool { return b.transactionalIDs(t)["counting~one~1~0"] })
		waitFor(t, "a member", func() bool { return len(app.Status().Tasks) == 1 })
		if all := ended.all(); len(all) != 1 || !strings.Contains(all[0], "must not produce on") {
			t.Errorf("memberships ended because of %q, want one, for the id whose transaction hangs", all)
		}
	})
}

// TestMarkerLostBeforeTheNextRound: what remains of hanging transactions (docs/limits.md). A commit
// is answered, its marker in an output is lost, the producer sees no error, and nothing looks
// before it writes there again. If its next round commits, nothing is missing. If that is aborted,
// the records of the round before are aborted with it, although they are committed.
func TestMarkerLostBeforeTheNextRound(t *testing.T) {
	for name, c := range map[string]struct {
		aborts bool
		want   string
	}{"it commits": {false, "1 2 3 4 5 6 7"}, "it is aborted": {true, "1 2 3 4 6 7"}} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 1, "in", "out")
			var armed, done, refusing atomic.Bool
			b.kafka.LoseMarkers(t, func(end virtual.End) virtual.Loss {
				if !end.Commit || !strings.HasPrefix(end.TransactionalID, "counting~") || !armed.CompareAndSwap(true, false) {
					return nil
				}
				done.Store(true)
				return func(topic string, _ int32) bool { return topic != "out" }
			}).ShareFate()
			b.ControlKey(keyTxnOffsetCommit, func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				if !refusing.CompareAndSwap(true, false) {
					return nil, nil, false
				}
				return refuse(req, kerr.IllegalGeneration.Code), nil, true
			})
			app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Instance: "one"}))
			sent := int64(0)
			round := func() { // of the worker's two producers in turn
				t.Helper()
				b.one(t)
				sent++
				waitFor(t, "the round", func() bool { return app.Status().Totals.Records == sent })
			}
			for range 4 {
				round()
			}
			armed.Store(true)
			round()
			if !done.Load() {
				t.Fatal("no marker is lost: the test tests nothing")
			}
			round() // of the other producer
			refusing.Store(c.aborts)
			round()
			if refusing.Load() {
				t.Fatal("no round is aborted")
			}
			var values []string
			for _, r := range b.read(t, "out", len(strings.Fields(c.want))) {
				values = append(values, fmt.Sprint(binary.BigEndian.Uint64(r.Value)))
			}
			if got := strings.Join(values, " "); got != c.want {
				t.Errorf("readers see %s, want %s", got, c.want)
			}
		})
	}
}

// TestHangingStaysFoundWithoutRead: what hangs in a topic does not look ended when the permission
// to read that topic is taken away.
func TestHangingStaysFoundWithoutRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, cfg := hangingCommit(t, 1, false)
		app, _ := start(t, countTopology(t), cfg)
		waitFor(t, "the finding", func() bool { return len(app.Status().Hanging) == 1 })
		denied := b.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		time.Sleep(2 * time.Minute)
		if s := app.Status(); len(s.Hanging) != 1 || !strings.Contains(s.NotLookedAt, `Read on Topic "out"`) {
			t.Errorf("the status has %+v, not looked at: %q", s.Hanging, s.NotLookedAt)
		}
		denied.Remove()
		time.Sleep(time.Minute)
		if s := app.Status(); len(s.Hanging) != 1 || s.NotLookedAt != "" {
			t.Errorf("the status has %+v, not looked at: %q", s.Hanging, s.NotLookedAt)
		}
	})
}

// TestEvidenceIsReadRarely: what hangs undecided is looked at every half a minute, but the logs are
// not read again each time.
func TestEvidenceIsReadRarely(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b, cfg := hangingCommit(t, 1, true)
		app, stop := start(t, countTopology(t), cfg.WithFailpoints(nil, "look")) // takes away what the coordinator said
		waitFor(t, "a member", func() bool { return len(app.Status().Tasks) == 1 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		forgetEnds(t, cfg)
		var looks, reads atomic.Int64
		count := func(key kmsg.Key, n *atomic.Int64) {
			b.ControlKey(int16(key), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				if req, is := kreq.(*kmsg.ListOffsetsRequest); !is || req.Topics[0].Partitions[0].Timestamp > 0 {
					n.Add(1)
				}
				return nil, nil, false
			})
		}
		count(kmsg.DescribeProducers, &looks)
		count(kmsg.ListOffsets, &reads)
		app, _ = start(t, countTopology(t), cfg)
		waitFor(t, "the evidence", func() bool { h := app.Status().Hanging; return len(h) == 1 && h[0].Verdict == "unknown" })
		time.Sleep(12 * time.Minute)
		if looks.Load() < 2*20 || reads.Load() > 8 || reads.Load() < 3 {
			t.Errorf("in twelve minutes partitions were asked %d times, and logs searched by time %d times", looks.Load(), reads.Load())
		}
	})
}

// TestHangingAfterSettle: a commit is not answered, and its markers are lost. The producer is not
// used again, although its round is in doubt: a new session begins, which repairs the transaction
// by what its coordinator said before the producer was initialised.
func TestHangingAfterSettle(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		lost, lose := b.loses(t)
		ended := newLogged(t, "the membership ended and is begun again", "error")
		app, _ := start(t, countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, Instance: "one", RepairTransactions: true, Logger: slog.New(ended),
		}))
		for range 5 {
			b.one(t)
		}
		b.read(t, "out", 5)
		cut := b.network.Add(proxy.Match{Key: proxy.KeyEndTxn, Direction: proxy.ToClient}, proxy.Cut())
		lose()
		b.one(t)
		waitFor(t, "the loss", lost)
		waitFor(t, "the doubt", func() bool { return scrape(t, app).sum("onceward_rounds_in_doubt_total") > 0 })
		cut.Lift()
		b.one(t)
		check(t, b.read(t, "out", 7), 7)
		if all := ended.all(); len(all) != 1 || !strings.Contains(all[0], "a transaction hangs") {
			t.Errorf("sessions ended because of %q, want one, for the transaction that hangs", all)
		}
		waitFor(t, "what was repaired to be told no more", func() bool { return len(app.Status().Hanging) == 0 })
	})
}
