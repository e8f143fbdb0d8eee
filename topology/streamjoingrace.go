package topology

import (
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
)

// JoinStreamTableWithGrace is [JoinStreamTable] with a versioned table whose changes may come late.
// Each record waits for the grace, and then meets the value that the table had at the time of the
// record.
//
// The grace goes by the stream time of the join, which is the largest timestamp of the records of
// the stream. A record is passed on when the stream time has reached its timestamp and the grace.
// As long as no record comes that moves the stream time on, none is. Records are passed on in the
// order of their timestamps, those of one timestamp in the order of their encoded keys. A record
// that comes later than the grace is joined at once.
//
// Records wait in a store with a changelog, <name>-buffer, for which the codecs are. They keep
// their headers, and have no [Record.Source] afterwards. The grace is a whole number of
// milliseconds, and at most the retention of the store of the table. It may change with a restart.
// If f fails for a record that has waited, the record that has ended the wait fails. The next one
// tries again.
//
// It is the join with a grace period of Kafka Streams (KIP-923).
func JoinStreamTableWithGrace[K, V, T, V2 any](
	s Stream[K, V], t Table[K, T], name string, grace time.Duration, key schemas.Codec[K], value schemas.Codec[V],
	f func(key K, value V, row T) (V2, error), opts ...NodeOption,
) Stream[K, V2] {
	j := streamTableJoin[K, V, T, V2]{needRow: true, wait: &joinWait[K, V]{grace, key, value}}
	if f != nil {
		j.join = func(key K, v V, row Option[T]) (V2, error) { return f(key, v, row.value) }
	}
	return j.add(s, t, name, "JoinStreamTableWithGrace", opts)
}

// LeftJoinStreamTableWithGrace is [JoinStreamTableWithGrace] for all records: where the table had
// no value for the key, row is absent. A record with a null key is passed on at once, without a
// row.
func LeftJoinStreamTableWithGrace[K, V, T, V2 any](
	s Stream[K, V], t Table[K, T], name string, grace time.Duration, key schemas.Codec[K], value schemas.Codec[V],
	f func(key K, value V, row Option[T]) (V2, error), opts ...NodeOption,
) Stream[K, V2] {
	return streamTableJoin[K, V, T, V2]{join: f, wait: &joinWait[K, V]{grace, key, value}}.add(
		s, t, name, "LeftJoinStreamTableWithGrace", opts)
}

// bufferSuffix makes the name of the store with the records that wait.
const bufferSuffix = "-buffer"

// joinWait is how long the records of a stream wait, and the codecs of the store that they wait in.
type joinWait[K, V any] struct {
	grace time.Duration
	key   schemas.Codec[K]
	value schemas.Codec[V]
}

// declare adds the store to the node of the join. table are the stores of the table.
func (w *joinWait[K, V]) declare(b *Builder, n *node, versioned bool, table []storeInfo) {
	b.addStore(n, w.store(n))
	n.grace = w.grace.String()
	if _, err := formatsOf(w.key, w.value); err != nil {
		b.mistakeAt(n.pos, n.name, err)
	}
	if w.grace < time.Millisecond || w.grace%time.Millisecond != 0 {
		b.mistakeAt(n.pos, n.name, fmt.Errorf("the grace is whole milliseconds, from 1 ms, not %s", w.grace))
	}
	if !versioned {
		b.mistakeAt(n.pos, n.name, errGraceUnversioned)
		return
	}
	for _, s := range table {
		if w.grace.Milliseconds() > s.layout.Retention {
			b.mistakeAt(n.pos, n.name, fmt.Errorf("store %s keeps the history of the table for %d ms, which is less than the grace, %s",
				s.name, s.layout.Retention, w.grace))
		}
	}
}

var errGraceUnversioned = errors.New("the table is not versioned, so that it does not know what it was when the record was made; " +
	"keep it in a VersionedStore, or use a join without a grace")

func (w *joinWait[K, V]) store(n *node) Store[state.KeyValue[[]byte, []byte]] {
	return KeyValueStore(n.name+bufferSuffix, schemas.Bytes(), schemas.Bytes())
}

// delayed returns what has the records of a stream wait before join gets them.
func (w *joinWait[K, V]) delayed(t *Setup, join Emit[K, V]) Emit[K, V] {
	x := &delaying[K, V]{
		waitingRecords: openWaitingRecords(t, w.store(t.node).name, w.key, w.value),
		grace:          w.grace.Milliseconds(), join: join, last: state.NoTime,
	}
	return x.process
}

// delaying is a grace in a graph.
type delaying[K, V any] struct {
	waitingRecords[K, V]
	grace int64
	join  Emit[K, V]
	// last is the stream time after the last record. If it is another one now, the state was
	// reverted or the graph is new, and the grace may have been another one.
	last int64
}

func (x *delaying[K, V]) process(c *Context, r Record[K, V]) error {
	before := x.rows.StreamTime()
	if r.Timestamp < before-x.grace {
		return x.join(c, r)
	}
	if err := x.put(c, r); err != nil {
		return err
	}
	if r.Timestamp > before {
		x.rows.Advance(r.Timestamp)
	}
	now := max(before, r.Timestamp)
	known := x.last == before
	x.last = now
	from := int64(0)
	if known {
		if now == before && r.Timestamp > now-x.grace {
			return nil // nothing is due
		}
		from = max(before-x.grace, 0) // what is older was passed on
	}
	return x.pass(c, from, now-x.grace+1)
}

// pass passes on the records with timestamps from from on and before to.
func (x *delaying[K, V]) pass(c *Context, from, to int64) error {
	if to <= from {
		return nil
	}
	for e, err := range x.rows.Scan(timesBetween(from, to)) {
		if err != nil {
			return err
		}
		if err := x.rows.Delete(e.Key); err != nil {
			return err
		}
		r, mode, err := x.decode(e)
		if err != nil {
			return err
		}
		if err := emitRecordAs(c, mode, x.join, r); err != nil {
			return err
		}
	}
	return nil
}
