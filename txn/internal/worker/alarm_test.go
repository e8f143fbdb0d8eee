package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAlarm: it rings when the time is over and not before, and no more once it was stopped or set
// again.
func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarm
		expect := func(want bool, when string) {
			t.Helper()
			synctest.Wait()
			if a.rang() != want {
				t.Errorf("%s it rang: %v", when, a.rang())
			}
		}
		a.set(5 * time.Millisecond)
		time.Sleep(4 * time.Millisecond)
		expect(false, "before its time")
		time.Sleep(2 * time.Millisecond)
		expect(true, "after its time")
		a.set(5 * time.Millisecond)
		expect(false, "when it was set anew")
		a.stop()
		time.Sleep(time.Second)
		expect(false, "when it was stopped")
	})
}

// TestSliceEndsWithTheInterval: a slice takes no longer than the open round has left, and a round
// whose interval is over does not cut slices to nothing.
func TestSliceEndsWithTheInterval(t *testing.T) {
	began := time.Now()
	for _, c := range []struct {
		interval, age time.Duration
		open          bool
		want          time.Duration
	}{
		{interval: 100 * time.Millisecond, want: sliceTime},
		{interval: 2 * time.Millisecond, want: 2 * time.Millisecond},
		{interval: 100 * time.Millisecond, open: true, want: sliceTime},
		{interval: 100 * time.Millisecond, open: true, age: 97 * time.Millisecond, want: 3 * time.Millisecond},
		{interval: 100 * time.Millisecond, open: true, age: 100 * time.Millisecond, want: sliceTime},
		{interval: 100 * time.Millisecond, open: true, age: time.Minute, want: sliceTime},
	} {
		w := &Worker{cfg: Config{Cadence: Cadence{IntervalMax: c.interval}}}
		if c.open {
			w.open = newRound(0, outputs{})
			w.open.started = began.Add(-c.age)
		}
		s := slice{w: w, began: began}
		if got := s.most(); got != c.want {
			t.Errorf("a slice may take %s, want %s: %+v", got, c.want, c)
		}
	}
}
