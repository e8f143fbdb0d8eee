package health

import (
	"slices"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	at := time.Unix(1000, 0)
	waiting, quick, slow := &Loop{Name: "waiting"}, &Loop{Name: "quick"}, &Loop{Name: "slow"}
	waiting.Began(at)
	waiting.Waits()
	quick.Began(at.Add(50 * time.Second))
	slow.Began(at)
	loops := []*Loop{waiting, quick, slow}

	if got := Check(loops, at.Add(time.Minute), time.Minute); len(got) != 0 {
		t.Errorf("at the bound %v are stuck, want none", got)
	}
	want := []Stuck{{"slow", 61}}
	if got := Check(loops, at.Add(61*time.Second), time.Minute); !slices.Equal(got, want) {
		t.Errorf("past the bound %v are stuck, want %v", got, want)
	}
	slow.Began(at.Add(61 * time.Second)) // got on
	if got := Check(loops, at.Add(62*time.Second), time.Minute); len(got) != 0 {
		t.Errorf("after progress %v are stuck, want none", got)
	}
	if got := slow.Busy(at); got != 0 {
		t.Errorf("a clock that went back makes the loop busy for %s", got)
	}
}
