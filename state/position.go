package state

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// NoTime is the stream time of an input of which no record was processed yet. It is smaller than
// every timestamp.
const NoTime int64 = math.MinInt64

// RoundID is the permanent name of one commit round: the identity of the transaction (producer id
// and epoch, which the broker raises for every transaction) and a random incarnation of the
// process. A plain counter would repeat after a restart.
//
// The zero value means "no round yet".
type RoundID struct {
	ProducerID  int64
	Epoch       int16
	Incarnation uint32
}

// IsZero reports whether r names no round.
func (r RoundID) IsZero() bool { return r == RoundID{} }

// String returns "producer/epoch/incarnation", the incarnation in hexadecimal, or "none" for the
// zero value. Producer ids of brokers are not negative. A negative one is made up when an operator
// adopts a state; String shows it as "declared/" with its bits in hexadecimal.
func (r RoundID) String() string {
	if r.IsZero() {
		return "none"
	}
	if r.ProducerID < 0 {
		return fmt.Sprintf("declared/%016x", uint64(r.ProducerID))
	}
	return fmt.Sprintf("%d/%d/%08x", r.ProducerID, r.Epoch, r.Incarnation)
}

// Input is the position in one input partition of a task.
type Input struct {
	Topic     string
	Partition int32
	// Offset is the next offset to read.
	Offset int64
	// StreamTime is the largest timestamp of a successfully processed record of this partition, in
	// milliseconds since the epoch; NoTime when there was none.
	StreamTime int64
}

// compareInputs is the order of Positions.Inputs: by topic, then by partition.
func compareInputs(a, b Input) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Changelog is the position in the changelog of one store of a task.
type Changelog struct {
	// Store is the stable name of the store.
	Store string
	// TopicID is the id that the cluster gave to the changelog topic. A recreated topic has another
	// one.
	TopicID [16]byte
	// Applied is the offset of the last record that is contained in the store, plus one.
	Applied int64
	// Scanned is the next offset of the raw fetch. Control records and aborted records make it
	// larger than Applied.
	Scanned int64
	// StreamTime is the store's own stream time (Bytes.StreamTime), 0 for a store without one.
	// Expiry depends on it, so it is committed with the data and the same everywhere. A store
	// without a changelog, which is restored from an input topic, has that topic above, and here
	// 2^62 and more: a digest of the processed records. See FORMAT.md.
	//
	// A store whose rows are lost when its database is closed has its stream time here and nothing
	// above. No commit names it, and the disk has nothing of it.
	StreamTime int64
}

// compareChangelogs is the order of Positions.Changelogs: by store name.
func compareChangelogs(a, b Changelog) int { return strings.Compare(a.Store, b.Store) }

// Positions says up to where a task's database contains its inputs and changelogs. It is written in
// the same atomic batch as the data that it describes.
//
// The zero value describes an empty database. Positions is a value, but its slices are shared by
// plain assignment: a holder that changes one calls Clone first. The byte form is in FORMAT.md.
type Positions struct {
	// Round is the id of the last round that is contained.
	Round RoundID
	// State is the id of the last contained round that wrote a changelog record of this task.
	State RoundID
	// Inputs is sorted by topic and partition.
	Inputs []Input
	// Changelogs is sorted by store.
	Changelogs []Changelog
	// WrittenAt is the wall clock of the process that wrote the positions, in milliseconds since
	// the epoch. Only the age of a database is judged by it (tombstones that may have expired).
	WrittenAt int64
}

// Clone returns a copy that shares nothing with p.
func (p Positions) Clone() Positions {
	p.Inputs = slices.Clone(p.Inputs)
	p.Changelogs = slices.Clone(p.Changelogs)
	return p
}

// Equal reports whether p and q are equal in every field. Nil and empty slices are the same.
func (p Positions) Equal(q Positions) bool { return p.WrittenAt == q.WrittenAt && p.Same(q) }

// Same reports whether p and q name the same place: every field is equal except WrittenAt, which is
// no part of a place. It is what Database.Apply compares the base with.
func (p Positions) Same(q Positions) bool {
	return p.Round == q.Round && p.State == q.State &&
		slices.Equal(p.Inputs, q.Inputs) && slices.Equal(p.Changelogs, q.Changelogs)
}

// Input returns the position in one input partition; ok is false when p does not name it.
func (p Positions) Input(topic string, partition int32) (in Input, ok bool) {
	i, ok := slices.BinarySearchFunc(p.Inputs, Input{Topic: topic, Partition: partition}, compareInputs)
	if !ok {
		return Input{}, false
	}
	return p.Inputs[i], true
}

// Changelog returns the position in the changelog of one store; ok is false when p does not name
// it.
func (p Positions) Changelog(store string) (c Changelog, ok bool) {
	i, ok := slices.BinarySearchFunc(p.Changelogs, Changelog{Store: store}, compareChangelogs)
	if !ok {
		return Changelog{}, false
	}
	return p.Changelogs[i], true
}

// SetInput replaces the position of in's partition, or adds it at its place in the order. It
// changes the slice in place: a shared value is cloned first.
func (p *Positions) SetInput(in Input) {
	i, ok := slices.BinarySearchFunc(p.Inputs, in, compareInputs)
	if ok {
		p.Inputs[i] = in
		return
	}
	p.Inputs = slices.Insert(p.Inputs, i, in)
}

// SetChangelog replaces the position of c's store, or adds it at its place in the order. It changes
// the slice in place: a shared value is cloned first.
func (p *Positions) SetChangelog(c Changelog) {
	i, ok := slices.BinarySearchFunc(p.Changelogs, c, compareChangelogs)
	if ok {
		p.Changelogs[i] = c
		return
	}
	p.Changelogs = slices.Insert(p.Changelogs, i, c)
}

// Validate reports the first broken rule of p: names must not be empty, partitions and offsets not
// negative, Inputs and Changelogs strictly ascending. A database refuses positions that are not
// valid, because it could not read them back.
func (p Positions) Validate() error {
	for i, in := range p.Inputs {
		switch {
		case in.Topic == "":
			return fmt.Errorf("input %d has no topic", i)
		case in.Partition < 0:
			return fmt.Errorf("input %s has the negative partition %d", in.Topic, in.Partition)
		case in.Offset < 0:
			return fmt.Errorf("input %s-%d has the negative offset %d", in.Topic, in.Partition, in.Offset)
		case i > 0 && compareInputs(p.Inputs[i-1], in) >= 0:
			return fmt.Errorf("inputs are not in strictly ascending order at %s-%d", in.Topic, in.Partition)
		}
	}
	for i, c := range p.Changelogs {
		switch {
		case c.Store == "":
			return fmt.Errorf("changelog %d has no store", i)
		case c.Applied < 0 || c.Scanned < 0:
			return fmt.Errorf("changelog of %s has a negative offset (applied %d, scanned %d)",
				c.Store, c.Applied, c.Scanned)
		case c.StreamTime < 0:
			return fmt.Errorf("changelog of %s has the negative stream time %d", c.Store, c.StreamTime)
		case i > 0 && compareChangelogs(p.Changelogs[i-1], c) >= 0:
			return errors.New("changelogs are not in strictly ascending order at " + c.Store)
		}
	}
	return nil
}

// digests is where the stream times of stores end and digests begin.
const digests = int64(1) << 62

// String returns one line for logs and errors, such as
//
//	round 4/7/0000beef state 4/6/0000beef inputs orders-0@12 changelogs balances@7(scanned 9)
func (p Positions) String() string {
	b := make([]byte, 0, 64+32*(len(p.Inputs)+len(p.Changelogs)))
	b = append(b, "round "...)
	b = append(b, p.Round.String()...)
	b = append(b, " state "...)
	b = append(b, p.State.String()...)
	b = append(b, " inputs"...)
	for _, in := range p.Inputs {
		b = append(b, ' ')
		b = append(b, in.Topic...)
		b = append(b, '-')
		b = strconv.AppendInt(b, int64(in.Partition), 10)
		b = append(b, '@')
		b = strconv.AppendInt(b, in.Offset, 10)
	}
	b = append(b, " changelogs"...)
	for _, c := range p.Changelogs {
		b = append(b, ' ')
		b = append(b, c.Store...)
		b = append(b, '@')
		b = strconv.AppendInt(b, c.Applied, 10)
		if c.Scanned != c.Applied {
			b = append(b, "(scanned "...)
			b = strconv.AppendInt(b, c.Scanned, 10)
			b = append(b, ')')
		}
		switch {
		case c.StreamTime >= digests:
			b = append(b, "(digest "...)
			b = strconv.AppendInt(b, c.StreamTime-digests, 16)
			b = append(b, ')')
		case c.StreamTime != 0:
			b = append(b, "(time "...)
			b = strconv.AppendInt(b, c.StreamTime, 10)
			b = append(b, ')')
		}
	}
	return string(b)
}
