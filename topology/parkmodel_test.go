package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// TestG6Model: whatever fails and however often, with restarts in between, and crashes and aborts
// that undo what is not committed, every record of a key is written in order, or dies, once.
func TestG6Model(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		defer topology.SetAgendaMax(rapid.SampledFrom([]int{1, 2, 1 << 16}).Draw(rt, "agenda"))()
		l := &lot{tb: rt, broken: map[string]error{}}
		l.Driver = l.open(parkPolicy(rapid.SampledFrom([]int{2, 3, 5}).Draw(rt, "attempts"), topology.DeadLetter),
			topologytest.CommitByHand())
		sent := map[string][]string{}
		for i := range rapid.IntRange(1, 40).Draw(rt, "records") {
			key := rapid.SampledFrom([]string{"a", "b", "c", "-"}).Draw(rt, "key")
			value := fmt.Sprintf("%s%d", key, i)
			if rapid.IntRange(0, 3).Draw(rt, "breaks") == 0 {
				l.broken[value] = errBroken
			}
			sent[key] = append(sent[key], value)
			l.pipe(key + "=" + value)
			var step func() error
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0:
				step = l.Restart
			case 4:
				step = l.Commit
			case 5:
				step = l.Crash
			case 6:
				step = l.Abort
			case 1, 2:
				l.advance(time.Duration(rapid.IntRange(0, 5000).Draw(rt, "ms")) * time.Millisecond)
			case 3:
				clear(l.broken)
			}
			if step == nil {
				continue
			}
			if err := step(); err != nil {
				rt.Fatal(err)
			}
		}
		l.advance(time.Hour)
		if err := l.Commit(); err != nil {
			rt.Fatal(err)
		}
		l.wantEmpty()
		l.wantOnce(sent)
	})
}

// wantOnce compares what was written and what died with what was sent.
func (l *lot) wantOnce(sent map[string][]string) {
	records, err := topologytest.Output(l.Driver, parkOut)
	if err != nil {
		l.tb.Fatal(err)
	}
	letters, err := l.DeadLetters()
	if err != nil {
		l.tb.Fatal(err)
	}
	dead := map[string]int{}
	for _, d := range letters {
		dead[string(d.Value)]++
	}
	got, counts := map[string][]string{}, map[string]int{}
	for _, r := range records {
		key := r.Key.Or("-")
		value, rest, _ := strings.Cut(r.Value, "#")
		got[key] = append(got[key], value)
		counts[key]++
		if key != "-" && !strings.HasPrefix(rest, fmt.Sprintf("%d@", counts[key])) {
			l.tb.Errorf("%s was counted out of order", r.Value)
		}
	}
	for key, values := range sent {
		want := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return dead[v] > 0 })
		if key == "-" {
			slices.Sort(want)
			slices.Sort(got[key])
		}
		if !slices.Equal(got[key], want) && len(got[key])+len(want) > 0 {
			l.tb.Errorf("key %s: written %q, want %q", key, got[key], want)
		}
	}
	for v, n := range dead {
		if n > 1 {
			l.tb.Errorf("%s died %d times", v, n)
		}
	}
}
