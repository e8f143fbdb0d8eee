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

// ParkKeys lets records of the source be parked: it gives the source a store of its own,
// <topic>.parked with its changelog, where a record waits that failed with an error whose [Policy]
// is Park, and behind it, in order, every later record of the source with the same key. Other keys
// go on. A null key is parked alone: nothing has an order with it.
//
// The first record of a key that waits is tried again as its policy says; the attempts are kept
// with it, and survive a restart and a move to another instance. Once it succeeds, or becomes a
// dead letter, the next one is tried, at once. Each of them is processed as if it had just been
// read: with its own position, timestamp and headers, in a savepoint of its own, as one record of
// its round; only the stream time can have moved on meanwhile, since a record that waits does not
// move it.
//
// A key is the record's key as it is read, in bytes. What nodes make of the record, another key for
// instance, does not count; a stream whose order matters by another key goes through a
// [Stream.Repartition], which has this option too.
//
// No other store of the topology can have the name <topic>.parked, whether the source has the
// option or not: what is left of it would be taken for records that wait.
//
// A record that is too large for the changelog with what is noted beside it becomes a dead letter
// instead, or stops the task without a dead-letter topic.
//
// Keep the option, without the policies, for as long as records wait ([Graph.Parked], the metric
// onceward_parked_records): a source without it does not know of them. The runtime opens no task
// whose topology has no place for the records that its last commit says wait, and starts no
// topology that has lost the task together with the source. Where the commit names the changelog of
// such a store, with anything in it, and does not say whether any wait, as those of older builds
// do, the changelog is asked, until the first commit without the option: the application needs
// DESCRIBE and READ on it for so long. It is asked too where no commit of the task is known, as
// after the offsets have expired, if it is there and may be read. The changelog can be deleted once
// every task has committed without the option: as long as a last commit has anything in it, what is
// missing there may have been records that wait.
func ParkKeys() ParkOption { return ParkOption{} }

func (ParkOption) applySource(_ *Builder, s *sourceSettings) { s.parks = true }

func (ParkOption) applyRepartition(ref *topicRef) error {
	ref.parks = true
	return nil
}

// parkStore returns the name of the store in which records of the topic wait, if they are parked.
func (t topicRef) parkStore() string { return t.name + graph.ParkedSuffix }

// checkParkStores looks for stores with the name of one in which records of a source wait, or would
// with [ParkKeys]: once it is gone from the topology, its rows could not be told from theirs.
func (b *Builder) checkParkStores() {
	sources := map[string]*node{}
	for _, n := range b.nodes {
		if n.kind == sourceNode && n.of == nil {
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
		agenda: newAgenda(),
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

// DueRelease returns the release of a parked record that is due by the clock of [GraphConfig.Now],
// if there is one. The caller asks until ok is false. What is taken is taken, as with [Graph.Due]:
// the punctuation lies with the caller, and runs by [Graph.Punctuate]. Where many records of a key
// are ready, several releases of it come one after the other, up to a bound, so that others have
// their turn between.
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

// Parked returns what waits of each source that has [ParkKeys], in the order of the sources; nil if
// none has. What the records up to now have done is counted, committed or not.
func (g *Graph) Parked() (parked []graph.Parked) {
	for i := range g.sources {
		if p := g.sources[i].parking; p != nil {
			parked = append(parked, graph.Parked{Topic: p.topic, Store: p.store, Keys: p.keys, Records: p.records, Emptied: p.emptied})
		}
	}
	return parked
}

// Rewind tells the graph that the runtime has dropped what was written to the state since Parked
// returned to: a round was aborted. It comes before anything is processed again, because the graph
// looks for parked keys only while there are any.
func (g *Graph) Rewind(to []graph.Parked) {
	for i := range g.sources {
		p := g.sources[i].parking
		if p == nil || len(to) == 0 {
			continue
		}
		p.keys, p.records = to[0].Keys, to[0].Records
		p.filter.all = p.filter.all || p.keys > 0 && p.emptied != to[0].Emptied // it has forgotten some of them
		to = to[1:]
	}
}

const errParkedFault = schemas.Reason("the store of parked records cannot be read or written")

// parkedFault makes the failure of the store one that stops the task.
func parkedFault(op string, err error) error {
	class := Fatal
	if errors.Is(err, state.ErrCorrupt) {
		class = Corruption
	}
	return Fail(class, fmt.Errorf("%w: %s: %w", errParkedFault, op, err))
}
