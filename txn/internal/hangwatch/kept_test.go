package hangwatch

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/hanging"
)

// life is a process with a state directory. Those of one path follow each other.
type life struct {
	*Watch
	directory *state.Directory
	path      string // of the file with what coordinators said
}

// life begins a process. change is for what it is told of the cluster.
func (s *scene) life(path, instance string, change func(*Config)) life {
	s.t.Helper()
	d, err := state.OpenDirectory(path, state.DirectoryOptions{Application: "app", Instance: instance})
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := s.settings(true)
	cfg.Directory, cfg.ClusterID, cfg.RoundsTopic = d, "cluster", [16]byte{1}
	if change != nil {
		change(&cfg)
	}
	return life{New(cfg), d, filepath.Join(path, "transactions.json")}
}

// end ends a process. Its memory is gone, and what is in its directory stays.
func (l life) end(t *testing.T) {
	t.Helper()
	if err := l.directory.Close(); err != nil {
		t.Fatal(err)
	}
}

func (l life) exists() bool {
	_, err := os.Stat(l.path)
	return err == nil
}

// TestProcessEndsBeforeTheRepair: a process asks the coordinator how a transaction ended,
// initialises the id, which removes that from the coordinator, and ends before it has repaired. The
// next process knows it from the state directory and repairs. It does not if the file is about
// anything else, damaged or gone: the transaction stays as it is.
func TestProcessEndsBeforeTheRepair(t *testing.T) {
	rewrite := func(change func([]byte) []byte) func(*testing.T, *scene, life) {
		return func(t *testing.T, _ *scene, l life) {
			data, err := os.ReadFile(l.path)
			if err != nil {
				t.Fatal(err)
			}
			changed := change(bytes.Clone(data))
			if bytes.Equal(changed, data) {
				t.Fatalf("nothing has changed in %s", data)
			}
			if err := os.WriteFile(l.path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace := func(change func(*state.TransactionEnds)) func(*testing.T, *scene, life) {
		return func(t *testing.T, _ *scene, l life) {
			ends, err := l.directory.TransactionEnds()
			if err != nil {
				t.Fatal(err)
			}
			change(&ends)
			if err := l.directory.SetTransactionEnds(ends); err != nil {
				t.Fatal(err)
			}
		}
	}
	aside := "is not used"
	for _, test := range []struct {
		name    string
		between func(*testing.T, *scene, life) // before the first process ends
		next    func(*Config)
		want    hanging.Verdict
		log     string // what the next process says, if it does
	}{
		{name: "nothing else happens", want: hanging.Commit},
		{name: "the file is removed", between: func(t *testing.T, _ *scene, l life) {
			if err := os.Remove(l.path); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "another cluster", next: func(c *Config) { c.ClusterID = "other" }, log: aside},
		{name: "a cluster that was made again under the same id", next: func(c *Config) { c.RoundsTopic[0]++ }, log: aside},
		{name: "the file is torn", between: rewrite(func(data []byte) []byte { return data[:len(data)/2] }), log: aside},
		{name: "the file is empty", between: rewrite(func([]byte) []byte { return nil }), log: aside},
		{name: "a byte is damaged", between: rewrite(func(data []byte) []byte {
			return bytes.Replace(data, []byte(`"CompleteCommit"`), []byte(`"CompleteAborts"`), 1)
		}), log: "checksum"},
		{name: "a newer build has written it", between: rewrite(func(data []byte) []byte {
			return bytes.Replace(data, []byte(`"format": 1`), []byte(`"format": 2`), 1)
		}), log: "this build reads 1"},
		{name: "another epoch", between: replace(func(e *state.TransactionEnds) { e.Ends[0].Epoch-- })},
		{name: "another producer id", between: replace(func(e *state.TransactionEnds) { e.Ends[0].ProducerID += 1000 })},
		{name: "another application", between: replace(func(e *state.TransactionEnds) { e.Ends[0].TransactionalID = "other~i~0~0" }), log: aside},
		{name: "an answer that does not decide", between: replace(func(e *state.TransactionEnds) { e.Ends[0].State = "Ongoing" }), log: aside},
		{name: "two answers that contradict each other", between: replace(func(e *state.TransactionEnds) {
			other := e.Ends[0]
			other.State = "CompleteAbort"
			e.Ends = append(e.Ends, other)
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, true, func(t *testing.T, s *scene) {
				path := filepath.Join(t.TempDir(), "state")
				first := s.life(path, "i", nil)
				p := s.producer()
				s.hang(p)
				first.Note(t.Context(), false, own)
				if err := p.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				if test.between != nil {
					test.between(t, s, first)
				}
				first.end(t)

				next := s.life(path, "i", test.next)
				defer func() { next.end(t) }()
				next.Note(t.Context(), false, own)
				var repair sync.WaitGroup
				defer repair.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				repair.Go(func() { next.Repair(ctx) })
				repair.Go(func() { next.Tidy(ctx) })
				next.AtStart(t.Context())
				found := next.Found()
				if len(found) != 1 || found[0].Decision.Verdict != test.want {
					t.Fatalf("found are %+v, want one with the verdict %s", found, test.want)
				}
				if test.log != "" && s.log.count(test.log) != 1 || test.log == "" && s.log.count(aside) != 0 {
					t.Errorf("the log does not say %q once", test.log)
				}
				_, err := os.Stat(next.path + ".unused")
				if wantAside := test.log != ""; (err == nil) != wantAside || wantAside && s.log.count(next.path+".unused") != 1 {
					t.Errorf("the file is set aside and named: %v, want that %t", err, wantAside)
				}
				time.Sleep(time.Minute)
				next.AtStart(t.Context())
				time.Sleep(time.Second)
				if left := len(next.Found()); (left == 0) != (test.want != hanging.Unknown) {
					t.Errorf("%d hang", left)
				}
				if test.want != hanging.Unknown && next.exists() {
					t.Error("what was said is kept although the transaction is repaired")
				}
			})
		})
	}
}

// TestEndsOfAnotherInstance: what one instance was told of the ids of another is good for every
// instance of the application, also from a directory that was copied.
func TestEndsOfAnotherInstance(t *testing.T) {
	bubble(t, true, func(t *testing.T, s *scene) {
		fencer := s.life(filepath.Join(t.TempDir(), "fencer"), "fencer", nil)
		s.hang(s.producer())
		fencer.NoteDead(t.Context(), own)
		if err := s.cluster.EndTransactions(t.Context(), time.Minute, own); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(fencer.path)
		if err != nil {
			t.Fatal(err)
		}
		fencer.end(t)
		path := filepath.Join(t.TempDir(), "other")
		s.life(path, "other", nil).end(t)
		if err := os.WriteFile(filepath.Join(path, "transactions.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		other := s.life(path, "other", nil)
		defer other.end(t)
		other.AtStart(t.Context())
		if found := other.Found(); len(found) != 1 || found[0].Decision.Verdict != hanging.Commit {
			t.Errorf("found are %+v", found)
		}
	})
}

// TestAnswersAreStoredFirst: when an id is initialised, what its coordinator said is in the
// directory. That a transaction is ongoing is not.
func TestAnswersAreStoredFirst(t *testing.T) {
	for _, ends := range []bool{true, false} {
		bubble(t, false, func(t *testing.T, s *scene) {
			l := s.life(filepath.Join(t.TempDir(), "state"), "i", nil)
			defer l.end(t)
			p := s.producer()
			want := ""
			if ends {
				s.hang(p)
				want = "CompleteCommit"
			}
			asked := false
			s.kafka.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
				s.kafka.KeepControl()
				stored, err := l.directory.TransactionEnds()
				var got string
				if len(stored.Ends) > 0 {
					got = stored.Ends[0].State
				}
				if err != nil || got != want {
					t.Errorf("when the id is initialised %q is stored, %v; want %q", got, err, want)
				}
				asked = true
				return nil, nil, false
			})
			if err := l.Settle(t.Context(), p); ends != (err != nil) {
				t.Errorf("it is settled with %v", err)
			}
			if !asked {
				t.Error("the id is not initialised: the test tests nothing")
			}
			if n := len(l.before); n != 1 {
				t.Errorf("%d answers are in memory, want one", n)
			}
		})
	}
}

// TestAnswersThatCannotBeStored: they are kept in memory, which is told once, and stored with the
// next ones.
func TestAnswersThatCannotBeStored(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		l := s.life(filepath.Join(t.TempDir(), "state"), "i", nil)
		defer l.end(t)
		inTheWay := l.path + ".tmp"
		if err := os.MkdirAll(inTheWay, 0o700); err != nil {
			t.Fatal(err)
		}
		s.hang(s.producer())
		for range 2 {
			l.Note(t.Context(), false, own)
		}
		if n := s.log.count("cannot be stored"); n != 1 || l.exists() {
			t.Errorf("it is told %d times, and the file is there: %t", n, l.exists())
		}
		l.AtStart(t.Context())
		if found := l.Found(); len(found) != 1 || found[0].Decision.Verdict != hanging.Commit {
			t.Errorf("found are %+v", found)
		}
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		l.Note(t.Context(), false, own)
		stored, err := l.directory.TransactionEnds()
		if err != nil || !slices.ContainsFunc(stored.Ends, func(e state.TransactionEnd) bool { return e.State == "CompleteCommit" }) {
			t.Errorf("stored are %+v, %v", stored, err)
		}
	})
}

// TestEndsAreStoredInFull: what an answer says comes back as it was.
func TestEndsAreStoredInFull(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		path := filepath.Join(t.TempDir(), "state")
		l := s.life(path, "i", nil)
		s.hang(s.producer())
		l.Note(t.Context(), false, own)
		l.before[0].Started = time.UnixMilli(1_700_000_000_123)
		l.keep(t.Context())
		want := slices.Clone(l.before)
		l.end(t)
		next := s.life(path, "i", nil)
		defer next.end(t)
		if got := next.before; !slices.Equal(got, want) || len(want) != 1 {
			t.Errorf("loaded are %+v, want %+v", got, want)
		}
	})
}

// TestCoordinatorIsBehind: a coordinator has lost what it said, as after a restore, and uses the
// epochs again. Its next transaction is aborted, loses its markers, and must not be committed by the
// stored answer about the lost one. As the control the coordinator is where the answer is.
func TestCoordinatorIsBehind(t *testing.T) {
	for _, c := range []struct {
		name       string
		ahead      int16 // the epoch of the answer after that of the coordinator
		tidy, init bool  // by what it is found
		want       hanging.Verdict
	}{
		{name: "control", ahead: 1, want: hanging.Commit},
		{name: "found beside a look", ahead: 1, tidy: true, want: hanging.Unknown},
		{name: "found as the id is initialised", ahead: 2, init: true, want: hanging.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, false, func(t *testing.T, s *scene) {
				p := broker.NewProducer(s.config, own, time.Minute)
				defer p.Close()
				if err := p.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				identity, err := p.Identity()
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), "state")
				first := s.life(path, "i", nil)
				err = first.directory.SetTransactionEnds(state.TransactionEnds{Cluster: "cluster", RoundsTopic: [16]byte{1}, Ends: []state.TransactionEnd{
					{TransactionalID: own, ProducerID: identity.ProducerID, Epoch: identity.Epoch + c.ahead, State: "CompleteCommit"},
				}})
				if err != nil {
					t.Fatal(err)
				}
				first.end(t)
				l := s.life(path, "i", nil)
				defer func() { l.end(t) }()
				if c.tidy {
					s.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeProducers}, Topic: "out", Err: kerr.NotLeaderForPartition, Count: 1}) // no look has to be clean for it
					l.tidy(t.Context())
				}
				if c.init {
					if err := p.Settle(t.Context()); err != nil {
						t.Fatal(err)
					}
					l.Settled(t.Context(), p)
				}
				if dropped := c.want == hanging.Unknown; l.exists() == dropped {
					t.Errorf("the file is there: %t", !dropped)
				}
				s.write(p)
				s.lose = none
				if _, err := p.Abort(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.lose = nil
				if err := p.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				l.AtStart(t.Context())
				if found := l.Found(); len(found) != 1 || found[0].Decision.Verdict != c.want {
					t.Errorf("found are %+v, want the verdict %s", found, c.want)
				}
			})
		})
	}
}

// TestUnreadableAnswers: a file that cannot be read may be good. It is neither set aside nor
// replaced, and the answers are in memory.
func TestUnreadableAnswers(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		path := filepath.Join(t.TempDir(), "state")
		first := s.life(path, "i", nil)
		if err := os.Mkdir(first.path, 0o700); err != nil { // reading it fails, and that is no damage
			t.Fatal(err)
		}
		first.end(t)
		l := s.life(path, "i", nil)
		defer l.end(t)
		s.hang(s.producer())
		l.Note(t.Context(), false, own)
		if n := s.log.count("cannot be read, and this process stores no answers"); n != 1 || len(l.before) != 1 || s.log.count("cannot be stored") != 0 {
			t.Errorf("it is told %d times, in memory are %+v", n, l.before)
		}
		if entry, err := os.Stat(l.path); err != nil || !entry.IsDir() {
			t.Errorf("it is there as %v, %v", entry, err)
		}
		if _, err := os.Stat(l.path + ".unused"); err == nil {
			t.Error("it is set aside")
		}
	})
}

// TestSlowDisk: a fencing waits half a second for the disk, says so, and goes on. One write is under
// way at most, and it ends when the disk answers.
func TestSlowDisk(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		l := s.life(filepath.Join(t.TempDir(), "state"), "i", nil)
		defer l.end(t)
		store, slow := l.store, make(chan struct{})
		var writes atomic.Int32
		l.store = func(e state.TransactionEnds) error {
			writes.Add(1)
			<-slow
			return store(e)
		}
		s.hang(s.producer())
		for range 2 {
			began := time.Now()
			l.NoteDead(t.Context(), own)
			if took := time.Since(began); took < describeDeadMax || took > 2*describeDeadMax {
				t.Errorf("it took %s", took)
			}
		}
		if n := s.log.count("not on the disk in time"); n != 2 || writes.Load() != 1 {
			t.Errorf("it is told %d times, and %d writes are under way", n, writes.Load())
		}
		close(slow)
		for range 2 {
			l.Note(t.Context(), false, own)
		}
		if !l.exists() || writes.Load() != 1 { // nothing has changed
			t.Errorf("it is stored: %t, with %d writes", l.exists(), writes.Load())
		}
	})
}

// TestAnswerInAClosedDirectory: the process ends, and no operator has to do anything.
func TestAnswerInAClosedDirectory(t *testing.T) {
	bubble(t, false, func(t *testing.T, s *scene) {
		l := s.life(filepath.Join(t.TempDir(), "state"), "i", nil)
		l.end(t)
		s.hang(s.producer())
		l.Note(t.Context(), false, own)
		if n := s.log.count("cannot be stored"); n != 0 {
			t.Error("a closed directory is told")
		}
	})
}
