package topology

// nullOf returns the function that reports whether a T stands for null: the absent Option and the
// nil []byte. It is nil if no T does. Called for each record it allocates nothing, unlike a look
// through an interface.
func nullOf[T any]() func(v T) bool {
	var zero T
	if o, ok := any(zero).(interface{ nullFunc() any }); ok {
		null, _ := o.nullFunc().(func(T) bool)
		return null
	}
	null, _ := any(isNilBytes).(func(T) bool)
	return null
}

func (Option[T]) nullFunc() any { return func(o Option[T]) bool { return !o.ok } }

// gate leaves out records with a null key, and where asked to those with a null value, and counts
// them: there is nothing to keep state by, respectively nothing to add. Kafka Streams drops the
// same ones.
type gate[K, V any] struct {
	nullKey              func(key K) bool
	nullValue            func(value V) bool
	nullKeys, nullValues *Counter
}

// newGate returns the gate of the node that t prepares. Records with a null value pass if values is
// false.
func newGate[K, V any](t *Setup, values bool) *gate[K, V] {
	g := &gate[K, V]{nullKey: nullOf[K](), nullKeys: t.Counter(countNullKey), nullValues: t.Counter(countNullValue)}
	if values {
		g.nullValue = nullOf[V]()
	}
	return g
}

// The outcomes that the operators of this package count.
const (
	countNullKey          = "null-key"
	countNullValue        = "null-value"
	countLate             = "late"
	countOutOfOrder       = "out-of-order"
	countInvalidTimestamp = "invalid-timestamp"
	countInvalidMode      = "invalid-mode"
)

// stops reports whether r ends here.
func (g *gate[K, V]) stops(r *Record[K, V]) bool {
	switch {
	case g.nullKey != nil && g.nullKey(r.Key):
		g.nullKeys.Inc()
		return true
	case g.nullValue != nil && g.nullValue(r.Value):
		g.nullValues.Inc()
		return true
	}
	return false
}
