package topology

import (
	"errors"
	"fmt"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// ParkOption is what [ParkKeys] returns: an option of [From] and of [Stream.Repartition].
type ParkOption struct{}

// ParkKeys lets records of the source be parked. It gives the source a store <topic>.parked with a
// changelog. A record waits in it that failed with an error whose [Policy] is Park, and behind it,
// in order, every later record of the source with the same key. Other keys go on. A null key is
// parked alone: it has no order with other records.
//
// The first waiting record of a key is tried again as its policy says. The store keeps its attempts
// across a restart and a move to another instance. Once the record succeeds, or becomes a dead
// letter, the next one is tried at once.
//
// Each record is processed as if it had just been read: with its own position, timestamp and
// headers, in its own savepoint, as one record of its round. Only the stream time may have moved
// meanwhile, because a waiting record does not move it.
//
// The key is the record's key as it was read, in bytes. A new key that a node gives to the record
// does not count. To keep the order by another key, move the stream through a [Stream.Repartition];
// it has this option too.
//
// No other store of the topology can have the name <topic>.parked, even if the source does not have
// the option: left-over rows of such a store would be taken for parked records.
//
// The changelog may be too small for a record and the data that is stored with it. Such a record
// becomes a dead letter, or stops the task if there is no dead-letter topic.
//
// Keep the option, without the policies, for as long as records wait ([Graph.Parked], the metric
// onceward_parked_records). A source without the option does not know of them. The runtime refuses
// to lose them:
//   - It opens no task whose last commit says that records wait if the topology has no store for
//     them. It starts no topology that has lost such a task with its source.
//   - Commits of older builds name the changelog of such a store without saying whether records
//     wait. Then the runtime reads the changelog, until the first commit without the option. For
//     that time the application needs DESCRIBE and READ on it.
//   - It also reads the changelog, if that exists and may be read, when no commit of the task is
//     known, for example after the offsets have expired.
//
// The changelog can be deleted once every task has committed without the option. Before that, rows
// that are missing from it may have been parked records.
func ParkKeys() ParkOption { return ParkOption{} }

func (ParkOption) applySource(_ *Builder, s *sourceSettings) { s.parks = true }

func (ParkOption) applyRepartition(ref *topicRef) error {
	ref.parks = true
	return nil
}

// parkStore returns the name of the store in which records of the topic wait, if they are parked.
func (t topicRef) parkStore() string { return t.name + graph.ParkedSuffix }

// checkParkStores reports stores with a name that [ParkKeys] uses for a source. Without such a
// store in the topology, its rows could not be told from parked records.
func (b *Builder) checkParkStores() {
	sources := map[string]*node{}
	for _, n := range b.nodes {
		if n.kind == sourceNode && n.of == nil && n.topic.pattern == nil {
			sources[n.topic.parkStore()] = n
		}
	}
	for _, n := range b.nodes {
		for _, s := range n.stores {
			if source := sources[s.name]; source != nil && s.name != n.parked {
				b.mistakeAt(n.pos, n.name, fmt.Errorf("the name of store %s is kept for parked records of the source %s (%s:%d), also without "+
					"ParkKeys; give the store another name", s.name, source.topic.name, source.pos.file, source.pos.line))
			}
		}
	}
}

// park gives a source its store.
func (n *node) park() {
	n.parked = n.topic.parkStore()
	n.stores = append(n.stores, storeInfo{name: n.parked,
		formats: formats{key: schemas.Bytes().Name(), value: schemas.Bytes().Name()},
		rows:    rowsOf(schemas.Bytes(), schemas.Bytes())})
}

// newParking opens the store of a source.
func (g *Graph) newParking(n *node, s *graphSource) (*parking, error) {
	bytes, err := g.store(n.parked)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", n.name, err)
	}
	p := &parking{
		graph: g, node: n.name, topic: s.topic, store: n.parked, rows: bytes, timed: s.eventTime != nil || n.invalid != RefuseInvalid,
		timers: newTimerQueue(),
	}
	if limit := g.config.MaxMessageBytes; limit != nil {
		p.maxMessageBytes = int(limit(g.topology.changelog(n.parked)))
	}
	for e, err := range bytes.Scan(state.Prefix([]byte{graph.ParkedHead})) {
		if err != nil {
			return nil, fmt.Errorf("node %s: reading the keys that are parked: %w", n.name, err)
		}
		key, h, err := parseHead(e, nil)
		if err != nil {
			return nil, fmt.Errorf("node %s: store %s: %w", n.name, n.parked, err)
		}
		p.keys, p.records = p.keys+1, p.records+int64(h.next-h.first)
		p.plan(key, h)
	}
	return p, nil
}

// errParkedRow says that a row was not written by this package.
var errParkedRow = fmt.Errorf("a row of parked records cannot be read: %w", state.ErrCorrupt)

// DueRelease returns the next release of a parked record that is due by [GraphConfig.Now]. The
// caller calls it until ok is false. As with [Graph.Due], the caller then owns the punctuation and
// runs it by [Graph.Punctuate]. Several releases of a key with many ready records follow each
// other, up to a bound, so that other keys get their turn.
func (g *Graph) DueRelease() (p Punctuation, ok bool) {
	for i := range g.sources {
		if q := g.sources[i].parking; q != nil {
			if p, ok = q.due(g.config.Now()); ok {
				return p, true
			}
		}
	}
	return Punctuation{}, false
}

// Parked returns the number of waiting records of each source that has [ParkKeys], in the order of
// the sources; nil if no source has it. It counts all records processed so far, committed or not.
func (g *Graph) Parked() (parked []graph.Parked) {
	for i := range g.sources {
		if p := g.sources[i].parking; p != nil {
			parked = append(parked, graph.Parked{Topic: p.topic, Store: p.store, Keys: p.keys, Records: p.records, Emptied: p.emptied})
		}
	}
	return parked
}

// Rewind tells the graph that a round was aborted: the runtime has dropped all writes to the state
// since Parked returned to. Call it before any record is processed again, because the graph looks
// for parked keys only while there are any.
func (g *Graph) Rewind(to []graph.Parked) {
	for i := range g.sources {
		p := g.sources[i].parking
		if p == nil || len(to) == 0 {
			continue
		}
		p.keys, p.records = to[0].Keys, to[0].Records
		p.filter.all = p.filter.all || p.keys > 0 && p.emptied != to[0].Emptied // the filter was emptied since, and lacks some keys
		to = to[1:]
	}
}

const errParkedFault = schemas.Reason("the store of parked records cannot be read or written")

// parkedFault makes an error of the store a failure that stops the task.
func parkedFault(op string, err error) error {
	class := Fatal
	if errors.Is(err, state.ErrCorrupt) {
		class = Corruption
	}
	return Fail(class, fmt.Errorf("%w: %s: %w", errParkedFault, op, err))
}
