package workload

import (
	"encoding/binary"

	"github.com/onceward/onceward/bench/measure"
)

// output says which outputs there have to be.
type output struct {
	kind           outputKind
	dedupes        bool
	byCounterparty bool
}

type outputKind uint8

const (
	copied outputKind = iota
	counted
	summed
)

// orderedEvents judges events.
type orderedEvents struct {
	output output
	sums   map[Account]Sum
	seen   map[[IDBytes]byte]struct{}
	// last is the input before, before what its account was before it.
	last   Event
	before Sum
}

// Input implements [Ordered].
func (o *orderedEvents) Input(in Record) (out Record, leads bool, err error) {
	e, err := DecodeEvent(in.Key, in.Value)
	if err != nil {
		return Record{}, false, err
	}
	if o.output.kind == copied {
		return in, true, nil
	}
	if o.output.dedupes {
		if _, duplicate := o.seen[e.ID]; duplicate {
			return Record{}, false, nil
		}
		o.seen[e.ID] = struct{}{}
	}
	sum := o.sums[e.Account]
	o.last, o.before = e, sum
	sum.Count++
	if o.output.kind == summed {
		sum.Balance += e.Amount
	}
	o.sums[e.Account] = sum
	return Record{Key: in.Key, Value: o.output.value(sum, e.Clock)}, true, nil
}

// Undo implements [Ordered].
func (o *orderedEvents) Undo() {
	if o.output.kind == copied {
		return
	}
	delete(o.seen, o.last.ID)
	if o.before == (Sum{}) {
		delete(o.sums, o.last.Account)
		return
	}
	o.sums[o.last.Account] = o.before
}

// Sums implements [Ordered].
func (o *orderedEvents) Sums() map[Account]Sum { return o.sums }

// Events implements [Ordered].
func (o *orderedEvents) Events() int64 { return int64(len(o.seen)) }

// value is an output's value.
func (o output) value(sum Sum, clock int64) []byte {
	if o.kind == counted {
		return binary.BigEndian.AppendUint64(nil, uint64(sum.Count))
	}
	value := make([]byte, sumBytes)
	binary.BigEndian.PutUint64(value, uint64(sum.Count))
	binary.BigEndian.PutUint64(value[8:], uint64(sum.Balance))
	binary.BigEndian.PutUint64(value[clockAt:], uint64(clock))
	return value
}

// Compare implements [Ordered]. The timestamp is compared only if the workload copies.
func (o *orderedEvents) Compare(got, want Record) error {
	if o.output.kind != copied {
		got.Timestamp = want.Timestamp // it is not compared
	}
	return compare(got, want)
}

// shuffledEvents judges events.
type shuffledEvents struct {
	output output
	seen   map[[IDBytes]byte]struct{}
	// want is what the inputs have to lead to, got what the outputs have come to.
	want, got map[Account]keyTotal
}

// keyTotal sums the outputs of a key.
type keyTotal struct {
	Sum
	// digest is the sum of hashes of what outputs say of their records; two sets of records with
	// one digest are taken to be one set.
	digest uint64
}

// Input implements [Shuffled].
func (s *shuffledEvents) Input(in Record) error {
	e, err := DecodeEvent(in.Key, in.Value)
	if err != nil {
		return err
	}
	if s.output.dedupes {
		if _, duplicate := s.seen[e.ID]; duplicate {
			return nil
		}
		s.seen[e.ID] = struct{}{}
	}
	t := s.want[e.Counterparty]
	t.Count++
	if s.output.kind == summed {
		t.Balance += e.Amount
		t.digest += digest(e.Clock, e.Amount)
	}
	s.want[e.Counterparty] = t
	return nil
}

// Output implements [Shuffled].
func (s *shuffledEvents) Output(out Record) error {
	if len(out.Key) != KeyBytes {
		return errKey
	}
	key := Account(out.Key)
	before, want := s.got[key], s.want[key]
	now, err := s.output.addTo(out.Value, before)
	switch {
	case err != nil:
		return err
	case now.Count != before.Count+1:
		return errCount
	case now.Count > want.Count:
		return errTooMany
	case now.Count == want.Count && now != want:
		return errOthers
	}
	s.got[key] = now
	return nil
}

// addTo adds an output that follows others of its key. The amount of its record is the change of
// the balance.
func (o output) addTo(value []byte, before keyTotal) (now keyTotal, err error) {
	switch {
	case o.kind == counted && len(value) == 8:
		now.Count = int64(binary.BigEndian.Uint64(value))
		return now, nil
	case o.kind == summed && len(value) == sumBytes:
		now.Count, now.Balance = int64(binary.BigEndian.Uint64(value)), int64(binary.BigEndian.Uint64(value[8:]))
		if binary.BigEndian.Uint64(value[16:]) != 0 {
			return now, errValue
		}
		now.digest = before.digest + digest(clockOf(value), now.Balance-before.Balance)
		return now, nil
	}
	return now, errLength
}

// digest is a hash of the parts of an output about its record.
func digest(clock, amount int64) uint64 {
	return measure.Scatter(measure.Scatter(uint64(clock)) + uint64(amount))
}

// Done implements [Shuffled].
func (s *shuffledEvents) Done() error {
	var missing int64
	for key, want := range s.want {
		missing += want.Count - s.got[key].Count
	}
	return lacking(missing)
}

// Sums implements [Shuffled].
func (s *shuffledEvents) Sums() map[Account]Sum {
	sums := make(map[Account]Sum, len(s.want))
	for key, t := range s.want {
		sums[key] = t.Sum
	}
	return sums
}

// Events implements [Shuffled].
func (s *shuffledEvents) Events() int64 { return int64(len(s.seen)) }
