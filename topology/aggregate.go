package topology

import (
	"errors"
	"reflect"
)

// Count returns the table of how many records of the stream each key has had.
//
// The following holds for all aggregations of streams. The node is named after the store. Records
// with a null key or a null value are left out, and counted as "null-key" and "null-value". The
// timestamp of an aggregate is the largest timestamp of its records. Each record makes a change at
// once; there is no record cache as in Kafka Streams. After an operator that changed the key, an
// aggregation needs a [Stream.Repartition].
func Count[K, V any, S TableRows[K, int64]](s Stream[K, V], store Store[S], opts ...NodeOption) Table[K, int64] {
	return aggregate(tableStoreOf[K, int64](store), "Count", opts, partOf(s, true, counting[K, V]))
}

// Reduce returns a table with one value for each key. The first value of a key is taken as it is; f
// combines the value so far with the value of each further record. f may return [ErrRemove].
func Reduce[K, V any, S TableRows[K, V]](
	s Stream[K, V], store Store[S], f func(sofar V, r Record[K, V]) (V, error),
	opts ...NodeOption,
) Table[K, V] {
	return aggregate(tableStoreOf[K, V](store), "Reduce", opts, partOf(s, f != nil, reducing(f)))
}

// Aggregate returns a table with the result of fold over the records of each key. fold gets the
// aggregate so far and returns the next one. Before the first record the aggregate is the result of
// initial, or the zero A if initial is nil. fold may change its argument, and may return
// [ErrRemove].
func Aggregate[K, V, A any, S TableRows[K, A]](
	s Stream[K, V], store Store[S], initial func() A,
	fold func(sofar A, r Record[K, V]) (A, error), opts ...NodeOption,
) Table[K, A] {
	return aggregate(tableStoreOf[K, A](store), "Aggregate", opts, partOf(s, fold != nil, folding(initial, fold)))
}

// counting is the step of a count.
func counting[K, V any](n int64, _ bool, _ Record[K, V]) (int64, error) { return n + 1, nil }

func reducing[K, V any](f func(sofar V, r Record[K, V]) (V, error)) step[K, V, V] {
	return func(sofar V, ok bool, r Record[K, V]) (V, error) {
		if !ok {
			return r.Value, nil
		}
		return f(sofar, r)
	}
}

func folding[K, V, A any](initial func() A, fold func(sofar A, r Record[K, V]) (A, error)) step[K, V, A] {
	return func(sofar A, ok bool, r Record[K, V]) (A, error) {
		if !ok && initial != nil {
			sofar = initial()
		}
		return fold(sofar, r)
	}
}

// result turns what a step has returned into a value that may be absent.
func result[A any](v A, err error) (Option[A], error) {
	switch {
	case err == nil:
		return Some(v), nil
	case errors.Is(err, ErrRemove):
		return Option[A]{}, nil
	}
	return Option[A]{}, err
}

// aggregate adds the node that takes one step for each record of its parts.
func aggregate[K, A any](
	store tableStore[K, A], what string, opts []NodeOption, parts ...part[K, A],
) Table[K, A] {
	old := new(bool)
	p := addAggregation(parts, store, what, true, opts, func(t *Setup, next Emit[K, Change[A]]) Emit[K, bound[A]] {
		rows, twice := store.keep(t, next), *old && shares[A]()
		return func(c *Context, r Record[K, bound[A]]) error {
			sofar, ms, ok, err := rows.Get(r.Key)
			before := sofar
			if twice && err == nil {
				before, _, _, err = rows.Get(r.Key)
			}
			if err != nil {
				return err
			}
			change := Change[A]{Old: Option[A]{before, ok}}
			if change.New, err = result(r.Value(sofar, ok)); err != nil {
				return err
			}
			if ok {
				r.Timestamp = max(r.Timestamp, ms)
			}
			return rows.change(c, WithValue(r, change))
		}
	})
	p.node.clause(KeyAssumption, "records of one key are aggregated; those with a null key or a null value are left out").
		clause(OnDuplicate, "a record that comes again is aggregated again").
		clause(OutOfOrder, "records are aggregated in the order of their offsets, whatever their timestamps")
	return Table[K, A]{b: parts[0].builder(what), port: p, view: store.view(old)}
}

// shares reports whether two values of type A can share memory, so that changing one changes the
// other. A change that carries the value before needs one of its own then: fold may change what it
// gets.
func shares[A any]() bool { return sharing(reflect.TypeFor[A]()) }

func sharing(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return sharing(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if sharing(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer, reflect.Slice, reflect.UnsafePointer:
		return true
	default:
		return false // numbers, and strings, which are immutable
	}
}
