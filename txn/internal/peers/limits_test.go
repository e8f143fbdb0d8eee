package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestNextWatcherFencesIfTheFencerDies in the middle.
func TestNextWatcherFencesIfTheFencerDies(t *testing.T) {
	inWorld(t, names(4), nil, func(w *world) {
		hang := make(chan struct{})
		w.onFence(func(ctx context.Context, fencer string, s Suspect) error {
			if fencer == "c" {
				<-hang
			}
			return ctx.Err()
		})
		w.kill("b")
		w.after(1500 * time.Millisecond)
		w.wantFencings(0, 10*time.Millisecond, "b") // c goes on for longer than the turn of the next one
		if c := w.fencings()[0]; c.fencer != "c" {
			t.Fatalf("%s fences, and c is the next in the ring", c.fencer)
		}
		w.net.kill("c")
		close(hang)
		w.kill("c")
		w.after(time.Minute)
		w.wantFencings(0, 4*time.Second, "b", "b", "c")
		for _, c := range w.fencings()[1:] {
			if c.fencer != "d" {
				t.Errorf("%s has fenced %s, and d is the next in the ring", c.fencer, c.s.Instance)
			}
		}
	})
}

// TestFailedFencingIsTriedAgain with growing pauses, and then given up. The others take their turn.
func TestFailedFencingIsTriedAgain(t *testing.T) {
	inWorld(t, names(2), nil, func(w *world) {
		w.onFence(func(context.Context, string, Suspect) error { return errFence })
		w.kill("b")
		w.after(time.Hour)
		var pauses []time.Duration
		calls := w.fencings()
		for i, c := range calls[1:] {
			pauses = append(pauses, (c.at - calls[i].at).Round(100*time.Millisecond))
		}
		want := slices.Concat([]time.Duration{time.Second}, slices.Repeat([]time.Duration{failurePauseMax}, failuresMax-2))
		if !slices.Equal(pauses, want) {
			t.Errorf("the pauses are %v, want %v", pauses, want)
		}
		if s := w.status("b", "a").Suspicion; !strings.Contains(s, "left to the session timeout") || !strings.Contains(s, errFence.Error()) {
			t.Errorf("the suspicion says %q", s)
		}
	})
	inWorld(t, names(3), nil, func(w *world) {
		w.onFence(func(_ context.Context, fencer string, _ Suspect) error {
			if fencer == "c" {
				return errFence
			}
			return nil
		})
		w.kill("b")
		w.after(time.Minute)
		if calls := w.fencings(); calls[len(calls)-1].fencer != "a" || calls[len(calls)-1].at > 5*time.Second {
			t.Errorf("a has to fence when c cannot: %v", calls)
		}
	})
}

// TestFencingThatHangsHoldsUpNoOther: the markers of one suspect cannot be written. Another one
// that dies is fenced meanwhile.
func TestFencingThatHangsHoldsUpNoOther(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		w.onFence(func(ctx context.Context, _ string, s Suspect) error {
			if s.Instance == "b" {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		w.kill("b")
		w.after(500 * time.Millisecond)
		w.kill("c")
		w.after(FenceTimeout - time.Second)
		var at []time.Duration
		for _, c := range w.fencings() {
			if c.fencer == "a" && c.s.Instance == "c" {
				at = append(at, c.at)
			}
		}
		if len(at) != 1 || at[0] > 5*time.Second {
			t.Errorf("c is fenced after %v, want once, while the fencing of b is at work: %v", at, w.fencings())
		}
	})
}

// TestIncarnationFencedInVainIsLeft after three times, with a warning, for an hour.
func TestIncarnationFencedInVainIsLeft(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		round := func() {
			w.cutOff("b", true)
			time.Sleep(10 * time.Second)
			w.cutOff("b", false)
			time.Sleep(10 * time.Second)
		}
		for range 5 {
			round()
		}
		w.wantFencings(0, time.Minute, "b", "b", "b")
		for _, name := range []string{"a", "c"} {
			if n := w.status("b", name).FencedInVain; n != 3 {
				t.Errorf("%s counts %d fencings in vain", name, n)
			}
		}
		if n := w.logged("is left to the session timeout"); n != 2 {
			t.Errorf("%d warnings, want one of each of the others", n)
		}
		w.cutOff("b", true)
		time.Sleep(10 * time.Second)
		if s := w.status("b", "a").Suspicion; !strings.HasPrefix(s, "left to the session timeout") {
			t.Errorf("the suspicion says %q", s)
		}
		w.cutOff("b", false)
		time.Sleep(vainFor)
		round()
		if n := len(w.fencings()); n != 4 {
			t.Errorf("%d fencings, want one more after an hour", n)
		}
	})
}

// TestDeathAfterAFencingInVainIsFenced, although a peer that has not heard of the return reports
// the fencing.
func TestDeathAfterAFencingInVainIsFenced(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		w.cutOff("b", true)
		w.after(10 * time.Second)
		w.net.cut("b", "c", false)
		w.after(20 * time.Second)
		if s := w.status("b", "a").Suspicion; w.status("b", "c").FencedInVain != 1 || !strings.HasPrefix(s, "fenced") {
			t.Fatalf("a says %q, and c sees %+v: the test tests nothing", s, w.status("b", "c"))
		}
		w.kill("b")
		w.after(time.Minute)
		w.wantFencings(0, 21*time.Second, "b", "b")
	})
}

// TestFencingsAreLimited: three of five instances die and come back all the time, and then for
// good.
func TestFencingsAreLimited(t *testing.T) {
	all := names(5)
	inWorld(t, all, nil, func(w *world) {
		for generation := range 12 {
			for _, name := range all[2:] {
				w.kill(name)
			}
			time.Sleep(5 * time.Second)
			if generation < 11 {
				for _, name := range all[2:] {
					w.start(name)
				}
				w.plan(all...)
				time.Sleep(2 * time.Second)
			}
		}
		w.after(5 * time.Minute)
		if n := len(w.fencings()); n < 2*fencingsMax {
			t.Errorf("%d fencings: the limits were not reached", n)
		}
		w.checkLimits()
	})
}

// checkLimits fails unless every fencer kept the limits.
func (w *world) checkLimits() {
	w.t.Helper()
	of := map[string][]time.Duration{}
	vain := map[string][]time.Duration{}
	for _, c := range w.fencings() {
		of[c.fencer] = append(of[c.fencer], c.at)
		key := fmt.Sprint(c.fencer, " of ", c.s.Instance, c.s.Incarnation)
		vain[key] = append(vain[key], c.at)
	}
	atMost := func(who string, at []time.Duration, n int, within time.Duration) {
		for i := n; i < len(at); i++ {
			if d := at[i] - at[i-n]; d < within {
				w.t.Errorf("%s: %d fencings within %s", who, n+1, d)
			}
		}
	}
	for who, at := range of {
		atMost(who, at, 1, fencingPause)
		atMost(who, at, fencingsMax, fencingsFor)
	}
	for who, at := range vain {
		atMost(who, at, vainMax, vainFor)
	}
}

// TestFlappingLinks cuts and heals links at random for an hour. Every fenced instance could not be
// reached by its fencer.
func TestFlappingLinks(t *testing.T) {
	// With these seeds, dials that began before a link was healed hang for long.
	duration, seeds := time.Hour, []uint64{18, 31}
	if testing.Short() {
		duration, seeds = 10*time.Minute, []uint64{1}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { flapping(t, seed, duration) })
	}
}

func flapping(t *testing.T, seed uint64, duration time.Duration) {
	inWorld(t, names(4), nil, func(w *world) {
		all := names(4)
		pair := func(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }
		var mu sync.Mutex
		cut, healed := map[[2]string]bool{}, map[[2]string]time.Time{}
		w.onFence(func(ctx context.Context, fencer string, s Suspect) error {
			mu.Lock()
			defer mu.Unlock()
			p := pair(fencer, s.Instance)
			if ago := time.Since(healed[p]); !cut[p] && ago > roundAge+opinionMax {
				t.Errorf("%s fences %s, whose link was healed %s ago", fencer, s.Instance, ago)
			}
			return nil
		})
		random := rand.New(rand.NewPCG(1, seed))
		flap := func(a, b string) {
			mu.Lock()
			defer mu.Unlock()
			switch p := pair(a, b); {
			case cut[p]:
				w.net.cut(a, b, false)
				cut[p], healed[p] = false, time.Now()
			case random.IntN(4) == 0:
				w.net.reset(a, func(other string) bool { return other == b })
			default:
				cut[p] = true
				if w.net.block(a, b, true); random.IntN(2) == 0 {
					w.net.block(b, a, true)
				}
			}
		}
		for time.Since(w.began) < duration {
			if i, j := random.IntN(4), random.IntN(4); i != j {
				flap(all[i], all[j])
			}
			time.Sleep(time.Duration(random.Int64N(int64(4 * time.Second))))
		}
		for i, a := range all {
			for _, b := range all[:i] {
				w.net.cut(a, b, false)
			}
		}
		time.Sleep(time.Minute)
		w.wantConnected()
		w.checkLimits()
		t.Logf("%d fencings", len(w.fencings()))
	})
}

// TestFrozenProcessFencesNobody when it goes on, however long it was frozen. The others fence it,
// and each other never.
func TestFrozenProcessFencesNobody(t *testing.T) {
	sizes(t, func(t *testing.T, all []string) {
		for _, frozen := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
			inWorld(t, all, nil, func(w *world) {
				if len(all) == 2 {
					w.brokersSee(progress) // as they do after the freeze
				}
				w.nodes["b"].freeze()
				w.after(frozen)
				w.nodes["b"].thaw()
				w.after(2 * time.Minute)
				var want []string
				if frozen > 2*time.Second && len(all) > 2 {
					want = []string{"b"}
				}
				if len(all) > 2 {
					w.wantFencings(0, 3*time.Second, want...)
				}
				for _, c := range w.fencings() {
					if c.fencer == "b" {
						t.Errorf("the frozen process has fenced %s", c.s.Instance)
					}
				}
				w.wantConnected()
			})
		}
	}, 2, 3, 5)
}

// TestResetIsJudgedTwoHeartbeatsAfterAFreeze: a process that died in the meantime is fenced, but
// not at once.
func TestResetIsJudgedTwoHeartbeatsAfterAFreeze(t *testing.T) {
	inWorld(t, names(2), nil, func(w *world) {
		w.brokersSee(progress) // b asks about a
		a := w.nodes["a"]
		a.freeze()
		w.after(5 * time.Second)
		w.kill("b")
		a.thaw()
		w.after(time.Minute)
		calls := w.fencings()
		low := 5*time.Second + 2*a.cfg.Heartbeat
		if len(calls) != 1 || calls[0].s.Instance != "b" || calls[0].at < low || calls[0].at > low+10*time.Millisecond {
			t.Errorf("%+v, want b after %s", calls, low)
		}
	})
}

// TestAllProcessesFrozenTogether: processes that freeze together, as on a machine that stands
// still, fence no instance.
func TestAllProcessesFrozenTogether(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		for _, n := range w.nodes {
			n.freeze()
		}
		w.after(time.Minute)
		for _, n := range w.nodes {
			n.thaw()
		}
		w.after(2 * time.Minute)
		w.wantFencings(0, 0)
		w.wantConnected()
	})
}

// TestMemberThatLeftThePlanIsNotFenced.
func TestMemberThatLeftThePlanIsNotFenced(t *testing.T) {
	inWorld(t, names(3), nil, func(w *world) {
		members := []Member{{"a", w.nodes["a"].address}, {"c", w.nodes["c"].address}}
		w.cutOff("b", true)
		w.after(time.Second)
		for _, name := range []string{"a", "c"} {
			w.nodes[name].SetMembers(members)
		}
		w.after(time.Minute)
		w.wantFencings(0, 0)
	})
}
