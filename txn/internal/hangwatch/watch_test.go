package hangwatch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
	"github.com/onceward/onceward/txn/internal/metrics"
	"github.com/onceward/onceward/txn/internal/waits"
	"github.com/onceward/onceward/txn/internal/worker"
)

// own is a transactional id of the application.
const own = "app~i~0~0"

// scene is a cluster whose brokers can lose markers, and a watch of an application on it.
type scene struct {
	t       *testing.T
	kafka   *virtual.Kafka
	config  broker.Config
	cluster *broker.Cluster
	watch   *Watch
	topics  *topology.Topology
	lose    func(virtual.End) virtual.Loss // nil: nothing is lost
	log     logText
}

type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *logText) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *logText) count(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.text.String(), text)
}

func bubble(t *testing.T, repairs bool, f func(t *testing.T, s *scene)) {
	virtual.Test(t, func(t *testing.T) {
		network := virtual.NewNetwork(t, 1)
		s := &scene{t: t, kafka: virtual.NewKafka(t, network, 2, kfake.SeedTopics(1, "in", "out", "app-rounds"))}
		s.config = broker.Config{Brokers: s.kafka.Brokers(), Dialer: network.Host("app").Dial, Logger: slog.New(slog.DiscardHandler)}
		var err error
		if s.cluster, err = broker.Connect(t.Context(), s.config, "app"); err != nil {
			t.Fatal(err)
		}
		defer s.cluster.Close()
		s.kafka.LoseMarkers(t, func(e virtual.End) virtual.Loss {
			if s.lose == nil {
				return nil
			}
			return s.lose(e)
		})
		b := topology.NewBuilder("app")
		topology.From(b, topology.Topic("in", schemas.Bytes(), schemas.Bytes())).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		s.topics = top
		s.watch = New(s.settings(repairs))
		f(t, s)
		if t.Failed() {
			t.Log(s.log.text.String())
		}
	})
}

// settings are those of a watch that keeps nothing on disk.
func (s *scene) settings(repairs bool) Config {
	return Config{
		Cluster: s.cluster, Topology: s.topics, Repairs: repairs, Logger: slog.New(slog.NewTextHandler(&s.log, nil)),
		Metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} }),
	}
}

// none loses every marker.
func none(virtual.End) virtual.Loss { return func(string, int32) bool { return false } }

// producer returns a producer of the application with a transaction that has written to the output.
func (s *scene) producer() *broker.Producer {
	s.t.Helper()
	p := broker.NewProducer(s.config, own, time.Minute)
	if err := p.Settle(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Close)
	s.write(p)
	return p
}

// write begins a transaction and writes to the output.
func (s *scene) write(p *broker.Producer) {
	s.t.Helper()
	began, err := p.Begin()
	if err != nil {
		s.t.Fatal(err)
	}
	p.Add("out", 0, time.Now().UnixMilli(), nil, []byte("v"), nil)
	p.Add("app-rounds", 0, time.Now().UnixMilli(), []byte("k"), []byte("v"), nil) // whose producers are the application's
	if outcome, err := p.Flush(s.t.Context(), began); err != nil {
		s.t.Fatal(outcome, err)
	}
}

// hang commits the transaction of a producer, and its markers are lost.
func (s *scene) hang(p *broker.Producer) {
	s.t.Helper()
	s.end(p, none)
}

// end commits the transaction of a producer, and loses markers of it.
func (s *scene) end(p *broker.Producer, lose func(virtual.End) virtual.Loss) {
	s.t.Helper()
	s.lose = lose
	if outcome, err := p.Commit(s.t.Context()); err != nil {
		s.t.Fatal(outcome, err)
	}
	s.lose = nil
}

// TestNoteKeepsWhatTellsTheEnd: what a coordinator says of an id is kept if it says how the last
// transaction ended, or is about to. One that is ongoing says nothing while its commit may be under
// way.
func TestNoteKeepsWhatTellsTheEnd(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		noted := func() string {
			if n := len(s.watch.before); n > 0 {
				return s.watch.before[n-1].State
			}
			return ""
		}
		s.watch.Note(t.Context(), false, own)
		if got := noted(); got != "" {
			t.Errorf("of an id that was never used %q is noted", got)
		}
		p := s.producer()
		s.watch.Note(t.Context(), true, own)
		if got := noted(); got != "" {
			t.Errorf("while a commit may be under way %q is noted", got)
		}
		s.watch.Note(t.Context(), false, own)
		if got := noted(); got != "Ongoing" {
			t.Errorf("of an open transaction %q is noted", got)
		}
		s.hang(p)
		s.watch.Note(t.Context(), true, own)
		if got := noted(); got != "CompleteCommit" {
			t.Errorf("after the commit %q is noted", got)
		}
		if err := p.Settle(t.Context()); err != nil { // it replaces what the coordinator knows by nothing
			t.Fatal(err)
		}
		s.watch.Note(t.Context(), false, own)
		if got := noted(); got != "CompleteCommit" {
			t.Errorf("after the id was initialised %q is noted: the evidence is gone", got)
		}
	})
}

// TestNoteDeadDoesNotWait: the ids of an instance that is fenced are asked for half a second, in
// which readers of its outputs wait.
func TestNoteDeadDoesNotWait(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		s.kafka.ControlKey(int16(kmsg.DescribeTransactions), func(kmsg.Request) (kmsg.Response, error, bool) {
			s.kafka.KeepControl()
			s.kafka.SleepControl(func() { time.Sleep(time.Minute) })
			return nil, nil, false
		})
		began := time.Now()
		s.watch.NoteDead(t.Context(), own)
		if took := time.Since(began); took != describeDeadMax {
			t.Errorf("it took %s, want %s", took, describeDeadMax)
		}
		time.Sleep(2 * time.Minute) // the brokers end before the test does
	})
}

// TestAtStart: a transaction that hangs is found with the id that must not be used, and is told
// once. When it is repaired, nothing hangs and everything has been looked at.
func TestAtStart(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		if hangs, clean := s.watch.AtStart(t.Context()); len(hangs) != 0 || !clean {
			t.Errorf("at first %v hang, clean %t", hangs, clean)
		}
		p := s.producer()
		if hangs, clean := s.watch.AtStart(t.Context()); len(hangs) != 0 || !clean {
			t.Errorf("beside an open transaction %v hang, clean %t", hangs, clean)
		}
		s.hang(p)
		s.watch.Note(t.Context(), false, own)
		if err := p.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if hangs, clean := s.watch.AtStart(t.Context()); !hangs[own] || clean {
				t.Errorf("%v hang, clean %t; want %s", hangs, clean, own)
			}
		}
		found := s.watch.Found()
		if len(found) != 1 || found[0].Decision.Verdict != hanging.Commit || !s.watch.Hangs(found[0].ProducerID, found[0].Epoch) {
			t.Fatalf("found are %+v", found)
		}
		if n := s.log.count("a transaction of the application hangs"); n != 1 {
			t.Errorf("it is told %d times", n)
		}
		if _, err := hanging.Repair(t.Context(), s.cluster, found[0], hanging.Commit, nil); err != nil {
			t.Fatal(err)
		}
		if _, clean := s.watch.AtStart(t.Context()); !clean || s.log.count("a transaction hangs no more") != 1 {
			t.Errorf("after the repair clean is %t", clean)
		}
	})
}

// TestWithoutAnAnswerNothingIsClean: a partition that does not answer is not taken for one without
// transactions. A transaction that was found before stays found.
func TestWithoutAnAnswerNothingIsClean(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		p := s.producer()
		s.hang(p)
		s.watch.Note(t.Context(), false, own)
		s.watch.AtStart(t.Context())
		away := s.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.NotLeaderForPartition, Count: -1})
		if _, clean := s.watch.AtStart(t.Context()); clean || len(s.watch.Found()) != 1 {
			t.Errorf("clean %t, found %+v", clean, s.watch.Found())
		}
		if why := s.watch.NotLookedAt(); !strings.Contains(why, "out") {
			t.Errorf("not looked at is %q", why)
		}
		away.Remove()
		s.watch.AtStart(t.Context())
		if why := s.watch.NotLookedAt(); why != "" || len(s.watch.Found()) != 1 {
			t.Errorf("not looked at is %q, found %+v", why, s.watch.Found())
		}
	})
}

// TestSettle: a producer whose round has failed is good to go on unless a transaction of it hangs.
// Then it must be given up, and everything else is looked at.
func TestSettle(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		bubble(t, false, func(t *testing.T, s *scene) {
			p := s.producer()
			if hangs {
				s.hang(p)
			}
			err := s.watch.Settle(t.Context(), p)
			if got := errors.Is(err, errHanging) && errors.Is(err, worker.ErrReopen); got != hangs || !hangs && err != nil {
				t.Errorf("hanging %t: %v", hangs, err)
			}
			select {
			case <-s.watch.due:
			default:
				t.Error("nobody looks at the other producers")
			}
			if left := len(p.Partitions()["out"]); !hangs && left != 1 { // those of the transaction that was begun last
				t.Errorf("%d partitions are left to look at", left)
			}
		})
	}
}

// TestWatchEndsTheMembership: a membership that produces under an id of which a transaction hangs
// is ended. One with other ids goes on.
func TestWatchEndsTheMembership(t *testing.T) {
	for used, want := range map[string]string{own: own + " must not produce on", "app~i~1~0": ""} {
		bubble(t, false, func(t *testing.T, s *scene) {
			s.watch.Use(used)
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			var watch sync.WaitGroup
			watch.Go(func() {
				s.watch.Run(ctx, waits.New(s.cluster, time.Minute, slog.New(slog.DiscardHandler), nil), func(err error) { ended <- err })
			})
			p := s.producer()
			s.hang(p)
			s.watch.LookSoon()
			time.Sleep(2 * hangingWatch)
			cancel()
			watch.Wait()
			var got error
			select {
			case got = <-ended:
			default:
			}
			if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
				t.Errorf("with %s in use the membership ends with %v", used, got)
			}
		})
	}
}

// TestRepair: what hangs is repaired if its end is evident and the configuration says so, and not
// under an id in use.
func TestRepair(t *testing.T) {
	for _, c := range []struct {
		name           string
		repairs, inUse bool
		left           int
	}{{"it may", true, false, 0}, {"it may not", false, false, 1}, {"the id is in use", true, true, 1}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, c.repairs, func(t *testing.T, s *scene) {
				s.hang(s.producer())
				s.watch.Note(t.Context(), false, own)
				if c.inUse {
					s.watch.Use(own)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var repair sync.WaitGroup
				repair.Go(func() { s.watch.Repair(ctx) })
				s.watch.AtStart(t.Context())
				time.Sleep(time.Minute)
				s.watch.AtStart(t.Context())
				if left := len(s.watch.Found()); left != c.left {
					t.Errorf("%d hang, want %d", left, c.left)
				}
				cancel()
				repair.Wait()
			})
		})
	}
}

// TestEvidenceIsReadMoreRarely: the logs are read for the same transactions after half a minute,
// and then ever more rarely; for other ones at once.
func TestEvidenceIsReadMoreRarely(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := New(Config{Logger: slog.New(slog.DiscardHandler)})
		began := time.Now()
		var reads []time.Duration
		w.found = []hanging.Finding{{Transaction: hanging.Transaction{ProducerID: 1, Epoch: 2}}}
		for time.Since(began) < 4*time.Hour {
			if w.repairDue() {
				reads = append(reads, time.Since(began).Round(time.Second))
			}
			time.Sleep(10 * time.Second)
		}
		if len(reads) < 6 || reads[0] != 0 || reads[1] != hangingWatch || reads[2] != 3*hangingWatch {
			t.Errorf("the logs are read at %v", reads)
		}
		for i, at := range reads[1:] {
			if pause := at - reads[i]; pause > readPauseMax+10*time.Second {
				t.Errorf("a pause is %s", pause)
			}
		}
		w.found[0].Epoch = 3
		if !w.repairDue() {
			t.Error("another transaction is not read for")
		}
		w.found = nil
		if w.repairDue() || w.read != "" {
			t.Error("without a transaction logs are read")
		}
	})
}
