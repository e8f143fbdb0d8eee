package worker

import (
	"testing"
	"time"
)

// TestDueIn: a round that sends something commits as soon as its worker is idle. It does not commit
// sooner after the last commit than the least interval, the smoothed commit time and the budget of
// markers demand, and never later than the longest interval. A round that sends nothing waits for
// 10 s, unless its journal takes the room of new input (rules 2.5 and 10.2).
func TestDueIn(t *testing.T) {
	const ms = time.Millisecond
	now := time.Unix(1_000_000, 0)
	for _, tc := range []struct {
		name                        string
		age, sinceSeal, smoothed    time.Duration
		outputs, nothing, idle, big bool // nothing: the round has only been begun; big: the journal is at its bound
		spent                       int  // markers beyond what the budget has in advance
		want                        time.Duration
	}{
		{name: "busy: the longest interval", age: 30 * ms, sinceSeal: time.Second, outputs: true, want: 70 * ms},
		{name: "busy and old: due", age: 100 * ms, sinceSeal: time.Second, outputs: true, want: 0},
		{name: "busy and late", age: 130 * ms, sinceSeal: time.Second, outputs: true, want: -30 * ms},
		{name: "idle, the last commit long ago", age: ms, sinceSeal: time.Second, outputs: true, idle: true, want: 0},
		{name: "idle, the least interval", age: ms, sinceSeal: 2 * ms, outputs: true, idle: true, want: 3 * ms},
		{name: "idle, the commit time", age: ms, sinceSeal: 2 * ms, smoothed: 20 * ms, outputs: true, idle: true, want: 18 * ms},
		{name: "idle, a commit time below the least interval", age: ms, sinceSeal: 2 * ms, smoothed: ms, outputs: true, idle: true, want: 3 * ms},
		{name: "idle, commits slower than the longest interval", age: 60 * ms, sinceSeal: 2 * ms, smoothed: time.Second, outputs: true,
			idle: true, want: 40 * ms},
		{name: "idle, over the budget", age: ms, sinceSeal: time.Second, outputs: true, idle: true, spent: 20, want: 20 * ms},
		{name: "idle, far over the budget: the longest interval", age: ms, sinceSeal: time.Second, outputs: true, idle: true, spent: 500,
			want: 99 * ms},
		{name: "busy, over the budget: no matter", age: 30 * ms, sinceSeal: time.Second, outputs: true, spent: 20, want: 70 * ms},
		{name: "no output, idle", age: time.Second, sinceSeal: time.Minute, idle: true, want: 9 * time.Second},
		{name: "no output, busy", age: time.Second, sinceSeal: time.Minute, want: 9 * time.Second},
		{name: "no output for 10 s", age: 10 * time.Second, sinceSeal: time.Minute, idle: true, want: 0},
		{name: "no output, the journal is full", age: time.Second, sinceSeal: time.Minute, big: true, want: -900 * ms},
		{name: "nothing was worked on, outputs of a round that runs again", age: time.Second, sinceSeal: time.Minute, outputs: true,
			nothing: true, want: 9 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const perSecond = 1000
			budget := NewBudget(perSecond, func() {})
			if tc.spent > 0 {
				budget.spend(now, perSecond+tc.spent) // a second's worth is there in advance
			}
			c := cadence{
				Cadence: Cadence{
					EmptyMax: EmptyMaxDefault, IntervalMin: 5 * ms, IntervalMax: 100 * ms, BytesMax: 1 << 20,
					HeldBytesMax: func() int64 { return 1 << 10 },
				},
				lastSeal: now.Add(-tc.sinceSeal), smoothed: tc.smoothed,
			}
			r := newRound(0, outputs{})
			r.started, r.worked = now.Add(-tc.age), !tc.nothing
			if tc.outputs {
				r.outputs.origins = []origin{{}}
			}
			if tc.big {
				r.held = c.HeldBytesMax()
			}
			if got := c.dueIn(now, r, tc.idle, budget); got != tc.want {
				t.Errorf("due in %s, want %s", got, tc.want)
			}
		})
	}
}

// TestSmoothedCommitTime: one commit moves the smoothed time by an eighth, and a slow one counts as
// no more than twice the expected time. The first commit of a producer has to find its brokers, and
// must not make the first second of an application slow (rule 10.2).
func TestSmoothedCommitTime(t *testing.T) {
	const ms = time.Millisecond
	c := cadence{Cadence: Cadence{IntervalMin: 5 * ms}}
	c.committed(400 * ms)
	if want := 5 * ms / 8; c.smoothed != want {
		t.Fatalf("after a first commit of 400 ms the smoothed time is %s, want %s", c.smoothed, want)
	}
	for range 100 {
		c.committed(80 * ms)
	}
	if c.smoothed < 79*ms {
		t.Fatalf("after 100 commits of 80 ms the smoothed time is %s", c.smoothed)
	}
	c.smoothed = 8 * ms
	c.committed(12 * ms)
	if want := 8*ms + ms/2; c.smoothed != want {
		t.Errorf("after one commit of 12 ms the smoothed time is %s, want %s", c.smoothed, want)
	}
	c.smoothed = 8 * ms
	c.committed(time.Second)
	if want := 8*ms + (21-8)*ms/8; c.smoothed != want {
		t.Errorf("after one commit of 1 s the smoothed time is %s, want %s", c.smoothed, want)
	}
}

// TestStreamsEarlyAfterLargeRound: output of the round after one that the byte bound has ended is
// sent ahead sooner (rule 2.1).
func TestStreamsEarlyAfterLargeRound(t *testing.T) {
	var c cadence
	large, small := newRound(0, outputs{}), newRound(1, outputs{})
	large.full = true
	c.sealed(time.Now(), large)
	if c.streamAt() >= streamBytes {
		t.Error("after a large round the next one keeps its output")
	}
	c.sealed(time.Now(), small)
	if c.streamAt() != streamBytes {
		t.Errorf("after a small round output is sent ahead from %d bytes on, want %d", c.streamAt(), streamBytes)
	}
}
