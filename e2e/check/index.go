package check

import (
	"cmp"
	"slices"
	"sort"
)

// index is what the first pass over a history leaves: the inputs, the committed content of the
// logs, the ends of all transactions. The predicates of the second pass know the whole of it, so
// that they need not wait for what comes later.
type index struct {
	spec Spec
	// inputs is indexed by id; entry 0 is nobody's.
	inputs []input
	// logs has the committed content of every topic: by partition and offset the id of the input,
	// or for a changelog a short hash of the value. 0 is an offset without a committed record.
	logs map[string][][]uint32
	// places says for the input topic and the repartition topic where an id is.
	places map[string][]place
	// writers is the transaction that wrote an id's record in the repartition topic, by number.
	writers   []uint32
	txns      map[Txn]*txn
	positions map[string][][]position
	states    []*State
	quiesced  bool

	// pending is what has no marker yet, by log and producer.
	pending   map[logProducer][]unresolved
	outputs   map[string]int
	changelog map[string]int
}

type input struct {
	message, key, other uint32
	// sent, acked and failed say whether anybody produced it and how that ended; first that it is
	// the first delivery in the log.
	sent, acked, failed, poison, first bool
	amount                             int64
}

// place is where a record is; offset -1 is nowhere.
type place struct {
	partition int32
	offset    int64
}

// txn is what became of a transaction.
type txn struct {
	name               Txn
	number             uint32
	committed, aborted bool
	// outputs and changelogs are bit sets of what it committed to, by index in the Spec.
	outputs, changelogs uint64
	// size counts its records in the first output.
	size int
}

// position is a committed input position with the transaction that committed it.
type position struct {
	next int64
	at   int64 // offset in __consumer_offsets
	txn  *txn
}

type logProducer struct {
	topic     string
	partition int32
	producer  int64
}

// unresolved is one event of a transaction that has not ended in its log: records or a position.
type unresolved struct {
	records  *Records
	position *Position
}

func (u unresolved) txn() Txn {
	if u.records != nil {
		return u.records.Txn
	}
	return u.position.Txn
}

func newIndex(spec Spec) *index {
	ix := &index{
		spec: spec, inputs: make([]input, 1), logs: map[string][][]uint32{}, places: map[string][]place{}, txns: map[Txn]*txn{},
		positions: map[string][][]position{}, pending: map[logProducer][]unresolved{}, outputs: map[string]int{},
		changelog: spec.changelogs(),
	}
	for i, o := range spec.Outputs {
		ix.outputs[o.Topic] = i
	}
	return ix
}

func (ix *index) see(e *Event) {
	switch {
	case e.Sent != nil:
		ix.sent(e.Sent)
	case e.Read != nil && e.Read.Reader == LogReader:
		r := e.Read
		if r.Txn == NoTxn {
			ix.commitRecords(r, nil)
			return
		}
		ix.wait(logProducer{r.Topic, r.Partition, r.Producer}, r.Txn, unresolved{records: r})
	case e.Position != nil:
		p := e.Position
		if p.Txn == NoTxn {
			ix.commitPosition(p, nil)
			return
		}
		ix.wait(logProducer{OffsetsTopic, p.Log, p.Producer}, p.Txn, unresolved{position: p})
	case e.Marker != nil:
		ix.ended(e.Marker)
	case e.State != nil:
		ix.states = append(ix.states, e.State)
	case e.Quiesced != nil:
		ix.quiesced = true
	}
}

func (ix *index) sent(s *Sent) {
	for i, message := range s.Message {
		id := s.First + uint32(i)
		for uint32(len(ix.inputs)) <= id {
			ix.inputs = append(ix.inputs, input{})
		}
		in := input{message: message, sent: true, acked: s.Outcome == OK, failed: s.Outcome == Fail}
		if len(s.Key) > 0 {
			in.key = s.Key[i]
		}
		if len(s.Other) > 0 {
			in.other = s.Other[i]
		}
		if len(s.Amount) > 0 {
			in.amount = s.Amount[i]
		}
		ix.inputs[id] = in
	}
	for _, id := range s.Poison {
		if int(id) < len(ix.inputs) {
			ix.inputs[id].poison = true
		}
	}
}

func (ix *index) wait(lp logProducer, name Txn, u unresolved) {
	ix.txn(name)
	ix.pending[lp] = append(ix.pending[lp], u)
}

func (ix *index) txn(name Txn) *txn {
	t := ix.txns[name]
	if t == nil {
		t = &txn{name: name, number: uint32(len(ix.txns)) + 1}
		ix.txns[name] = t
	}
	return t
}

// ended decides about what the producer wrote to this log since its last marker.
func (ix *index) ended(m *Marker) {
	lp := logProducer{m.Topic, m.Partition, m.Producer}
	for _, u := range ix.pending[lp] {
		t := ix.txn(u.txn())
		if !m.Commit {
			t.aborted = true
			continue
		}
		t.committed = true
		if u.records != nil {
			ix.commitRecords(u.records, t)
		} else {
			ix.commitPosition(u.position, t)
		}
	}
	delete(ix.pending, lp)
}

func (ix *index) commitRecords(r *Records, t *txn) {
	if i, ok := ix.outputs[r.Topic]; ok && t != nil {
		t.outputs |= 1 << i
		if i == 0 {
			t.size += len(r.Offsets)
		}
	}
	if i, ok := ix.changelog[r.Topic]; ok && t != nil {
		t.changelogs |= 1 << i
	}
	log := grow(ix.logs[r.Topic], r.Partition)
	for i, offset := range r.Offsets {
		for int64(len(log[r.Partition])) <= offset {
			log[r.Partition] = append(log[r.Partition], 0)
		}
		log[r.Partition][offset] = r.content(i)
	}
	ix.logs[r.Topic] = log
	if r.Topic != ix.spec.Input && r.Topic != ix.spec.Repartition {
		return
	}
	places := ix.places[r.Topic]
	for i, id := range r.IDs {
		for uint32(len(places)) <= id {
			places = append(places, place{offset: -1})
		}
		if places[id].offset < 0 {
			places[id] = place{r.Partition, r.Offsets[i]}
		}
		if r.Topic == ix.spec.Repartition && t != nil {
			for uint32(len(ix.writers)) <= id {
				ix.writers = append(ix.writers, 0)
			}
			ix.writers[id] = t.number
		}
	}
	ix.places[r.Topic] = places
}

func (ix *index) commitPosition(p *Position, t *txn) {
	of := grow(ix.positions[p.Topic], p.Partition)
	of[p.Partition] = append(of[p.Partition], position{p.Next, p.Offset, t})
	ix.positions[p.Topic] = of
}

// complete computes what needs the whole history: the order of positions, and which delivery of
// each message is the first in the log.
func (ix *index) complete() {
	for _, partitions := range ix.positions {
		for _, commits := range partitions {
			slices.SortStableFunc(commits, func(a, b position) int { return cmp.Compare(a.at, b.at) })
		}
	}
	firsts := make([]uint32, len(ix.inputs))
	for _, log := range ix.logs[ix.spec.Input] {
		for _, id := range log {
			if !ix.known(id) {
				continue
			}
			message := ix.inputs[id].message
			if int(message) < len(firsts) && firsts[message] == 0 {
				firsts[message] = id
				ix.inputs[id].first = true
			}
		}
	}
}

func (ix *index) known(id uint32) bool {
	return id > 0 && int(id) < len(ix.inputs) && ix.inputs[id].sent
}

// expects says whether an output has a record of an input.
func (ix *index) expects(o *Output, id uint32) bool {
	in := &ix.inputs[id]
	switch o.Which {
	case Deliveries:
		return !in.poison
	case Messages:
		return !in.poison && in.first
	case Repeats:
		return !in.poison && !in.first
	default:
		return in.poison
	}
}

// at returns the committed content of a log at an offset.
func (ix *index) at(topic string, partition int32, offset int64) uint32 {
	log := ix.logs[topic]
	if int(partition) >= len(log) || offset < 0 || offset >= int64(len(log[partition])) {
		return 0
	}
	return log[partition][offset]
}

// place returns where an id is in a topic.
func (ix *index) place(topic string, id uint32) (place, bool) {
	places := ix.places[topic]
	if int(id) >= len(places) || places[id].offset < 0 {
		return place{}, false
	}
	return places[id], true
}

// covering returns the commit that moved the position past a record; ok is false if none did.
func (ix *index) covering(topic string, at place) (p position, ok bool) {
	of := ix.positions[topic]
	if int(at.partition) >= len(of) {
		return position{}, false
	}
	commits := of[at.partition]
	i := sort.Search(len(commits), func(i int) bool { return commits[i].next > at.offset })
	if i == len(commits) {
		return position{}, false
	}
	return commits[i], true
}

// content is what the index keeps of a record.
func (r *Records) content(i int) uint32 {
	if i < len(r.IDs) {
		return r.IDs[i]
	}
	if i < len(r.Values) {
		return uint32(mix(r.Keys[i]^mix(r.Values[i]))) | 1
	}
	return 1
}

// grow makes room for a partition.
func grow[T any](partitions [][]T, partition int32) [][]T {
	for int(partition) >= len(partitions) {
		partitions = append(partitions, nil)
	}
	return partitions
}
