package processing

import (
	"fmt"

	"github.com/onceward/onceward/topology/graph"
)

// age advances the time until the inbox has expired all facts so far, and returns the first time
// that has not expired.
func (h *history) age() (before int64) {
	h.began = h.began.Add(2 * Retention)
	return h.began.Add(-Retention).UnixMilli()
}

// clock is the account whose facts tell that time has passed.
const clock = "clock"

// ticks are facts of the clock, at least one for each partition of the inbox. There are enough
// copies to archive the expired ids of some deliveries: the inbox archives two ids with each
// record.
func (h *history) ticks(of []delivery) (out []delivery) {
	forgotten, seen := map[int32]int{}, map[string]bool{}
	for _, d := range of {
		if e, err := decode[Event]([]byte(d.value)); err == nil && !seen[e.ID] {
			seen[e.ID] = true
			forgotten[graph.PartitionOf([]byte(e.ID), Partitions)]++
		}
	}
	version := int64(0)
	for _, f := range h.facts {
		if f.account == clock {
			version = f.Version
		}
	}
	for served := map[int32]bool{}; len(served) < Partitions; {
		h.made++
		version++
		f := fact{clock, Event{ID: fmt.Sprint(clock, "-", version), Version: version, Kind: Deposit, Amount: 1}, h.now()}
		if version == 1 {
			f.Kind, f.Amount = Open, 0
		}
		h.facts = append(h.facts, f)
		p := graph.PartitionOf([]byte(f.ID), Partitions)
		out = append(out, deliver(f))
		for range forgotten[p] / 2 {
			out = append(out, deliver(f))
		}
		forgotten[p], served[p] = 0, true
	}
	return out
}

// clean delivers facts once, in order.
func clean(facts []fact) (out []delivery) {
	for _, f := range facts {
		out = append(out, deliver(f))
	}
	return out
}
