package worker

// pace makes rounds smaller after one that was too slow for its transaction: run again as it was,
// it would be too slow for ever. A limited round sends nothing before its last entry was processed,
// and nothing is computed beside it.
type pace struct {
	// entries is the most that a round may take; 0 is no limit.
	entries int
	// successes counts the rounds that were committed since the limit changed.
	successes int
	// slow is the size of the round that set the limit.
	slow int
}

// paceSuccesses is after how many committed rounds the limit doubles.
const paceSuccesses = 10

func (p *pace) limited() bool { return p.entries > 0 }

func (p *pace) enough(entries int) bool { return p.entries > 0 && entries >= p.entries }

// tooSlow halves, down to one entry.
func (p *pace) tooSlow(entries int) {
	p.slow = max(p.slow, entries)
	p.entries, p.successes = max(1, entries/2), 0
}

// committed doubles the limit after paceSuccesses rounds, and lifts it once the size that was too
// slow is reached again.
func (p *pace) committed() {
	if p.entries == 0 {
		return
	}
	p.successes++
	if p.successes < paceSuccesses {
		return
	}
	p.entries, p.successes = 2*p.entries, 0
	if p.entries > p.slow {
		*p = pace{}
	}
}
