package projection

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// Defined are the rows that one definition of a projection writes; see [Define].
type Defined[K, S any] struct {
	definition uint16
	rows       topology.Stream[K, Row[S]]
}

// Define names the definition that has written rows: those of [Projection.Changes], or of a topic
// with them.
func Define[K, S any](definition uint16, rows topology.Stream[K, Row[S]]) Defined[K, S] {
	return Defined[K, S]{definition: definition, rows: rows}
}

// Choice passes on the rows of one definition out of several, in a topology that is being declared.
type Choice[K, S any] struct {
	changes  topology.Stream[K, Row[S]]
	answers  topology.Stream[[]byte, Answer]
	answered topology.Store[state.KeyValue[string, Answer]]
	current  topology.Store[state.KeyValue[string, int64]]
}

// Choose declares a choice between definitions: a node of that name for the commands, one for each
// definition whose name ends in its number, and three stores. The first definition is the active
// one until a command switches. The codec is for states in the store, which are of one type: rows
// of a definition with another one are mapped before.
//
// A command is obeyed by the task of its partition alone, so it is written to every partition of
// its topic, which has as many as those of the rows.
func Choose[K, S any](
	commands topology.Stream[[]byte, Command], name string, codec schemas.Codec[S], defined []Defined[K, S],
	opts ...ChooseOption,
) Choice[K, S] {
	set := &chooseSettings{}
	declare.Apply(&set.Common, set, opts)
	set.Mistake(checkDefined(defined))
	if codec == nil {
		set.Mistake(errors.New("the codec of the states is nil"))
	}
	keys, err := identity.KeyCodec[K](set.Keys)
	set.Mistake(err)
	stores := choiceStoresOf(name, keys, codec)
	var named []topology.AnyStore
	if keys != nil && codec != nil { // else it would be one more mistake, about the same thing
		named = append(named, stores.rows, stores.answers, stores.current)
	}
	node := declare.Unkeyed(commands, name, &set.Common, named...).Copartitioned() // its rows are those of the task
	switched := topology.Outlet[K, Row[S]](node, "changes")
	answered := topology.Outlet[[]byte, Answer](node, "answers")
	commandClauses(node)
	definitions := make([]uint16, len(defined))
	var changes []topology.Stream[K, Row[S]]
	for i, d := range defined {
		definitions[i] = d.definition
		n := topology.Stateful(d.rows, fmt.Sprintf("%s-%d", name, d.definition), named...).Copartitioned()
		definedClauses(n, d.definition)
		passed := topology.Outlet[K, Row[S]](n, "changes")
		changes = append(changes, passed.Stream())
		n.Process(func(t *topology.Setup) (topology.Handler[K, Row[S]], error) {
			f := &follower[K, S]{
				choiceState: stores.in(t, definitions), definition: d.definition, nullKey: identity.Null[K](),
				change: passed.In(t), passedCounter: t.Counter("passed"), heldCounter: t.Counter("held"),
				staleCounter: t.Counter("stale"),
			}
			return f.handle, nil
		})
	}
	node.Process(func(t *topology.Setup) (topology.Handler[[]byte, Command], error) {
		s := &switcher[K, S]{
			choiceState: stores.in(t, definitions), codec: codec, change: switched.In(t), answer: answered.In(t),
		}
		for o := Switched; o <= Repeated; o++ {
			s.counters[o] = t.Counter(o.String())
		}
		return s.handle, nil
	})
	return Choice[K, S]{
		changes:  switched.Stream().Merge(name+"-changes", changes...),
		answers:  answered.Stream(),
		answered: stores.answers,
		current:  stores.current,
	}
}

// ChooseOption is an option of [Choose].
type ChooseOption func(s *chooseSettings) error

type chooseSettings struct{ declare.Common }

// ChooseKey gives the codec for keys in the store of a choice, as [Key] does for a projection.
func ChooseKey[K any](codec schemas.Codec[K]) ChooseOption {
	return func(s *chooseSettings) error { return s.SetKeys(codec) }
}

func checkDefined[K, S any](defined []Defined[K, S]) error {
	if len(defined) < 2 {
		return fmt.Errorf("there are %d definitions; a choice is between two at least", len(defined))
	}
	var errs []error
	for i, d := range defined {
		if d.definition == 0 {
			errs = append(errs, errors.New("Define(0): versions of a definition count from 1"))
		}
		if slices.ContainsFunc(defined[:i], func(o Defined[K, S]) bool { return o.definition == d.definition }) {
			errs = append(errs, fmt.Errorf("Define(%d) is there twice", d.definition))
		}
	}
	return errors.Join(errs...)
}

// Changes returns the stream of the rows of the active definition: the rows that it writes, and,
// when a command switches, the rows that differ from the definition that was active before.
func (c Choice[K, S]) Changes() topology.Stream[K, Row[S]] { return c.changes }

// Answers returns the stream of what has become of the commands, one for each and partition. The
// key is that of the command.
func (c Choice[K, S]) Answers() topology.Stream[[]byte, Answer] { return c.answers }

// AnswerStore returns the store of what was decided first about each command, by its id, for
// queries and tests.
func (c Choice[K, S]) AnswerStore() topology.Store[state.KeyValue[string, Answer]] { return c.answered }

// ActiveStore returns the store that has the active definition, under the key "active", for queries
// and tests. It is empty before the first record.
func (c Choice[K, S]) ActiveStore() topology.Store[state.KeyValue[string, int64]] { return c.current }

// choiceState is what the nodes of a choice share in one task.
type choiceState[K, S any] struct {
	definitions []uint16
	rows        state.KeyValue[definedKey[K], stored[S]]
	answers     state.KeyValue[string, Answer]
	current     state.KeyValue[string, int64]
}

// active returns the active definition.
func (c choiceState[K, S]) active() (uint16, error) {
	n, has, err := c.current.Get(current)
	switch {
	case err != nil:
		return 0, err
	case !has:
		// It is noted, so that a later program which declares another one first does not switch by
		// that.
		return c.definitions[0], c.current.Put(current, int64(c.definitions[0]))
	case n < 1 || n > math.MaxUint16 || !slices.Contains(c.definitions, uint16(n)):
		return 0, topology.Fail(topology.Config, schemas.Reason(fmt.Sprintf(
			"definition %d is the active one, and is not declared; switch before it is taken away", n)))
	}
	return uint16(n), nil
}

// follower keeps the rows of one definition, and passes them on while it is the active one.
type follower[K, S any] struct {
	choiceState[K, S]
	definition uint16
	nullKey    func(K) bool
	change     topology.Emit[K, Row[S]]

	passedCounter, heldCounter, staleCounter *topology.Counter
}

func (f *follower[K, S]) handle(c *topology.Context, r topology.Record[K, Row[S]]) error {
	if f.nullKey(r.Key) {
		return identity.NullKey()
	}
	active, err := f.active()
	if err != nil {
		return err
	}
	key := definedKey[K]{Key: r.Key, Definition: f.definition}
	old, has, err := f.rows.Get(key)
	switch {
	case err != nil:
		return err
	case has && r.Value.position().compare(old.row.position()) < 0:
		f.staleCounter.Inc()
		return nil
	}
	if err := f.rows.Put(key, stored[S]{row: r.Value}); err != nil {
		return err
	}
	if f.definition != active {
		f.heldCounter.Inc()
		return nil
	}
	f.passedCounter.Inc()
	return f.change(c, r)
}

// switcher obeys commands.
type switcher[K, S any] struct {
	choiceState[K, S]
	codec    schemas.Codec[S]
	change   topology.Emit[K, Row[S]]
	answer   topology.Emit[[]byte, Answer]
	counters [Repeated + 1]*topology.Counter
}

func (s *switcher[K, S]) handle(c *topology.Context, r topology.Record[[]byte, Command]) error {
	command := r.Value
	if err := s.check(command); err != nil {
		return err
	}
	active, err := s.active()
	if err != nil {
		return err
	}
	first, known, err := s.answers.Get(command.ID)
	switch {
	case err != nil:
		return err
	case known && first.Command != command:
		return topology.Fail(topology.Conflict, errOtherCommand)
	case known:
		first.Outcome, first.Active, first.Reason = Repeated, active, "the command was decided before"
		return s.tell(c, r, first)
	}
	d := Answer{Command: command, Active: active, Timestamp: r.Timestamp}
	if d.Comparison, err = s.compare(command.From, command.To); err != nil {
		return err
	}
	d.settle()
	if d.Outcome == Switched {
		if err := s.emitDifferences(c, r, command.From, command.To); err != nil {
			return err
		}
		if err := s.current.Put(current, int64(d.Active)); err != nil {
			return err
		}
	}
	if err := s.answers.Put(command.ID, d); err != nil {
		return err
	}
	return s.tell(c, r, d)
}

func (s *switcher[K, S]) check(command Command) error {
	switch err := identity.CheckID(command.ID); {
	case err != nil:
		return err
	case command.Action != Verify && command.Action != Switch:
		return topology.Fail(topology.Validation, errAction)
	case command.From == command.To:
		return topology.Fail(topology.Validation, errSameDefinition)
	case !slices.Contains(s.definitions, command.From) || !slices.Contains(s.definitions, command.To):
		return topology.Fail(topology.Validation, errNoDefinition)
	}
	return nil
}

func (s *switcher[K, S]) tell(c *topology.Context, r topology.Record[[]byte, Command], d Answer) error {
	s.counters[d.Outcome].Inc()
	return s.answer(c, topology.WithValue(r, d))
}

// pair is a key with its rows under two definitions; a nil row is none.
type pair[K, S any] struct {
	key      K
	from, to *Row[S]
}

// pairs calls f for every key that either definition has, in the order of the keys.
func (s *switcher[K, S]) pairs(from, to uint16, f func(p pair[K, S]) error) error {
	var p pair[K, S]
	var encoded []byte
	for e, err := range s.rows.All() {
		if err != nil {
			return err
		}
		// The rows of a key lie together. Keys are compared by their bytes, since a K need not be
		// comparable.
		b, err := s.rows.EncodeKey(e.Key)
		if err != nil {
			return err
		}
		b = b[:len(b)-definitionBytes]
		if !bytes.Equal(b, encoded) {
			if p.from != nil || p.to != nil {
				if err := f(p); err != nil {
					return err
				}
			}
			p, encoded = pair[K, S]{key: e.Key.Key}, b
		}
		switch e.Key.Definition {
		case from:
			p.from = &e.Value.row
		case to:
			p.to = &e.Value.row
		}
	}
	if p.from == nil && p.to == nil {
		return nil
	}
	return f(p)
}

// compare compares the rows of two definitions.
func (s *switcher[K, S]) compare(from, to uint16) (c Comparison, err error) {
	err = s.pairs(from, to, func(p pair[K, S]) error {
		c.Keys++
		switch {
		case p.to == nil:
			c.Missing++
		case p.from == nil:
			c.Extra++
		case p.to.position().compare(p.from.position()) < 0:
			c.Behind++
		case p.to.position() == p.from.position() && p.to.Deleted != p.from.Deleted:
			c.Contrary++
		}
		different, err := s.different(p)
		if different {
			c.Different++
		}
		return err
	})
	return c, err
}

// different reports whether consumers that have the row of from need that of to.
func (s *switcher[K, S]) different(p pair[K, S]) (bool, error) {
	if p.to == nil || p.from == nil {
		return p.to != nil, nil
	}
	if p.to.position() != p.from.position() || p.to.Deleted != p.from.Deleted {
		return true, nil
	}
	rows := rowCodec[S]{state: s.codec}
	a, err := rows.Append(nil, stored[S]{row: *p.from})
	if err != nil {
		return false, err
	}
	b, err := rows.Append(nil, stored[S]{row: *p.to})
	return !bytes.Equal(a, b), err
}

func (s *switcher[K, S]) emitDifferences(
	c *topology.Context, r topology.Record[[]byte, Command], from, to uint16,
) error {
	return s.pairs(from, to, func(p pair[K, S]) error {
		different, err := s.different(p)
		if err != nil || !different {
			return err
		}
		return s.change(c, topology.WithValue(topology.WithKey(r, p.key), *p.to))
	})
}
