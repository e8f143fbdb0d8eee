package topology

import "github.com/onceward/onceward/schemas"

// withDeletes returns a topic as a table reads and writes it: null is the absent Option, whatever
// the codec makes of nulls, and everything else is the codec's. Formats do not change by it, hence
// have the same name.
func withDeletes[K, V any](t TopicOf[K, V]) TopicOf[K, Option[V]] {
	value := format[Option[V]]{}
	if t.value.codec != nil {
		value.codec = deletable[V]{t.value}
		value.null = func(v Option[V]) bool {
			return !v.ok || t.value.null != nil && t.value.null(v.value)
		}
	}
	return TopicOf[K, Option[V]]{name: t.name, key: t.key, value: value}
}

type deletable[V any] struct{ format format[V] }

func (d deletable[V]) Name() string { return d.format.codec.Name() }

// Append is not called for what null reports.
func (d deletable[V]) Append(dst []byte, v Option[V]) ([]byte, error) {
	return d.format.codec.Append(dst, v.value)
}

func (d deletable[V]) Decode(b []byte) (Option[V], error) {
	v, err := d.format.codec.Decode(b)
	if err != nil {
		return Option[V]{}, err
	}
	if d.format.present != nil {
		v = d.format.present(v)
	}
	return Some(v), nil
}

var _ schemas.Codec[Option[int]] = deletable[int]{}
