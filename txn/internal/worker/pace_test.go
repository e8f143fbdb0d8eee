package worker

import "testing"

// succeed lets n rounds of the size that the pace allows be committed.
func (p *pace) succeed(n int) {
	for range n {
		p.committed()
	}
}

// TestPace: a round that was too slow is halved, down to one entry; after ten rounds that were
// committed the size doubles, and nothing is limited any more once the size that was too slow has
// been committed again (rule 9.5).
func TestPace(t *testing.T) {
	var p pace
	p.succeed(100)
	if p.limited() || p.enough(1<<30) {
		t.Fatal("a pace that was never too slow limits rounds")
	}
	for _, want := range []int{500, 250, 125, 62, 31, 15, 7, 3, 1, 1, 1} {
		size := p.entries
		if size == 0 {
			size = 1000
		}
		p.tooSlow(size)
		if p.entries != want || !p.limited() || !p.enough(want) || p.enough(want-1) {
			t.Fatalf("after a slow round of %d entries the limit is %d, want %d", size, p.entries, want)
		}
	}
	for _, want := range []int{2, 4, 8, 16, 32, 64, 128, 256, 512} {
		before := p.entries
		p.succeed(paceSuccesses - 1)
		if p.entries != before {
			t.Fatalf("nine rounds of %d entries have moved the limit to %d", before, p.entries)
		}
		p.succeed(1)
		if p.entries != want {
			t.Fatalf("ten rounds of %d entries have moved the limit to %d, want %d", before, p.entries, want)
		}
	}
	p.succeed(paceSuccesses)
	if p != (pace{}) {
		t.Errorf("the limit is %d although the next size is above the 1000 entries that were too slow", p.entries)
	}
}

// A slow round between successes starts their count anew, and one that is smaller than the first
// slow one does not make the limit go earlier (rule 9.5).
func TestPaceAfterSecondSlowRound(t *testing.T) {
	var p pace
	p.tooSlow(64)
	p.succeed(paceSuccesses - 1)
	p.tooSlow(32)
	p.succeed(paceSuccesses - 1)
	if p.entries != 16 {
		t.Fatalf("the limit is %d after a slow round and nine good ones, want 16", p.entries)
	}
	p.succeed(1)
	if p.entries != 32 {
		t.Fatalf("the limit is %d after ten good rounds, want 32", p.entries)
	}
	p.succeed(paceSuccesses)
	if p.entries != 64 {
		t.Fatalf("the limit is %d, want 64: the size that was too slow is tried before the limit goes", p.entries)
	}
	p.tooSlow(64)
	if p.entries != 32 {
		t.Fatalf("the limit is %d after 64 entries were too slow again, want 32", p.entries)
	}
	p.succeed(2 * paceSuccesses)
	if p.limited() {
		t.Errorf("the limit is %d after 64 entries were committed, want none", p.entries)
	}
}
