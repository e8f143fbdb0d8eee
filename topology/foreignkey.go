package topology

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onceward/onceward/schemas"
)

// JoinForeignKey returns the table with the result of f for each row of the left table and the row
// of the right table that it names by a foreign key. foreignKey returns the key in the right table,
// or the absent Option. Many rows of the left table may name one row of the right one. A change of
// either side emits new results, a delete on either side deletes them.
//
// The tables may have different numbers of partitions. Each row of the left table subscribes with
// the task of its foreign key, through the topic <application>-<name>-subscriptions-repartition.
// The answers come back through <application>-<name>-answers-repartition. An answer says which
// value of the left row it is for, by a hash. If the row has changed since, the answer is late: it
// is left out and counted as "late-answer", and the answer to the later value follows.
// Subscriptions are in the store <name>-subscriptions. The options are those of both topics; their
// numbers of partitions follow from the tables.
//
// The timestamp of a result is the later one of both rows after a change of the left table, and
// that of the record after a change of the right table. A row of the left table without a foreign
// key is counted as "null-foreign-key", and has no result. The right table has to be partitioned by
// its key, with Kafka's default partitioner.
//
// A change of a versioned table that is out of order is counted as "out-of-order" and left out.
//
// The results are in no store. If an operator looks up rows of the joined table, or needs old
// values, Build requires [ToTableWithDeletes] before it. foreignKey is called again for old values,
// so it must return the same result for the same row. It is the join by a foreign key of Kafka
// Streams (KIP-213).
func JoinForeignKey[K, L, F, R, V any](
	left Table[K, L], right Table[F, R], name string, foreignKey func(key K, l L) (Option[F], error),
	f func(key K, l L, r R) (V, error), opts ...RepartitionOption,
) Table[K, V] {
	j := foreignJoin[K, L, F, R, V]{foreignKey: foreignKey}
	if f != nil {
		j.join = func(key K, l L, r Option[R]) (V, error) { return f(key, l, r.value) }
	}
	return j.add(left, right, name, "JoinForeignKey", opts)
}

// LeftJoinForeignKey is [JoinForeignKey] for all rows of the left table. If a row has no foreign
// key, or the right table has no row for that key, r is absent.
func LeftJoinForeignKey[K, L, F, R, V any](
	left Table[K, L], right Table[F, R], name string, foreignKey func(key K, l L) (Option[F], error),
	f func(key K, l L, r Option[R]) (V, error), opts ...RepartitionOption,
) Table[K, V] {
	return foreignJoin[K, L, F, R, V]{foreignKey: foreignKey, join: f, left: true}.
		add(left, right, name, "LeftJoinForeignKey", opts)
}

// foreignJoin is a join by a foreign key. The node of its name is in the tasks of the left table:
// it subscribes, and makes results of answers. Another node, <name>-subscriptions, is in the tasks
// of the right table.
type foreignJoin[K, L, F, R, V any] struct {
	foreignKey func(key K, l L) (Option[F], error)
	join       func(key K, l L, r Option[R]) (V, error)
	// left says that a row of the left table has a result without one of the right table.
	left bool

	key        schemas.Codec[K]
	leftValue  schemas.Codec[L]
	foreign    schemas.Codec[F]
	rightValue schemas.Codec[R]
}

// The names of the parts of a join by a foreign key.
const (
	subscriptionsSuffix = "-subscriptions"
	answersSuffix       = "-answers"
	subscriptionsOutlet = "subscriptions"

	countNullForeignKey = "null-foreign-key"
	countLateAnswer     = "late-answer"
)

var errUnkept = errors.New("the results of this join are in no store, so that no operator can look into them or get values " +
	"from before; keep them first: ToTableWithDeletes(joined.Stream(), store)")

func (j foreignJoin[K, L, F, R, V]) add(
	left Table[K, L], right Table[F, R], name, what string, opts []RepartitionOption,
) Table[K, V] {
	b, pos := left.builder(what+"("+name+")"), caller()
	right.builder(what + "(" + name + ")")
	n := b.add(&node{kind: processorNode, name: name, pos: pos, looksOnly: true}, nil)
	results := addPort[K, Change[V]](b, n, "")
	joined := Table[K, V]{b: b, port: results, view: unkeptView[K, V](b, name)}
	if right.b != b {
		b.mistakeAt(pos, name, fmt.Errorf("a table cannot be joined: %w", errForeign))
		return joined
	}
	left.wantRows()
	left.wantOld()
	right.wantRows()
	if err := j.complete(left, right, opts); err != nil {
		b.mistakeAt(pos, name, err)
		return joined
	}
	n.stores = slices.Clone(left.view.stores)
	n.clause(KeyAssumption, "a row of the left table meets the row of the right table with its foreign key; the right table is "+
		"partitioned by its key").
		clause(OnDuplicate, "a row that comes again is joined again").
		clause(OutOfOrder, "each change meets what the other table has when the change arrives there, whatever the timestamps; "+
			"an answer for a row that has changed meanwhile is counted and left out")
	asked := Stream[F, subscription[K]]{b: b, port: addPort[F, subscription[K]](b, n, subscriptionsOutlet)}
	subscriptions := addRepartition(asked, Topic(name+subscriptionsSuffix, j.foreign, subscriptionCodec[K]{j.key}), pos, opts)
	answers := addRepartitionTo(j.addRight(right, subscriptions, name, pos), Topic(name+answersSuffix, j.key, answerCodec[R]{j.rightValue}),
		pos, opts, &Partitioner[K, answer[R]]{internal: true, f: func(_ string, _ K, a answer[R], _ int32) int32 { return a.partition }})
	open := once(n, func(g *Graph) (x *foreignLeft[K, L, F, R, V], err error) {
		result, err := link(g, results)
		if err != nil {
			return nil, err
		}
		subscribe, err := link(g, asked.port)
		if err != nil {
			return nil, err
		}
		err = g.prepare(n, func(t *Setup) { x = j.leftSide(t, left.view.open(t), left.leavesOut(t), result, subscribe) })
		return x, err
	})
	connect(b, left.port, n, entrance(n, open, func(x *foreignLeft[K, L, F, R, V]) Emit[K, Change[L]] { return x.change }))
	connect(b, answers.port, n, entrance(n, open, func(x *foreignLeft[K, L, F, R, V]) Emit[K, answer[R]] { return x.answer }))
	return joined
}

// complete finds the codecs, and reports mistakes in the declaration.
func (j *foreignJoin[K, L, F, R, V]) complete(left Table[K, L], right Table[F, R], opts []RepartitionOption) error {
	var errs []error
	if j.foreignKey == nil || j.join == nil {
		errs = append(errs, errNilFunc)
	}
	var ref topicRef
	for _, opt := range opts {
		// Other mistakes are found where the option is used.
		if opt != nil && opt.applyRepartition(&ref) == nil && ref.partitions > 0 {
			errs = append(errs, errors.New("Partitions: the topics of a join have as many partitions as the tables"))
		}
	}
	if ref.chooser != nil {
		errs = append(errs, fmt.Errorf("partitioner %s: the topics of a join are partitioned as the tables", ref.partitioner))
	}
	j.key, j.leftValue, j.rightValue = left.view.key, left.view.value, right.view.value
	j.foreign = codecOf[F](right.port.node.keyCodec)
	const unknown = "the codec of the %s is not known, because an operator has changed their type since the table was in a store; " +
		"keep the table in another store first: ToTableWithDeletes(table.Stream(), store)"
	if j.key == nil {
		errs = append(errs, fmt.Errorf(unknown, "keys of the left table"))
	}
	if j.leftValue == nil {
		errs = append(errs, fmt.Errorf(unknown, "values of the left table"))
	}
	if j.rightValue == nil {
		errs = append(errs, fmt.Errorf(unknown, "values of the right table"))
	}
	if j.foreign == nil {
		errs = append(errs, errors.New("the right table does not have the keys of the topic that its records come from, so that their "+
			"partitions are not known; send its stream through RepartitionWith first"))
	}
	return errors.Join(errs...)
}

// addRight adds the node in the tasks of the right table, and returns the stream of answers.
func (j foreignJoin[K, L, F, R, V]) addRight(
	right Table[F, R], subscriptions Stream[F, subscription[K]], name string, pos position,
) Stream[K, answer[R]] {
	b := right.b
	n := b.add(&node{kind: processorNode, name: name + subscriptionsSuffix, pos: pos, looksOnly: true}, nil)
	store := KeyValueStore(n.name, j.subscriberKeys(), subscriberCodec{})
	b.addStore(n, store)
	n.stores = unionOf(n.stores, right.view.stores)
	n.clause(OnDuplicate, "a subscription that comes again replaces itself, and is answered again")
	answered := addPort[K, answer[R]](b, n, "")
	open := opening(n, answered, func(t *Setup, next Emit[K, answer[R]]) *foreignRight[K, F, R] {
		return j.rightSide(t, store.name, right.view.open(t), right.leavesOut(t), next)
	})
	connect(b, right.port, n, entrance(n, open, func(x *foreignRight[K, F, R]) Emit[F, Change[R]] { return x.change }))
	connect(b, subscriptions.port, n, entrance(n, open, func(x *foreignRight[K, F, R]) Emit[F, subscription[K]] { return x.subscription }))
	return Stream[K, answer[R]]{b: b, port: answered}
}

func (j foreignJoin[K, L, F, R, V]) subscriberKeys() subscriberKeyCodec[F, K] {
	return subscriberKeyCodec[F, K]{foreign: j.foreign, key: j.key}
}

// unkeptView is the view of the results of a join, which are in no store. The first use of it is a
// mistake.
func unkeptView[K, V any](b *Builder, name string) view[K, V] {
	used := false
	refuse := func() {
		if !used {
			used = true
			b.mistakeAt(caller(), name, errUnkept)
		}
	}
	return view[K, V]{open: func(*Setup) getter[K, V] { return nil }, wantOld: refuse, wantRows: refuse}
}
