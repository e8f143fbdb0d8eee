package peers

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// opinions is the longest time of a round of evidence.
const opinions = opinionMax

// TestKilledProcessIsFencedOnce: sockets close, dials are refused, and one of the others fences at
// once.
func TestKilledProcessIsFencedOnce(t *testing.T) {
	sizes(t, func(t *testing.T, all []string) {
		inWorld(t, all, nil, func(w *world) {
			w.wantConnected()
			victim := w.nodes["b"]
			if err := victim.SetSelf("member-2", []string{"app~b~0", "app~b~1"}); err != nil {
				t.Fatal(err)
			}
			if err := victim.SetSelf("member-3", []string{"app~b~1", "app~b~2"}); err != nil {
				t.Fatal(err)
			}
			w.after(time.Second)
			w.kill("b")
			w.after(1100 * time.Millisecond)
			told := 0
			for _, n := range w.nodes {
				if n.ring.watches(n.name, "b") && strings.HasPrefix(w.status("b", n.name).Suspicion, "fenced") {
					told++
				}
			}
			if want := len(all) - 1; told != want && want < fullMax {
				t.Errorf("%d of %d know of the fencing", told, want)
			}
			w.after(time.Minute)
			w.wantFencings(time.Second, time.Second+10*time.Millisecond, "b")
			got := w.fencings()[0].s
			if ids := []string{"app~b~0", "app~b~1", "app~b~2"}; got.MemberID != "member-3" || !slices.Equal(got.TransactionalIDs, ids) ||
				got.Incarnation != victim.cfg.Self.Incarnation {
				t.Errorf("the suspect is %+v, want all ids that it told and the last member id", got)
			}
			for _, name := range all {
				if name != "b" && w.nodes[name].ring.watches(name, "b") {
					if s := w.status("b", name); s.Suspicion == "" || s.Connected || s.Why == "" || s.Suspicions != 1 {
						t.Errorf("%s sees %+v", name, s)
					}
				}
			}
		})
	}, 2, 3, 5, 8)
}

// TestDialMeetsTheEndOfAProcess: its listener takes a connection and is closed then. With two
// members the next dial tells at once what the brokers would take a second to show.
func TestDialMeetsTheEndOfAProcess(t *testing.T) {
	var dying atomic.Int64
	inWorld(t, names(2), func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			if dying.Add(-1) >= 0 {
				return nil, &net.OpError{Op: "read", Net: "memory", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
			}
			return dial(ctx, address)
		}
	}, func(w *world) {
		dying.Store(2)
		w.kill("b")
		w.after(time.Minute)
		w.wantFencings(0, 50*time.Millisecond, "b")
	})
}

// TestFencingIsTold: every watcher of the dead process is told once that a peer has fenced it.
func TestFencingIsTold(t *testing.T) {
	var mu sync.Mutex
	told := map[string][]string{}
	inWorld(t, []string{"a", "b", "c", "d"}, func(cfg *Config) {
		name := cfg.Self.Instance
		cfg.Fenced = func(instance string) {
			mu.Lock()
			defer mu.Unlock()
			told[name] = append(told[name], instance)
		}
	}, func(w *world) {
		w.wantConnected()
		w.kill("b")
		w.after(time.Minute)
		w.wantFencings(0, 10*time.Millisecond, "b")
		mu.Lock()
		defer mu.Unlock()
		for _, name := range []string{"a", "c", "d"} {
			var want []string
			if name != w.fencings()[0].fencer {
				want = []string{"b"}
			}
			if !slices.Equal(told[name], want) {
				t.Errorf("%s is told of %v, want %v", name, told[name], want)
			}
		}
	})
}

// TestOverIsTold: the peers that an instance is connected with are told which plan is over, before
// they hear its goodbye.
func TestOverIsTold(t *testing.T) {
	var mu sync.Mutex
	told := map[string][]uint64{}
	inWorld(t, names(3), func(cfg *Config) {
		name := cfg.Self.Instance
		cfg.Over = func(plan uint64) bool {
			mu.Lock()
			defer mu.Unlock()
			told[name] = append(told[name], plan)
			return false
		}
	}, func(w *world) {
		w.wantConnected()
		w.nodes["b"].Over(7)
		w.after(time.Second)
		w.nodes["b"].Over(8)
		if err := w.nodes["b"].Goodbye(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for name, want := range map[string][]uint64{"a": {7, 8}, "b": nil, "c": {7, 8}} {
			if !slices.Equal(told[name], want) {
				t.Errorf("%s is told of %v, want %v", name, told[name], want)
			}
		}
	})
}

// TestOverIsPassedOn: an instance of a large ring is connected with its neighbours only. All others are
// told which plan is over if each passes it on once. If none does, only the neighbours are told.
func TestOverIsPassedOn(t *testing.T) {
	for _, passed := range []bool{true, false} {
		var mu sync.Mutex
		told := map[string]int{}
		inWorld(t, names(12), func(cfg *Config) {
			name := cfg.Self.Instance
			cfg.Over = func(uint64) bool {
				mu.Lock()
				defer mu.Unlock()
				told[name]++
				return passed && told[name] == 1
			}
		}, func(w *world) {
			w.wantConnected()
			w.nodes["b"].Over(7)
			w.after(time.Second)
			mu.Lock()
			defer mu.Unlock()
			delete(told, "b") // its own word comes back
			if all := len(told) == 11; all != passed {
				t.Errorf("passed on is %t, and %d of 11 instances are told", passed, len(told))
			}
		})
	}
}

// TestChangeDuringTheHandshakeIsTold: b says hello, then its member id changes, then a is
// connected.
func TestChangeDuringTheHandshakeIsTold(t *testing.T) {
	inWorld(t, nil, nil, func(w *world) {
		a, b := w.start("a"), w.start("b")
		b.SetMembers([]Member{{"a", a.address}})
		time.Sleep(3*w.net.latency + w.net.latency/2)
		if len(b.Status().Peers) != 1 || b.Status().Peers[0].Connected {
			t.Fatalf("b sees %+v: the test tests nothing", b.Status())
		}
		if err := b.SetSelf("changed", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		a.SetMembers([]Member{{"b", b.address}})
		w.kill("b")
		time.Sleep(time.Second)
		if calls := w.fencings(); len(calls) != 1 || calls[0].s.MemberID != "changed" {
			t.Errorf("%+v, want the member id that was told last", calls)
		}
	})
}

// TestKilledProcessesAreFencedOnceEach: the limits put the fencings of several dead processes
// behind each other.
func TestKilledProcessesAreFencedOnceEach(t *testing.T) {
	inWorld(t, names(5), nil, func(w *world) {
		w.kill("b")
		// c has seen the end of b, and has not fenced it: that takes a round trip. A c that dies
		// while it fences b would have b fenced twice.
		time.Sleep(w.net.latency / 2)
		w.kill("c")
		w.after(time.Minute)
		w.wantFencings(0, fencingPause+20*time.Millisecond, "b", "c")
	})
}

// TestInstanceThatHearsNobodyIsFenced after the silence bound, although it says itself that it does
// not hear the others.
func TestInstanceThatHearsNobodyIsFenced(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		w.net.block("a", "b", true)
		w.net.block("c", "b", true)
		w.after(time.Minute)
		w.wantFencings(3500*time.Millisecond, 4500*time.Millisecond, "b")
	})
}

// TestInstanceThatWasCutOffWaits with its suspicions until the others had time to connect again. It
// hears one of them first.
func TestInstanceThatWasCutOffWaits(t *testing.T) {
	inWorld(t, names(8), nil, func(w *world) {
		w.cutOff("b", true)
		w.after(time.Minute)
		w.net.cut("a", "b", false)
		w.after(time.Minute + 3*time.Second)
		w.cutOff("b", false)
		w.after(2 * time.Minute)
		w.wantFencings(0, 3*time.Second, "b")
		w.wantConnected()
	})
}

// TestSilentHostIsFencedAtTheBound: nothing closes when a host vanishes. The vanished instance
// itself fences no other.
func TestSilentHostIsFencedAtTheBound(t *testing.T) {
	sizes(t, func(t *testing.T, all []string) {
		inWorld(t, all, nil, func(w *world) {
			w.cutOff("b", true)
			w.after(time.Minute)
			w.wantFencings(2*time.Second-2*w.nodes["a"].cfg.Heartbeat, 2*time.Second+10*time.Millisecond, "b")
			for _, c := range w.fencings() {
				if c.fencer == "b" {
					t.Error("the instance that is cut off has fenced another one")
				}
			}
			if !w.nodes["b"].Status().CutOff || w.nodes["a"].Status().CutOff {
				t.Error("status does not say who is cut off")
			}
			w.cutOff("b", false)
			w.after(2 * time.Minute)
			w.wantConnected()
			if n := len(w.fencings()); n != 1 {
				t.Errorf("%d fencings when the network works again", n)
			}
		})
	}, 3, 5, 8)
}

// brokersSee decides what looks at the brokers find.
func (w *world) brokersSee(progress func(self string, s Suspect) (bool, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = progress
}

// progress is seen of every instance.
func progress(string, Suspect) (bool, error) { return true, nil }

// asked returns how often the brokers were asked, and the signs of life, and begins to count again.
func (w *world) asked() (looks int, lives map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	looks, lives = len(w.looks), w.lives
	w.looks, w.lives = nil, map[string]int{}
	return looks, lives
}

// TestTwoThatHearNothingOfEachOtherAskTheBrokers, again and again, and show them that they live.
func TestTwoThatHearNothingOfEachOtherAskTheBrokers(t *testing.T) {
	inWorld(t, names(2), nil, func(w *world) {
		w.brokersSee(progress)
		w.net.cut("a", "b", true)
		w.after(time.Minute)
		looks, lives := w.asked()
		if looks < 16 || looks > 26 { // every five to seven seconds, by both
			t.Errorf("the brokers were asked %d times in a minute", looks)
		}
		for _, name := range names(2) {
			if n := lives[name]; n < 250 || n > 300 { // with every heartbeat
				t.Errorf("%s has given %d signs of life in a minute", name, n)
			}
		}
		w.net.cut("a", "b", false)
		w.after(2 * time.Minute)
		w.wantConnected()
		w.wantFencings(0, 0)
		for _, self := range names(2) {
			for _, s := range w.nodes[self].Status().Peers {
				if s.FencedInVain > 0 || s.Suspicion != "" {
					t.Errorf("%s sees %+v", self, s)
				}
			}
		}
		_, _ = w.asked()
		w.after(3 * time.Minute)
		if looks, lives := w.asked(); looks+len(lives) > 0 {
			t.Errorf("while they are connected the brokers are asked %d times, with the signs of life %v", looks, lives)
		}
	})
}

// TestSilentHostOfTwoIsFenced when its silence reaches the bound: the brokers see no progress of
// it. It does not reach the brokers itself.
func TestSilentHostOfTwoIsFenced(t *testing.T) {
	inWorld(t, names(2), nil, func(w *world) {
		w.brokersSee(func(self string, _ Suspect) (bool, error) {
			if self == "b" {
				return false, errFence
			}
			return false, nil
		})
		w.cutOff("b", true)
		w.after(time.Minute)
		w.wantFencings(2*time.Second-2*w.nodes["a"].cfg.Heartbeat, 2*time.Second, "b")
		if s := w.status("b", "a"); s.Suspicion != "fenced" {
			t.Errorf("a sees %+v", s)
		}
		if s := w.status("a", "b"); !strings.Contains(s.Suspicion, "left to the session timeout: fencing has failed: no broker answers") {
			t.Errorf("b sees %+v", s)
		}
	})
}

// TestInstanceThatLosesAllConnectionsFencesNobody: connections are closed, and dials get no answer.
// The others agree about it.
func TestInstanceThatLosesAllConnectionsFencesNobody(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		w.cutOff("b", true)
		w.net.reset("b", func(string) bool { return true })
		w.after(time.Minute)
		w.wantFencings(0, 2*opinions, "b")
	})
}

// TestPartitionBetweenTwoFencesNobody: the third instance still hears both.
func TestPartitionBetweenTwoFencesNobody(t *testing.T) {
	for name, cut := range map[string]func(*network){
		"cut":     func(n *network) { n.cut("a", "b", true) },
		"one way": func(n *network) { n.block("a", "b", true) },
		"other way, and connections are reset": func(n *network) {
			n.block("b", "a", true)
			n.reset("a", func(other string) bool { return other == "b" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, names(3), nil, func(w *world) {
				cut(w.net)
				w.after(10*time.Minute + 300*time.Millisecond) // not at the begin of a round
				if s := w.status("b", "a"); s.Connected || s.Suspicion != `alive for "c"` {
					t.Errorf("a sees %+v: the test tested nothing", s)
				}
				w.net.cut("a", "b", false)
				w.after(11 * time.Minute)
				w.wantFencings(0, 0)
				w.wantConnected()
			})
		})
	}
}

// TestOneWayPartitionOfTwoFencesNobody: one of the two hears the other. It is told that it is not
// heard, and shows that it lives before its silence has reached the bound.
func TestOneWayPartitionOfTwoFencesNobody(t *testing.T) {
	inWorld(t, names(2), nil, func(w *world) {
		w.brokersSee(func(_ string, s Suspect) (bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.lives[s.Instance] > 0, nil
		})
		w.net.block("a", "b", true)
		w.after(time.Minute)
		w.wantFencings(0, 0)
		if looks, _ := w.asked(); looks == 0 {
			t.Error("the brokers were not asked: the test tests nothing")
		}
	})
}

// TestSecondOpinionIsNeeded is the negative control: without it, a partition between two of three
// fences instances that live.
func TestSecondOpinionIsNeeded(t *testing.T) {
	inWorld(t, names(3), func(c *Config) { c.withoutOpinions = true }, func(w *world) {
		w.net.cut("a", "b", true)
		w.after(time.Minute)
		if len(w.fencings()) == 0 {
			t.Error("nobody was fenced: the second opinion prevents nothing")
		}
	})
}

// restart kills b and starts it at another address, which no plan tells; the old address does not
// answer.
func restart(w *world) {
	old := w.nodes["b"]
	w.kill("b")
	for _, other := range []string{"a", "c"} {
		w.net.owners[old.address] = "gone"
		w.net.cut(other, "gone", true)
	}
	members := []Member{{"a", w.nodes["a"].address}, {"b", old.address}, {"c", w.nodes["c"].address}}
	w.start("b").SetMembers(members)
}

// TestRestartedInstanceIsNotFenced, whether its new process is there before the opinions are, or
// when the fencing is already at work.
func TestRestartedInstanceIsNotFenced(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		restart(w)
		w.after(time.Minute)
		w.wantFencings(0, 0)
		w.wantConnected()
		if a := w.status("b", "a").Address; a != w.nodes["b"].address {
			t.Errorf("a dials b at %s, which listens on %s", a, w.nodes["b"].address)
		}
	})
}

// TestRestartRuleIsNeeded is the negative control: without the rule, the incarnation before the
// restart is fenced.
func TestRestartRuleIsNeeded(t *testing.T) {
	inWorld(t, names(3), func(c *Config) { c.withoutRestarts = true }, func(w *world) {
		restart(w)
		w.after(time.Minute)
		if len(w.fencings()) == 0 {
			t.Error("nothing was fenced: the rule prevents nothing")
		}
	})
}

// TestRestartEndsTheFencingAtWork: the context of the fencing ends when the new process says hello.
func TestRestartEndsTheFencingAtWork(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		var cause error
		w.onFence(func(ctx context.Context, _ string, _ Suspect) error {
			<-ctx.Done()
			cause = ctx.Err()
			return cause
		})
		w.kill("b")
		w.after(time.Second)
		w.start("b").SetMembers([]Member{{"a", w.nodes["a"].address}, {"c", w.nodes["c"].address}})
		w.after(2 * time.Second)
		if !errors.Is(cause, context.Canceled) {
			t.Errorf("the fencing has ended with %v", cause)
		}
		w.after(time.Minute)
		w.wantFencings(0, 10*time.Millisecond, "b")
	})
}

// TestStoppedInstanceIsNotFenced: peers that heard the goodbye tell it to one that did not.
func TestStoppedInstanceIsNotFenced(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		w.net.cut("a", "b", true)
		w.after(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := w.nodes["b"].Goodbye(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Goodbye returns %v although a cannot hear it", err)
		}
		w.kill("b")
		w.after(time.Minute)
		w.wantFencings(0, 0)
	})
}

// TestGoodbyeReturnsWhenAllHaveHeardIt: a goodbye takes one round trip. The refusals that follow
// are part of an orderly stop: no warning is logged for them.
func TestGoodbyeReturnsWhenAllHaveHeardIt(t *testing.T) {
	inWorld(t, names(5), nil, func(w *world) {
		if err := w.nodes["b"].Goodbye(context.Background()); err != nil || time.Since(w.began) > 2*w.net.latency {
			t.Errorf("Goodbye returns %v after %s", err, time.Since(w.began))
		}
		w.after(10 * time.Second) // it is dialled, and refuses
		if s := w.status("b", "a"); s.Connected || s.Suspicions != 0 {
			t.Errorf("a sees %+v", s)
		}
		for _, name := range []string{"a", "b"} {
			if n := w.nodes[name].Status().Refused; n != 0 || w.loggedBy(name, "no connection with a peer") > 0 {
				t.Errorf("%s counts %d refusals of an instance that stops", name, n)
			}
		}
		w.kill("b")
		w.after(time.Minute)
		w.wantFencings(0, 0)
	})
}
