package topology

import (
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/onceward/onceward/state"
)

// parking is where the records of a source wait, one queue for each key that is parked. The queues are in the state; what is here
// beside them only says where to look.
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
// known are the keys that may be parked: those that were when the graph was made, and those since. It never forgets one, because
// a round that is aborted brings back what was there before it, and the record that is played again then has to be held again. So
// it is a superset, and the state decides; a key that is not in it costs one look into a map, and no map at all while nothing was
// ever parked.
//
// agenda says when to look at a key next. It may be early, never late: every way of writing a head goes through plan.
type parking struct {
	graph *Graph
	// node is the source, topic what it reads on the cluster.
	node  string
	topic string
	store string
	rows  state.Bytes
	// timed says that the source has a say in the time of its records, so that a bad timestamp need not be a failure.
	timed bool
	// maxMessageBytes is the limit of the changelog, 0 if it is not known.
	maxMessageBytes int

	known map[parkedKey]struct{}
	// planned has the one appointment of a key that counts.
	planned map[parkedKey]int64
	// any says that there are too many keys to know them: the state is asked for every record.
	any    bool
	agenda agenda
	// ready are releases of key that come next, one after the other.
	ready int
	key   parkedKey

	// keys and records count what is in the queues.
	keys, records int64

	// at and head are the key and the head of the record at work.
	at   parkedKey
	head parkedHeadRow
}

const (
	parkedHead   = 'h'
	parkedRecord = 'r'

	// knownMax bounds what is kept in memory about keys.
	knownMax = 1 << 17
	// releasesMax is how many records of one key are released before others have their turn.
	releasesMax = 64
)

// parkedKey is the hash of a key. A record without a key has one of its own, by its offset.
type parkedKey [16]byte

func parkedKeyOf(in *Input) (k parkedKey) {
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

// hold adds the record at work to its queue if its key is parked. It is false for a record that is to be processed.
func (p *parking) hold() (Verdict, bool) {
	g := p.graph
	if len(p.known) == 0 && !p.any || g.in.Key == nil {
		return Verdict{}, false
	}
	key := parkedKeyOf(&g.in)
	if _, may := p.known[key]; !may && !p.any {
		return Verdict{}, false
	}
	h, ok, err := p.load(key)
	switch {
	case err != nil:
		return g.stop(err), true
	case !ok:
		return Verdict{}, false
	case !p.timed && g.checkTimestamp(g.in.Timestamp) != nil:
		return Verdict{}, false // it fails, and goes its own way: no record of the key before it can make it a good one
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

// park begins a queue with the record at work, which has failed. It is false if the record cannot be kept.
func (p *parking) park(f *Failure, pause time.Duration) (Verdict, bool) {
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
	// A record can fail while its key is parked: hold has let it pass for its timestamp. It goes to the end of the queue.
	row := parkedRow(&g.in, f.Attempt, first)
	if !p.fits(p.rowKey(key, h.next), row) {
		f.note = "the record is too large to be parked"
		return Verdict{}, false
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
		p.keys--
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
func (p *parking) postpone(f *Failure, pause time.Duration) Verdict {
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

func (p *parking) verdict(f *Failure, outcome string) Verdict {
	g := p.graph
	node := p.node
	if f != nil && f.Node != "" {
		node = f.Node
	}
	g.counts = append(g.counts[:0], Tally{Node: node, Outcome: outcome, N: 1})
	return Verdict{Action: Park, Wrote: true, Counts: g.counts, Failure: f}
}

// due returns the next release. A key whose queue is long gives several.
func (p *parking) due(now time.Time) (Punctuation, bool) {
	for p.ready == 0 {
		if len(p.agenda) == 0 || p.agenda[0].due > now.UnixMilli() {
			return Punctuation{}, false
		}
		e := heap.Pop(&p.agenda).(appointment)
		if at, planned := p.planned[e.key]; !planned || at != e.due {
			continue // one that was brought forward
		}
		delete(p.planned, e.key)
		p.key, p.ready = e.key, e.waiting
	}
	p.ready--
	return Punctuation{
		At: time.UnixMilli(now.UnixMilli()).UTC(), StreamTime: state.NoTime, Attempt: 1, release: &release{parking: p, key: p.key},
	}, true
}

// NextRelease returns when DueRelease has something to return next; ok is false while nothing is parked.
func (g *Graph) NextRelease() (at time.Time, ok bool) {
	for i := range g.sources {
		p := g.sources[i].parking
		if p == nil || len(p.agenda) == 0 && p.ready == 0 {
			continue
		}
		next := time.UnixMilli(0)
		if p.ready == 0 {
			next = time.UnixMilli(p.agenda[0].due)
		}
		if !ok || next.Before(at) {
			at, ok = next, true
		}
	}
	return at, ok
}

// plan notes when to look at a key.
func (p *parking) plan(key parkedKey, h parkedHeadRow) {
	if !p.any {
		p.known[key] = struct{}{}
		if len(p.known) > knownMax {
			p.known, p.any = nil, true
		}
	}
	if at, planned := p.planned[key]; planned && at <= h.due {
		return // looked at early enough, and then planned anew
	}
	// Where a record has failed, those behind it are not taken along: they come when it has succeeded.
	waiting := 1
	if h.due == 0 {
		waiting = int(min(h.next-h.first, releasesMax))
	}
	p.planned[key] = h.due
	heap.Push(&p.agenda, appointment{key: key, due: h.due, waiting: waiting})
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

// fits reports whether the changelog takes a row. The row of a record that is tried again grows by a few bytes.
func (p *parking) fits(key, row []byte) bool {
	const growth = 16
	return p.maxMessageBytes <= 0 || batchBytes(&Output{Key: key, Value: row})+growth <= p.maxMessageBytes
}

func headKey(key parkedKey) []byte { return append([]byte{parkedHead}, key[:]...) }

func (p *parking) rowKey(key parkedKey, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{parkedRecord}, key[:]...), number)
}

// appointment says when to look at a key, and how many records of it are known to be ready then.
type appointment struct {
	key     parkedKey
	due     int64 // in milliseconds since the epoch
	waiting int
}

// agenda is a heap of appointments, the next one first. Those that were brought forward are passed over.
type agenda []appointment

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].due < a[j].due }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}
