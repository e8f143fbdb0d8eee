package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// GlobalTable is the newest value of each key of a topic, with all partitions in every process. It
// emits no changes. [JoinGlobalTable] and [LeftJoinGlobalTable] look into it.
//
// A global table may be used any number of times. The zero GlobalTable belongs to no builder. Using
// it panics.
type GlobalTable[K, V any] struct {
	b     *Builder
	name  string
	store Store[state.Timestamped[K, V]]
}

// globalTable is a global table without its types. It is immutable once the topology is built.
type globalTable struct {
	pos   position
	topic string
	// formats are those of the topic, and store has those of the store.
	formats formats
	store   storeInfo
	// records are the codecs of the topic.
	records graph.Rows
	rows    *graph.SourceRows
}

// GlobalTableFrom returns the global table of a topic: each record is the newest value of its key,
// and a null deletes the key, whether the codec of the topic is [Nullable] or not. Every process
// reads all partitions into a store of its own, which may be larger than memory. It processes
// nothing before the table has reached the ends that the topic had when the process started. The
// table is kept up to date from then on, with committed records only.
//
// The table belongs to no task, and no commit contains its position. So the promise is smaller:
// each record has its outputs exactly once, but its row depends on how far the table was. A record
// that is processed again, after an aborted round or in a replay, can get another row. So can a
// record in another process. Use [TableFrom] and [JoinStreamTable] if the topics have the same
// partitions and the answer has to follow the order of the timestamps.
//
// A record with a null key or a negative timestamp is left out, and so is one that cannot be
// decoded. Each is counted, in the metric onceward_global_table_skipped_total. The row of the key
// stays as it is. There is no dead letter, because the table takes part in no transaction.
//
// The topic should be compacted, and its producers should write a key to one partition only. It has
// to exist. It may be an output of the topology, but not a source.
func GlobalTableFrom[K, V any](
	b *Builder, topic TopicOf[K, V], store Store[state.Timestamped[K, V]],
) GlobalTable[K, V] {
	if b == nil {
		panic("topology: GlobalTableFrom(" + topic.name + ") without a Builder; NewBuilder makes one")
	}
	pos := caller()
	t := GlobalTable[K, V]{b: b, name: store.name, store: store}
	if b.closed {
		b.mistakeAt(pos, store.name, errClosed)
		return t
	}
	if err := graph.CheckTopicName(topic.name); err != nil {
		b.mistakeAt(pos, store.name, fmt.Errorf("topic of a global table: %w", err))
	}
	checkTableTopic(b, pos, store.name, topic)
	f, err := topic.formats()
	if err != nil {
		b.mistakeAt(pos, store.name, err)
	}
	info, err := store.info()
	if err != nil {
		b.mistakeAt(pos, store.name, fmt.Errorf("store %s: %w", info.name, err))
	}
	if info.inMemory {
		b.mistakeAt(pos, store.name, fmt.Errorf("store %s: the rows of a global table are on the disk; leave InMemory and LostOnRestart out", info.name))
	}
	b.claim(store.name, &node{kind: processorNode, name: store.name, pos: pos})
	read := withDeletes(topic)
	b.globals = append(b.globals, &globalTable{
		pos: pos, topic: topic.name, formats: f, store: info, records: read.rows(),
		rows: graph.NewSourceRows(func() graph.RowReader { return readReadable(readRows(read, store)) }, writtenKey(&read.key)),
	})
	return t
}

// readReadable leaves out records that the codecs of the store refuse, as read leaves out those
// that the codecs of the topic refuse: no node is behind that could fail.
func readReadable(read graph.RowReader) graph.RowReader {
	return func(key, value []byte, timestamp int64) (state.Write, bool, error) {
		w, ok, err := read(key, value, timestamp)
		if err != nil && unreadable(err) {
			return state.Write{}, false, nil
		}
		return w, ok, err
	}
}

// builder returns the builder of t; declaring is what the caller is about to do.
func (t GlobalTable[K, V]) builder(declaring string) *Builder {
	if t.b == nil {
		panic("topology: " + declaring + " uses the zero GlobalTable; global tables come from GlobalTableFrom")
	}
	return t.b
}

// checkGlobals looks for topics and stores that a global table shares with something else.
func (b *Builder) checkGlobals() {
	stores := map[string]*node{}
	for _, n := range b.nodes {
		for _, s := range n.stores {
			stores[s.name] = n
		}
	}
	topics := map[string]*globalTable{}
	for _, t := range b.globals {
		if n, taken := stores[t.store.name]; taken {
			b.mistakeAt(t.pos, t.store.name, fmt.Errorf("the store is used by node %s (%s:%d); a global table has a store of its own",
				n.name, n.pos.file, n.pos.line))
		}
		if first, twice := topics[t.topic]; twice {
			b.mistakeAt(t.pos, t.store.name, fmt.Errorf("the topic %s is a global table already, declared at %s:%d; a global table "+
				"may be used any number of times", t.topic, first.pos.file, first.pos.line))
			continue
		}
		topics[t.topic] = t
		if source, read := b.sources[t.topic]; read {
			b.mistakeAt(t.pos, t.store.name, fmt.Errorf("the topic %s is read by a source too (%s:%d); it is a source or a global table",
				t.topic, source.node.pos.file, source.node.pos.line))
		}
		if t.topic == b.deadLetters {
			b.mistakeAt(t.pos, t.store.name, errors.New("a global table of the dead-letter topic of this topology"))
		}
	}
}

// sortGlobals returns global tables in the order of their stores.
func sortGlobals(tables []*globalTable) []*globalTable {
	return slices.SortedFunc(slices.Values(tables), func(a, b *globalTable) int {
		return cmp.Or(strings.Compare(a.store.name, b.store.name), strings.Compare(a.topic, b.topic))
	})
}

// GlobalTables returns the stores of the global tables, sorted by name. None of them has a
// changelog: RestoredFrom is the topic of the table. They are part of no subtopology. The caller
// may change the result.
func (t *Topology) GlobalTables() []graph.StoreInfo {
	var tables []graph.StoreInfo
	for _, g := range t.globals {
		tables = append(tables, graph.StoreInfo{
			Name: g.store.name, RestoredFrom: g.topic, FromSource: g.rows, Layout: g.store.layout,
			KeyFormat: g.store.formats.key, ValueFormat: g.store.formats.value,
		})
	}
	return tables
}

// globalStore returns the rows of a global table.
func (g *Graph) globalStore(name string) (state.Bytes, error) {
	if g.config.GlobalTable != nil {
		if rows := g.config.GlobalTable(name); rows != nil {
			return rows, nil
		}
	}
	return nil, fmt.Errorf("the rows of the global table %s are not here", name)
}
