package topology

// Filter returns the table of the keys for whose value keep returns true. A value that is not kept
// deletes the key if it had a value that was. In a versioned table it deletes the key always, from
// the time of the value on, as in Kafka Streams.
func (t Table[K, V]) Filter(
	name string, keep func(key K, value V) (bool, error), opts ...NodeOption,
) Table[K, V] {
	b := t.builder("Filter(" + name + ")")
	// Without the old value, every value that is not kept would be a delete of a key that never was
	// there.
	t.wantOld()
	always := t.view.asOf != nil
	kept := func(key K, v Option[V]) (Option[V], error) {
		if !v.ok {
			return v, nil
		}
		ok, err := keep(key, v.value)
		if err != nil || !ok {
			return Option[V]{}, err
		}
		return v, nil
	}
	s := addOperator(t.changes(), name, "Filter", keep != nil, opts,
		func(_ *Graph, _ *node, next Emit[K, Change[V]]) Emit[K, Change[V]] {
			return func(c *Context, r Record[K, Change[V]]) error {
				change := Change[V]{OutOfOrder: r.Value.OutOfOrder}
				var err error
				if change.New, err = kept(r.Key, r.Value.New); err != nil {
					return err
				}
				if change.Old, err = kept(r.Key, r.Value.Old); err != nil {
					return err
				}
				if !always && !change.New.ok && !change.Old.ok {
					return nil
				}
				return next(c, WithValue(r, change))
			}
		})
	return Table[K, V]{b: b, port: s.port, view: view[K, V]{
		stores: t.view.stores,
		asOf: mapAsOf(t, func(key K, v V) (V, bool, error) {
			ok, err := keep(key, v)
			return v, ok, err
		}),
		open: func(setup *Setup) getter[K, V] {
			get := t.view.open(setup)
			return func(key K) (V, int64, bool, error) {
				v, ms, ok, err := get(key)
				if err != nil || !ok {
					return v, 0, false, err
				}
				if ok, err = keep(key, v); err != nil || !ok {
					var none V
					return none, 0, false, err
				}
				return v, ms, true, nil
			}
		},
		wantOld: func() {},
		key:     t.view.key,
		value:   t.view.value,
	}}
}

// MapTable returns the table of the values that f makes from the values of t. f is called again for
// old values, and whenever a join looks up this table. So it must return the same result for the
// same value.
func MapTable[K, V, V2 any](
	t Table[K, V], name string, f func(key K, value V) (V2, error), opts ...NodeOption,
) Table[K, V2] {
	b := t.builder("MapTable(" + name + ")")
	old := new(bool)
	mapped := func(key K, v Option[V]) (Option[V2], error) {
		if !v.ok {
			return Option[V2]{}, nil
		}
		m, err := f(key, v.value)
		return Option[V2]{m, err == nil}, err
	}
	s := addOperator(t.changes(), name, "MapTable", f != nil, opts,
		func(_ *Graph, _ *node, next Emit[K, Change[V2]]) Emit[K, Change[V]] {
			keepOld := *old
			return func(c *Context, r Record[K, Change[V]]) error {
				change := Change[V2]{OutOfOrder: r.Value.OutOfOrder}
				var err error
				if change.New, err = mapped(r.Key, r.Value.New); err != nil {
					return err
				}
				if keepOld {
					if change.Old, err = mapped(r.Key, r.Value.Old); err != nil {
						return err
					}
				}
				return next(c, WithValue(r, change))
			}
		})
	return Table[K, V2]{b: b, port: s.port, view: view[K, V2]{
		stores: t.view.stores,
		asOf: mapAsOf(t, func(key K, v V) (V2, bool, error) {
			m, err := f(key, v)
			return m, true, err
		}),
		open: func(setup *Setup) getter[K, V2] {
			get := t.view.open(setup)
			return func(key K) (mapped V2, ms int64, ok bool, err error) {
				v, ms, ok, err := get(key)
				if err == nil && ok {
					mapped, err = f(key, v)
				}
				return mapped, ms, ok, err
			}
		},
		wantOld: func() {
			t.view.wantOld()
			*old = true
		},
		wantRows: t.view.wantRows,
		key:      t.view.key,
		value:    codecOf[V2](t.view.value),
	}}
}

// mapAsOf returns what looks into the history of a table that f makes of t, nil if t is not
// versioned. f returns false for a value that the table does not have.
func mapAsOf[K, V, V2 any](t Table[K, V], f func(key K, value V) (V2, bool, error)) func(s *Setup) asOfGetter[K, V2] {
	if t.view.asOf == nil {
		return nil
	}
	return func(s *Setup) asOfGetter[K, V2] {
		get := t.view.asOf(s)
		return func(key K, at int64) (none V2, from int64, ok bool, err error) {
			v, from, ok, err := get(key, at)
			if err != nil || !ok {
				return none, 0, false, err
			}
			v2, ok, err := f(key, v)
			if err != nil || !ok {
				return none, 0, false, err
			}
			return v2, from, true, nil
		}
	}
}
