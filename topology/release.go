package topology

import (
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology/graph"
)

// release is the turn of the first record of a parked key. Which record that is shows when it runs,
// and can be another one when it runs again: what was tried before it may succeed this time. So it
// remembers the one that it has tried last.
type release struct {
	parking *parking
	key     parkedKey
	// fault is why the search for a key has failed, in place of a key.
	fault error
	// tried says that it has tried the record at offset.
	tried  bool
	offset int64
	// refused is why the cluster takes no output of the record at refusedAt; empty while it has
	// refused none.
	refused   string
	refusedAt int64
}

// Tried returns the position of the record that the last run of a release has tried. ok is false if
// it has tried none, or if p is no release.
func (p *Punctuation) Tried() (topic string, partition int32, offset int64, ok bool) {
	r := p.release
	if r == nil || !r.tried {
		return "", 0, 0, false
	}
	return r.parking.topic, r.parking.graph.id.Partition, r.offset, true
}

// Refuse is [Graph.Refuse] for the record that a release has tried. When p runs again and comes to
// that record, it does not process the record, and applies the record's error policy. Where the
// policy says Park or Delay, the record becomes a dead letter. what quotes nothing of the record.
// Refuse does nothing if p has tried no record.
func (p *Punctuation) Refuse(what string) {
	if r := p.release; r != nil && r.tried {
		r.refused, r.refusedAt = what, r.offset
	}
}

// Refused reports whether Refuse was called for the record that a release has tried. Then the
// cluster has refused the result of its policy too.
func (p *Punctuation) Refused() bool {
	r := p.release
	return r != nil && r.tried && r.refused != "" && r.refusedAt == r.offset
}

// run tries the record.
func (r *release) run(due Punctuation) graph.Verdict {
	p, g := r.parking, r.parking.graph
	r.tried = false
	g.begin(&graph.Input{StreamTime: due.StreamTime, StreamTimeBefore: due.StreamTime, Attempt: 1})
	if r.fault != nil {
		return g.stop(parkedFault("search", r.fault))
	}
	h, ok, err := p.load(r.key)
	switch {
	case err != nil:
		return g.stop(err)
	case !ok:
		return graph.Verdict{Action: graph.Accept} // released meanwhile
	case h.due > due.At.UnixMilli():
		p.plan(r.key, h) // it has failed meanwhile, and waits again
		return graph.Verdict{Action: graph.Accept}
	}
	in, err := p.first(r.key, h)
	if err != nil {
		return g.stop(parkedFault("release", err))
	}
	in.Attempt++
	in.StreamTimeBefore, in.StreamTime = due.StreamTime, max(due.StreamTime, in.Timestamp)
	g.in, g.eventTime = in, in.Timestamp
	g.released, p.at, p.head = p, r.key, h
	r.tried, r.offset = true, in.Offset
	if due.Refused() {
		g.unparkable = true
		_ = g.fail(nil, Fail(Validation, schemas.Reason(r.refused)))
	} else {
		g.run(g.source(p.topic))
	}
	if g.failure == nil {
		if err := p.remove(); err != nil {
			return g.stop(err)
		}
	}
	v := g.conclude()
	v.Released = in.Topic
	if v.Action == graph.Accept {
		v.Wrote = true
		v.Counts = append(v.Counts, graph.OutcomeCount{Node: p.node, Outcome: "released", N: 1})
		g.counts = v.Counts
	}
	return v
}

// first returns the first record of a queue, as it was read. Its attempt is the number of those
// before.
func (p *parking) first(key parkedKey, h parkedHeadRow) (in graph.Input, err error) {
	row, ok, err := p.rows.Get(p.rowKey(key, h.first))
	switch {
	case err != nil:
		return in, err
	case !ok:
		return in, errParkedRow
	}
	if in, err = parseParkedRow(row); err != nil {
		return in, err
	}
	in.Topic, in.Partition = p.topic, p.graph.id.Partition
	return in, nil
}
