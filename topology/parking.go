package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// parking is where the records of a source wait, one queue for each key that is parked. The queues
// are in the state; what is here beside them only says where to look.
//
// # Rows
//
//	'h' key                     the head: numbers of the first record and of the next one to come, attempts, times
//	'r' key number (8 bytes)    a record
//
// where key is a hash of the record's key.
//
// # What is in memory
//
// It is bounded, however many keys are parked. keys says whether any is: while none is, a record
// costs one comparison. filter excludes most keys that are not parked; the state decides about the
// others. It is emptied when no key is parked any more. If the round in which that happened is
// aborted, the filter reports every key until it is emptied again.
//
// timers holds when to look at a key next. A time may be too early, never too late: every write of
// a head goes through plan. Keys that the queue left out are searched in the rows, in small steps,
// once the first of them may be due.
type parking struct {
	graph *Graph
	// node is the source, topic its topic on the cluster.
	node  string
	topic string
	store string
	rows  state.Bytes
	// timed is set if the source decides about the time of its records, so that an invalid
	// timestamp may be no failure.
	timed bool
	// maxMessageBytes is the limit of the changelog, 0 if unknown.
	maxMessageBytes int

	filter parkedFilter
	// emptied counts how often the filter was.
	emptied int
	timers  timerQueue
	// from is where the search for keys that the timer queue left out continues, nil while no
	// search runs.
	from []byte
	// ready is the number of releases of key that come next.
	ready int
	key   parkedKey

	// keys and records count what is in the queues.
	keys, records int64

	// at and head are the key and the head of the record at work.
	at   parkedKey
	head parkedHeadRow
}

const (
	// releasesMax is how many records of one key are released before others have their turn.
	releasesMax = 64
	// lookMax is how many heads a step of the search looks at.
	lookMax = 256
)

// parkedKey is the hash of a key. A record without a key has one of its own, by its offset.
type parkedKey [16]byte

func parkedKeyOf(in *graph.Input) (k parkedKey) {
	b := make([]byte, 0, 64)
	if in.Key == nil {
		b = binary.BigEndian.AppendUint64(append(b, 0), uint64(in.Offset))
	} else {
		b = append(append(b, 1), in.Key...)
	}
	sum := sha256.Sum256(b)
	copy(k[:], sum[:])
	return k
}

// bit is the place of a key in a parkedFilter.
func (k parkedKey) bit() uint32 { return binary.BigEndian.Uint32(k[:]) % filterBits }

// hold adds the record at work to its queue if its key is parked. It is false for a record that is
// to be processed.
func (p *parking) hold() (graph.Verdict, bool) {
	g := p.graph
	if p.keys == 0 || g.in.Key == nil {
		return graph.Verdict{}, false
	}
	key := parkedKeyOf(&g.in)
	if !p.filter.may(key) {
		return graph.Verdict{}, false
	}
	h, ok, err := p.load(key)
	switch {
	case err != nil:
		return g.stop(err), true
	case !ok:
		return graph.Verdict{}, false
	case !p.timed && g.checkTimestamp(g.in.Timestamp) != nil:
		return graph.Verdict{}, false // it fails, and goes its own way: no record of the key before it can make it a good one
	}
	row := parkedRow(&g.in, 0, time.Time{})
	if !p.fits(p.rowKey(key, h.next), row) {
		// To process it would be out of order. It fails like a record that its node refuses.
		_ = g.fail(nil, Fail(Validation, errParkedTooLarge))
		g.unparkable = true
		return g.conclude(), true
	}
	if err := p.append(key, h, row); err != nil {
		return g.stop(parkedFault("hold", err)), true
	}
	return p.verdict(nil, "held"), true
}

// park begins a queue with the record at work, which has failed. It is false if the record cannot
// be kept.
func (p *parking) park(f *Failure, pause time.Duration) (graph.Verdict, bool) {
	g := p.graph
	now := g.config.Now()
	first := g.in.FirstFailure
	if first.IsZero() {
		first = now
	}
	key := parkedKeyOf(&g.in)
	h, ok, err := p.load(key)
	if err != nil {
		return g.stop(err), true
	}
	// A record can fail while its key is parked: hold has let it pass for its timestamp. It goes to
	// the end of the queue.
	row := parkedRow(&g.in, f.Attempt, first)
	if !p.fits(p.rowKey(key, h.next), row) {
		f.Note = "the record is too large to be parked"
		return graph.Verdict{}, false
	}
	if !ok {
		h.due = now.Add(pause).UnixMilli()
	}
	if err := p.append(key, h, row); err != nil {
		return g.stop(parkedFault("park", err)), true
	}
	v := p.verdict(f, parkedOutcomes[f.Class])
	v.Backoff = pause
	return v, true
}

// append adds a record to the queue with that head, which may be a new one.
func (p *parking) append(key parkedKey, h parkedHeadRow, row []byte) error {
	if err := p.rows.Put(p.rowKey(key, h.next), row); err != nil {
		return err
	}
	h.next++
	p.records++
	if h.next-h.first == 1 {
		p.keys++
	}
	return p.save(key, h)
}

// parkedOutcomes are what a record is counted as when it is parked or stays it.
var parkedOutcomes = func() (outcomes [classes]string) {
	for c := Transient; c <= Fatal; c++ {
		outcomes[c] = "parked-" + c.String()
	}
	return outcomes
}()

// remove takes the record at work, which was parked, off its queue. The next one is due at once.
func (p *parking) remove() error {
	h := p.head
	err := p.rows.Delete(p.rowKey(p.at, h.first))
	h.first, h.due = h.first+1, 0
	p.records--
	switch {
	case err != nil:
	case h.first == h.next:
		if p.keys--; p.keys == 0 {
			p.filter, p.emptied = parkedFilter{}, p.emptied+1
		}
		err = p.rows.Delete(headKey(p.at))
	default:
		err = p.save(p.at, h)
	}
	if err != nil {
		return parkedFault("remove", err)
	}
	return nil
}

// postpone notes that the record at work, which was parked, has failed again.
func (p *parking) postpone(f *Failure, pause time.Duration) graph.Verdict {
	g := p.graph
	now := g.config.Now()
	first := g.in.FirstFailure
	if first.IsZero() {
		first = now
	}
	h := p.head
	h.due = now.Add(pause).UnixMilli()
	err := p.rows.Put(p.rowKey(p.at, h.first), parkedRow(&g.in, f.Attempt, first))
	if err == nil {
		err = p.save(p.at, h)
	}
	if err != nil {
		return g.stop(parkedFault("postpone", err))
	}
	v := p.verdict(f, parkedOutcomes[f.Class])
	v.Backoff = pause
	return v
}

func (p *parking) verdict(f *Failure, outcome string) graph.Verdict {
	g := p.graph
	node := p.node
	if f != nil && f.Node != "" {
		node = f.Node
	}
	g.counts = append(g.counts[:0], graph.OutcomeCount{Node: node, Outcome: outcome, N: 1})
	return graph.Verdict{Action: Park, Wrote: true, Counts: g.counts, Failure: f}
}

// due returns the next release. A key whose queue is long gives several.
func (p *parking) due(now time.Time) (Punctuation, bool) {
	next := Punctuation{At: time.UnixMilli(now.UnixMilli()).UTC(), StreamTime: state.NoTime, Attempt: 1}
	for p.ready == 0 {
		if err := p.look(now); err != nil {
			next.release = &release{parking: p, fault: err} // it stops the task
			return next, true
		}
		e, ok := p.timers.take(now.UnixMilli())
		if !ok {
			return Punctuation{}, false
		}
		p.key, p.ready = e.key, e.waiting
	}
	p.ready--
	next.release = &release{parking: p, key: p.key}
	return next, true
}

// look takes one step of the search for keys that the timer queue left out. It begins a search when
// the first of those keys may be due.
func (p *parking) look(now time.Time) error {
	if p.from == nil {
		if !p.timers.lacks(now.UnixMilli()) {
			return nil
		}
		p.from, p.timers.beyond = []byte{graph.ParkedHead}, never
	}
	heads := 0
	for e, err := range p.rows.Scan(state.Range{From: p.from, To: []byte{graph.ParkedHead + 1}}) {
		if heads++; err == nil && heads > lookMax {
			p.from = append([]byte(nil), e.Key...)
			return nil
		}
		key, h, err := parseHead(e, err)
		if err != nil {
			return err
		}
		p.plan(key, h)
	}
	p.from = nil
	return nil
}

// parseHead reads the row of a head.
func parseHead(e state.Entry, err error) (key parkedKey, h parkedHeadRow, _ error) {
	if err == nil && len(e.Key) != 1+len(key) {
		err = errParkedRow
	}
	if err == nil {
		h, err = parseParkedHead(e.Value)
	}
	if err == nil {
		key = parkedKey(e.Key[1:])
	}
	return key, h, err
}

// NextRelease returns when DueRelease has something to do next; ok is false while nothing is
// parked.
func (g *Graph) NextRelease() (at time.Time, ok bool) {
	first := int64(never)
	for i := range g.sources {
		switch p := g.sources[i].parking; {
		case p == nil:
		case p.ready > 0 || p.from != nil:
			first = 0
		default:
			first = min(first, p.timers.next())
		}
	}
	return time.UnixMilli(first), first != never
}

// plan notes when to look at a key.
func (p *parking) plan(key parkedKey, h parkedHeadRow) {
	p.filter.add(key)
	p.timers.plan(key, h)
}

func (p *parking) load(key parkedKey) (h parkedHeadRow, ok bool, err error) {
	row, ok, err := p.rows.Get(headKey(key))
	if err == nil && ok {
		h, err = parseParkedHead(row)
	}
	if err != nil {
		return h, false, parkedFault("look", err)
	}
	return h, ok, nil
}

func (p *parking) save(key parkedKey, h parkedHeadRow) error {
	if err := p.rows.Put(headKey(key), h.row()); err != nil {
		return err
	}
	if p.graph.released != nil || h.next-h.first == 1 {
		p.plan(key, h) // those that join a queue change nothing about its first
	}
	return nil
}

// fits reports whether the changelog takes a row. The row of a record that is tried again grows by
// a few bytes.
func (p *parking) fits(key, row []byte) bool {
	const growth = 16
	return p.maxMessageBytes <= 0 || batchBytes(&graph.Output{Key: key, Value: row})+growth <= p.maxMessageBytes
}

func headKey(key parkedKey) []byte { return append([]byte{graph.ParkedHead}, key[:]...) }

func (p *parking) rowKey(key parkedKey, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{graph.ParkedRecord}, key[:]...), number)
}
