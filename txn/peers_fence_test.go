//go:build onceward_failpoints

package txn_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/peers"
)

// sessionTimeout is the default of txn.Config.
const sessionTimeout = 45 * time.Second

// TestStoppedInstanceIsNotSuspected: it says goodbye. Its tasks move at once, without a fencing.
func TestStoppedInstanceIsNotSuspected(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.stop("one")
		s.await("all tasks at the instance that is left", func() bool { return s.has("two", 4) })
		time.Sleep(2 * sessionTimeout)
		s.wantNone("two", suspected)
		s.wantNone("two", wasFenced)
		s.wantNone("two", refusedPeer)
	})
}

// TestInstanceThatRemainsKeepsItsTasks: a stop with Remain is not suspected either. The tasks wait
// for a restart, and move when the session timeout is over.
func TestInstanceThatRemainsKeepsItsTasks(t *testing.T) {
	remain := func(_ string, cfg *txn.Config) { cfg.Remain = true }
	for name, restarted := range map[string]bool{"restarted": true, "gone": false} {
		bubble(t, name, func(t *testing.T) {
			s := pairOf(t, remain)
			s.stop("one")
			stopped := time.Now()
			time.Sleep(sessionTimeout - 10*time.Second)
			if !s.has("two", 2) {
				t.Errorf("the tasks of an instance that remains were moved: %+v", s.apps["two"].Status().Tasks)
			}
			if restarted {
				s.start("one", nil)
				s.await("the tasks to be back", func() bool { return s.balanced() && s.connected() })
			} else {
				s.await("the tasks to move", func() bool { return s.has("two", 4) })
				if took := time.Since(stopped); took < sessionTimeout-10*time.Second {
					t.Errorf("they moved after %s", took)
				}
			}
			s.wantNone("two", suspected)
			s.wantNone("two", wasFenced)
		})
	}
}

// TestRestartedInstanceIsNotFenced: rule 13.4. A process vanishes, and the next one of its identity
// comes before its silence is judged. The suspicion was of the incarnation before; the new one
// keeps its membership and its producers.
func TestRestartedInstanceIsNotFenced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.hosts["one"].Stall()
		s.abandon("one")
		time.Sleep(time.Second) // less than the silence bound
		s.dirs["one"] = ""      // the process that has vanished holds the lock of its own
		s.start("one", nil)
		s.await("the tasks at the new process", func() bool { return s.balanced() && s.connected() })
		feed(t, s.testBroker, 200)
		check(t, s.read(t, "out", 200), 10)
		time.Sleep(2 * sessionTimeout)
		s.wantNone("two", wasFenced)
		s.wantNone("one", beganAgain)
		if got := s.apps["one"].Status().Totals; got.Aborts > 0 || got.Commits == 0 {
			t.Errorf("the new process has the totals %+v, want commits and no abort", got)
		}
	})
}

// TestPairWithoutSecondWatcher: two instances whose connection is silent. Neither knows which of
// them is cut off, so the brokers are asked.
func TestPairWithoutSecondWatcher(t *testing.T) {
	bubble(t, "at work it is left alone", func(t *testing.T) {
		s := pairOf(t, nil)
		s.cut()
		n := 0
		for began := time.Now(); time.Since(began) < 2*time.Minute; n++ {
			s.feedAll()
			time.Sleep(50 * time.Millisecond)
		}
		for _, instance := range []string{"one", "two"} {
			s.wantNone(instance, wasFenced)
			s.wantNone(instance, beganAgain)
			if len(s.logged(instance, leftAtWork)) == 0 {
				t.Errorf("%s has not asked the brokers: the test tests nothing", instance)
			}
		}
		if !s.balanced() {
			t.Error("tasks have moved")
		}
		check(t, s.read(t, "out", 4*n), int64(n))
	})
	for name, broken := range map[string][]string{"idle it is left alone": nil, "idle without signs of life it is fenced": {"live"}} {
		bubble(t, name, func(t *testing.T) {
			s := pairOf(t, func(_ string, cfg *txn.Config) { *cfg = cfg.WithFailpoints(nil, broken...) })
			s.cut()
			time.Sleep(2 * time.Minute)
			fencings := len(s.logged("one", wasFenced)) + len(s.logged("two", wasFenced))
			if asked := len(s.logged("one", leftAtWork)); broken == nil && (fencings > 0 || asked == 0 || !s.balanced()) {
				t.Errorf("%d fencings, and the brokers were asked with success %d times", fencings, asked)
			}
			if broken != nil && fencings == 0 {
				t.Error("no instance was fenced: the signs of life prevent nothing")
			}
		})
	}
	bubble(t, "gone it is fenced", func(t *testing.T) {
		s := pairOf(t, nil)
		feed(t, s.testBroker, 200)
		s.hosts["one"].Stall() // from the brokers as well
		began := time.Now()
		s.await("all tasks at the instance that is left", func() bool { return s.has("two", 4) })
		if took := time.Since(began); took < 2*time.Second-400*time.Millisecond || took > 3*time.Second {
			t.Errorf("the tasks moved after %s, want them at the bound of silence, or within a second after it", took)
		}
		if len(s.logged("two", wasFenced)) != 1 {
			t.Errorf("fencings: %q", s.logged("two", wasFenced))
		}
		// It was frozen and comes back: nothing is lost or doubled.
		feed(t, s.testBroker, 200)
		s.hosts["one"].Resume()
		s.await("the tasks to be balanced again", func() bool { return s.balanced() && s.connected() })
		feed(t, s.testBroker, 200)
		check(t, s.read(t, "out", 600), 30)
		if len(s.logged("two", fencedInVain)) != 1 {
			t.Errorf("in vain: %q", s.logged("two", fencedInVain))
		}
	})
}

// memberOf returns the group's member id of an instance, "" if it has none.
func (s *peerScene) memberOf(instance string) string {
	s.t.Helper()
	groups, err := s.adm.DescribeGroups(s.t.Context(), "counting")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range groups["counting"].Members {
		if m.InstanceID != nil && *m.InstanceID == instance {
			return m.MemberID
		}
	}
	return ""
}

// TestMemberThatHasRejoinedIsLeftAlone: rule 13.5. The member id that peers know may be that of an
// earlier membership. Then nothing is removed. The control names the current one.
func TestMemberThatHasRejoinedIsLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, func(_ string, cfg *txn.Config) { cfg.Remain = true })
		stale := s.memberOf("one")
		s.stop("one")
		s.start("one", nil)
		s.await("the instance to be back", func() bool { return s.balanced() && s.connected() })
		current := s.memberOf("one")
		if stale == "" || current == "" || stale == current {
			t.Fatalf("the member ids are %q and %q: the test tests nothing", stale, current)
		}
		fence := func(member string) {
			t.Helper()
			if err := s.apps["two"].FenceSuspect(t.Context(), peers.Suspect{Instance: "one", MemberID: member}); err != nil {
				t.Errorf("the fencing of member %q gives %v", member, err)
			}
		}
		fence(stale)
		time.Sleep(2 * sessionTimeout)
		if got := s.memberOf("one"); got != current {
			t.Errorf("the member was %q and is %q", current, got)
		}
		s.wantNone("one", beganAgain)
		if !s.balanced() {
			t.Error("tasks have moved")
		}
		fence(current)
		s.await("the member to be removed", func() bool { return s.memberOf("one") != current })
	})
}

// TestForeignTransactionalIDIsNotFenced: a peer that tells an id of another instance, or of another
// application, has nothing fenced: not that id, not its own ids, not its member.
func TestForeignTransactionalIDIsNotFenced(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		feed(t, s.testBroker, 200)
		s.read(t, "out", 200)
		own := broker.TransactionalID("counting", "one", 0, 0)
		all := []string{own, broker.TransactionalID("counting", "one", 0, 1), broker.TransactionalID("counting", "two", 0, 0)}
		state := func() (kadm.DescribedTransactions, string) {
			t.Helper()
			d, err := s.adm.DescribeTransactions(t.Context(), all...)
			if err != nil {
				t.Fatal(err)
			}
			return d, s.memberOf("one")
		}
		before, member := state()
		for _, foreign := range []string{broker.TransactionalID("counting", "two", 0, 0), broker.TransactionalID("other", "one", 0, 0), "one"} {
			err := s.apps["two"].FenceSuspect(t.Context(), peers.Suspect{
				Instance: "one", MemberID: member, TransactionalIDs: []string{own, foreign},
			})
			if err == nil || !strings.Contains(err.Error(), "does not begin with counting~one~") {
				t.Errorf("with %s: %v", foreign, err)
			}
		}
		after, left := state()
		if !reflect.DeepEqual(before, after) || left != member {
			t.Errorf("before: %+v, member %s\nafter: %+v, member %s", before, member, after, left)
		}
		// The control: with its own ids it is fenced.
		if err := s.apps["two"].FenceSuspect(t.Context(), peers.Suspect{
			Instance: "one", MemberID: member, TransactionalIDs: []string{own},
		}); err != nil {
			t.Errorf("with its own id: %v", err)
		}
		if now, left := state(); now[own].ProducerEpoch == before[own].ProducerEpoch || left == member {
			t.Errorf("its own id has the epoch %d, and its member is %s, as before", now[own].ProducerEpoch, left)
		}
	})
}

// TestFencerEndsBeforeItRepairs: the markers of a commit are lost, and its instance is killed. The
// peer that fences it asks the coordinator first, which knows no more afterwards, and ends before
// anything is repaired. Its next incarnation repairs by what it was told. Without that the transaction
// stays open.
func TestFencerEndsBeforeItRepairs(t *testing.T) {
	for name, removed := range map[string]bool{"told": false, "what it was told is removed": true} {
		bubble(t, name, func(t *testing.T) {
			b := newBroker(t, 4, "in", "out")
			var armed atomic.Bool
			hung := make(chan string, 1)
			b.kafka.LoseMarkers(t, func(end virtual.End) virtual.Loss {
				if !end.Commit || !strings.HasPrefix(end.TransactionalID, "counting~") || !armed.CompareAndSwap(true, false) {
					return nil
				}
				hung <- end.TransactionalID
				return func(string, int32) bool { return false }
			})
			s := pairAt(t, b, nil)
			s.feedAll()
			b.read(t, "out", 4)
			armed.Store(true)
			b.one(t)
			id := <-hung
			dead, fencer := "one", "two"
			if strings.HasPrefix(id, broker.InstancePrefix("counting", "two")) {
				dead, fencer = "two", "one"
			}
			s.hosts[dead].Kill()
			s.abandon(dead)
			s.await("the fencing", func() bool { return len(s.logged(fencer, wasFenced)) > 0 })
			s.stop(fencer)
			file := filepath.Join(s.dirs[fencer], "transactions.json")
			data, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(data), id) {
				t.Errorf("the fencer has kept %q, %v; want what was said of %s", data, err, id)
			}
			if removed {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			s.start(fencer, func(cfg *txn.Config) { cfg.RepairTransactions = true })
			if removed {
				time.Sleep(5 * time.Minute)
				if h := s.apps[fencer].Status().Hanging; len(h) != 1 || h[0].Verdict != "unknown" {
					t.Errorf("the status has %+v, want one of which nothing is known", h)
				}
				return
			}
			s.feedAll()
			b.read(t, "out", 9)
			s.await("what was repaired to be told no more", func() bool { return len(s.apps[fencer].Status().Hanging) == 0 })
			s.await("what it was told to be removed", func() bool {
				_, err := os.Stat(file)
				return errors.Is(err, os.ErrNotExist)
			})
		})
	}
}
