package topology

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// RestoreFromTopic restores the store of a [TableFrom] from the topic of the table. So the store
// needs no changelog, and no record of the table is written a second time. A restore gives the
// table as it was processed, exactly up to the committed offset, also if the topic is compacted. If
// a restore cannot prove that, the task stops.
//
// The conditions:
//
//   - The topic has all its records from offset 0 on, in the format of Kafka 0.11 and later. With
//     cleanup.policy delete it needs retention.ms and retention.bytes of -1. With compact it needs
//     a min.compaction.lag.ms and a delete.retention.ms of at least an hour. While an application
//     is behind by more than four fifths of min.compaction.lag.ms, a lost disk cannot be restored.
//     Start and every restore check the settings. The number of partitions must not change: keys of
//     an added partition have their rows in the table of another one, and without a changelog
//     nothing shows that the partition is new.
//
//   - Failures: a record of the topic that cannot be decoded can become a dead letter, as always.
//     In a compacted topic it replaces the earlier value of its key, so a lost disk cannot be
//     restored until the key is written again.
//
//     A record that fails behind its source stops the task under every policy: a dead letter would
//     leave the table without a record that the topic has.
//
//     A record whose timestamp is further ahead of the clock than GraphConfig.MaxFutureTimestamp
//     also stops the task, until the clock has caught up or the application runs with a larger
//     limit or none. A restore does not know what time it was.
//
//     An invalid [HeaderMode] stops nothing: the record is processed in the mode [Replay], and
//     counted as invalid-mode.
//
//   - The program: the codecs decode the same bytes to the same values for as long as there are
//     records. In a compacted topic keys must have the bytes that their codec writes: for
//     compaction, two encodings of one key are two keys. If the topic has keys in another form,
//     such as JSON with spaces, a lost disk cannot be restored after compaction has removed
//     records. The source begins with the first record and uses the timestamps of the topic
//     ([EventTime] and [StreamTimeForInvalid] are mistakes). Only the table's own node writes to
//     the store, so only joins may name it.
//
// To add or remove the option of a store that has been in use takes `onceward rebuild from-input`,
// or another name for the store. Offsets of such a task are not moved by operators in another way.
func RestoreFromTopic() SourceOption {
	return sourceOption(func(s *sourceSettings) { s.restores = true })
}

// noteRestores is why a record is no dead letter.
const noteRestores = "the task stops because a table is restored from the topic (RestoreFromTopic), which has the record"

// restoredTable is a store that is restored from the topic of a source.
type restoredTable struct {
	store string
	rows  *graph.SourceRows
}

// readRows is what the nodes of a table do with a record, without a graph: see intake.read and
// collect.
func readRows[K, V any](topic TopicOf[K, Option[V]], store Store[state.Timestamped[K, V]]) graph.RowReader {
	into := &oneWrite{}
	rows := store.Open(into)
	nullKey := nullOf[K]()
	return func(key, value []byte, timestamp int64) (w state.Write, ok bool, err error) {
		defer func() {
			if p := recover(); p != nil {
				w, ok, err = state.Write{}, false, newPanicError(p)
			}
		}()
		if key == nil {
			return state.Write{}, false, nil
		}
		k, v, err := topic.Decode(key, value)
		switch part, _ := errors.AsType[*graph.PartError](err); {
		case err != nil && !unreadable(err):
			return state.Write{}, false, err
		case part != nil && part.Part == partKey, nullKey != nil && nullKey(k):
			return state.Write{}, false, nil
		case err != nil, timestamp < 0:
			if rows.Delete(k) != nil { // no record with this key has a row
				return state.Write{}, false, nil
			}
			return state.Write{Key: into.write.Key}, false, nil
		}
		if err := setRow(rows, k, v, timestamp); err != nil {
			return state.Write{}, false, err
		}
		return into.write, true, nil
	}
}

// writtenKey is what SourceRows.Written says.
func writtenKey[K any](format *format[K]) func(key []byte) bool {
	return func(key []byte) (written bool) {
		defer func() {
			if recover() != nil {
				written = false // processing the record stops at the same panic, or Append cannot write what Decode reads
			}
		}()
		if key == nil {
			return true
		}
		k, err := format.decode(key)
		if err != nil {
			return unreadable(err)
		}
		again, err := format.encode(nil, k)
		return err == nil && bytes.Equal(again, key)
	}
}

// unreadable reports whether the error of a codec is about the record, so that it will be the same
// whenever the record is read.
func unreadable(err error) bool {
	class := ClassOf(err)
	return class == Poison || class == Validation || class == Conflict
}

// failRecord is fail for a source; inherent says that the failure follows from the record alone.
func (g *Graph) failRecord(n *node, err error, inherent bool) error {
	first := g.failure == nil
	failed := g.fail(n, err)
	if first {
		g.blame.inherent = inherent
	}
	return failed
}

// restores reports whether tables are restored from a topic.
func (g *Graph) restores(topic string) bool {
	s := g.source(topic)
	return s != nil && s.restores
}

// oneWrite is a store that remembers one write, and has nothing to read.
type oneWrite struct{ write state.Write }

func (s *oneWrite) Get([]byte) ([]byte, bool, error) { return nil, false, nil }
func (s *oneWrite) StreamTime() int64                { return 0 }
func (s *oneWrite) Advance(int64)                    {}

func (s *oneWrite) Scan(state.Range) iter.Seq2[state.Entry, error] {
	return func(func(state.Entry, error) bool) {}
}

func (s *oneWrite) Put(key, value []byte) error {
	s.write = state.Write{Key: key, Value: value}
	return nil
}

func (s *oneWrite) Delete(key []byte) error {
	s.write = state.Write{Key: key, Delete: true}
	return nil
}

// restoredFrom returns the source that a store is restored from; ok is false if it has a changelog.
func (s *subtopology) restoredFrom(store string) (source *node, ok bool) {
	source, table := s.restoredTable(store)
	return source, table != nil
}

// rowsOf returns what makes the rows of a store that is restored from a source, nil if it has a
// changelog.
func (s *subtopology) rowsOf(store string) *graph.SourceRows {
	if _, table := s.restoredTable(store); table != nil {
		return table.rows
	}
	return nil
}

func (s *subtopology) restoredTable(store string) (*node, *restoredTable) {
	for _, n := range s.sources {
		for i := range n.tables {
			if n.tables[i].store == store {
				return n, &n.tables[i]
			}
		}
	}
	return nil, nil
}

// restoredFrom returns the source topic that a store is restored from, nothing if it has a
// changelog.
func (t *Topology) restoredFrom(s *subtopology, store string) string {
	if source, ok := s.restoredFrom(store); ok {
		return source.topic.on(t.application)
	}
	return ""
}

// changelogOf returns the name of a store's changelog, nothing if it has none.
func (t *Topology) changelogOf(s *subtopology, store storeInfo) string {
	if _, ok := s.restoredFrom(store.name); ok || store.lost {
		return ""
	}
	return t.changelog(store.name)
}

// checkRestores notes what does not go with RestoreFromTopic at a source.
func (b *Builder) checkRestores(pos position, topic string, s sourceSettings) {
	if !s.restores {
		return
	}
	wrong := func(text string) { b.mistakeAt(pos, topic, errors.New("RestoreFromTopic: "+text)) }
	if s.start.From != graph.Earliest {
		wrong("the source has to begin with the first record; a restore could not tell which ones came before its start")
	}
	if s.eventTime != nil {
		wrong("it does not go with EventTime; the table has the timestamps of the topic")
	}
	if s.invalid == StreamTimeForInvalid {
		wrong("it does not go with StreamTimeForInvalid; a restore does not know the stream time of each record")
	}
	if s.parks || len(s.delays) > 0 {
		wrong("it does not go with ParkKeys or RetryTopics; a restore knows the records of the topic, and not which of them still wait")
	}
}

// checkRestoredTables looks for sources that restore nothing, and for stores that have more in them
// than their topic.
func (b *Builder) checkRestoredTables() {
	tables := map[string]*node{}
	for _, n := range b.nodes {
		if n.restores && len(n.tables) == 0 {
			b.mistakeAt(n.pos, n.name, errors.New("RestoreFromTopic is for tables: TableFrom reads the topic as one"))
		}
		for _, t := range n.tables {
			tables[t.store] = n
		}
	}
	for _, n := range b.nodes {
		for _, s := range n.stores {
			source, restored := tables[s.name]
			if restored && s.inMemory && !s.lost && n.name == s.name { // one that is lost is refused for every table
				b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s: RestoreFromTopic is for rows on the disk; each restart would depend on what "+
					"compaction has left of the topic %s", s.name, source.topic.name))
			}
			if restored && !n.looksOnly && n.name != s.name {
				b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s is restored from the topic %s (RestoreFromTopic), so that no other node may "+
					"write to it: join the table, or leave the option out", s.name, source.topic.name))
			}
		}
	}
}
