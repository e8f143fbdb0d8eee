package state

import (
	"encoding/binary"
	"fmt"
)

// positionsVersion is the first byte of the encoding. A reader refuses every other one.
const positionsVersion = 1

// Sizes of the parts with a fixed length, in bytes. The smallest forms bound what a count in the
// input may allocate.
const (
	roundSize        = 8 + 2 + 4
	positionsHead    = 1 + 2*roundSize + 8
	inputSizeMin     = 1 + 1 + 1 + 1 + 8
	changelogSizeMin = 1 + 1 + 16 + 1 + 1 + 1
)

// Append appends the binary form of p to dst. There is exactly one form for each value (FORMAT.md),
// so equal bytes mean equal positions. p must be valid, else ParsePositions refuses the result.
func (p Positions) Append(dst []byte) []byte {
	dst = append(dst, positionsVersion)
	dst = appendRound(dst, p.Round)
	dst = appendRound(dst, p.State)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.WrittenAt))
	dst = binary.AppendUvarint(dst, uint64(len(p.Inputs)))
	for _, in := range p.Inputs {
		dst = appendName(dst, in.Topic)
		dst = binary.AppendUvarint(dst, uint64(in.Partition))
		dst = binary.AppendUvarint(dst, uint64(in.Offset))
		// Fixed, because NoTime and the milliseconds of today are both long as varints.
		dst = binary.BigEndian.AppendUint64(dst, uint64(in.StreamTime))
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Changelogs)))
	for _, c := range p.Changelogs {
		dst = appendName(dst, c.Store)
		dst = append(dst, c.TopicID[:]...)
		dst = binary.AppendUvarint(dst, uint64(c.Applied))
		dst = binary.AppendUvarint(dst, uint64(c.Scanned))
		dst = binary.AppendUvarint(dst, uint64(c.StreamTime))
	}
	return dst
}

// ParsePositions decodes what Append wrote. Every other input is refused: another version byte with
// ErrFormat, anything truncated, padded, out of order or out of range with ErrCorrupt. It never
// panics and allocates no more than a small multiple of len(b).
func ParsePositions(b []byte) (Positions, error) {
	if len(b) == 0 {
		return Positions{}, fmt.Errorf("state: parse positions: no bytes: %w", ErrCorrupt)
	}
	if b[0] != positionsVersion {
		return Positions{}, fmt.Errorf("state: parse positions: version %d, this build reads %d: %w",
			b[0], positionsVersion, ErrFormat)
	}
	if len(b) < positionsHead {
		return Positions{}, fmt.Errorf("state: parse positions: %d bytes are less than the head: %w",
			len(b), ErrCorrupt)
	}
	r := reader{rest: b[1:]}
	p := Positions{Round: r.round(), State: r.round(), WrittenAt: r.int64()}
	if n := r.count(inputSizeMin); n > 0 {
		p.Inputs = make([]Input, n)
		for i := range p.Inputs {
			p.Inputs[i] = Input{Topic: r.name(), Partition: int32(r.bounded(1<<31 - 1)),
				Offset: int64(r.bounded(1<<63 - 1)), StreamTime: r.int64()}
		}
	}
	if n := r.count(changelogSizeMin); n > 0 {
		p.Changelogs = make([]Changelog, n)
		for i := range p.Changelogs {
			p.Changelogs[i] = Changelog{Store: r.name(), TopicID: r.topicID(),
				Applied: int64(r.bounded(1<<63 - 1)), Scanned: int64(r.bounded(1<<63 - 1)),
				StreamTime: int64(r.bounded(1<<63 - 1))}
		}
	}
	if r.err == nil && len(r.rest) > 0 {
		r.fail(fmt.Sprintf("%d bytes behind the end", len(r.rest)))
	}
	if r.err != nil {
		return Positions{}, r.err
	}
	if err := p.Validate(); err != nil {
		return Positions{}, fmt.Errorf("state: parse positions: %w: %w", err, ErrCorrupt)
	}
	return p, nil
}

func appendRound(dst []byte, r RoundID) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ProducerID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Epoch))
	return binary.BigEndian.AppendUint32(dst, r.Incarnation)
}

func appendName(dst []byte, name string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(name)))
	return append(dst, name...)
}

// reader takes fields from the front of rest. After the first error every method returns zero, so
// that a caller checks err once.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("state: parse positions: %s: %w", what, ErrCorrupt)
	}
	r.rest = nil
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n > len(r.rest) {
		r.fail("truncated")
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) round() RoundID {
	b := r.take(roundSize)
	if b == nil {
		return RoundID{}
	}
	return RoundID{
		ProducerID:  int64(binary.BigEndian.Uint64(b)),
		Epoch:       int16(binary.BigEndian.Uint16(b[8:])),
		Incarnation: binary.BigEndian.Uint32(b[10:]),
	}
}

func (r *reader) topicID() (id [16]byte) {
	copy(id[:], r.take(len(id)))
	return id
}

// bounded reads a uvarint of at most limit. A longer spelling than necessary is refused: it would
// give one value two forms.
func (r *reader) bounded(limit uint64) uint64 {
	v, n := binary.Uvarint(r.rest)
	switch {
	case n <= 0:
		r.fail("truncated or overlong number")
		return 0
	case n > 1 && r.rest[n-1] == 0:
		r.fail("padded number")
		return 0
	case v > limit:
		r.fail("number out of range")
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// count reads the length of a list whose elements take at least sizeMin bytes each.
func (r *reader) count(sizeMin int) int {
	return int(r.bounded(uint64(len(r.rest) / sizeMin)))
}

func (r *reader) name() string {
	return string(r.take(int(r.bounded(uint64(len(r.rest))))))
}
