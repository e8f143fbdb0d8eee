package assign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"unicode/utf8"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
)

// reasonMax is the longest reason of a stopped task that travels: the coordinator keeps the join
// data of all members in one record.
const reasonMax = 200

// Tags of the fields.
const (
	joinNonce       = 1
	joinFingerprint = 2
	joinDefinition  = 3
	joinLocal       = 4
	joinStopped     = 5
	joinAddress     = 6
	joinStandbys    = 7
	joinRack        = 8
	joinWarm        = 9

	planID    = 1
	planOwed  = 2
	planEntry = 3
	planCopy  = 4
	planOwner = 5
)

// definitionStateful is a bit of what a definition says beside its sources.
const definitionStateful = 1

// ErrUserData says that user data cannot be read: damaged, or of a newer major version, which also
// is a state.ErrFormat.
var ErrUserData = errors.New("unreadable user data")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the user data of a join.
func (j Join) Encode() []byte {
	out := []byte{formatMajor, formatMinor}
	out = appendField(out, joinNonce, binary.BigEndian.AppendUint64(nil, j.Nonce))
	out = appendField(out, joinFingerprint, j.Fingerprint[:])
	for _, s := range j.Subtopologies {
		f := appendString(nil, s.Name)
		f = binary.AppendUvarint(f, uint64(max(s.PartitionsMax, 0)))
		f = binary.AppendUvarint(f, uint64(len(s.Sources)))
		for _, topic := range s.Sources {
			f = appendString(f, topic)
		}
		if s.Stateful {
			f = binary.AppendUvarint(f, definitionStateful)
		}
		out = appendField(out, joinDefinition, f)
	}
	for run := range runs(j.Local, func(a, b LocalTask) bool { return a.Task.Subtopology == b.Task.Subtopology }) {
		f := appendString(nil, run[0].Task.Subtopology)
		f = binary.AppendUvarint(f, uint64(len(run)))
		for _, l := range run {
			f = binary.AppendUvarint(f, uint64(max(l.Task.Partition, 0)))
			f = binary.AppendUvarint(f, uint64(max(l.Position, 0)))
		}
		out = appendField(out, joinLocal, f)
	}
	for _, s := range j.Stopped {
		f := appendTask(nil, s.Task)
		out = appendField(out, joinStopped, appendString(f, cut(s.Reason, reasonMax)))
	}
	if j.Address != "" {
		out = appendField(out, joinAddress, []byte(j.Address))
	}
	if j.Standbys > 0 {
		out = appendField(out, joinStandbys, binary.AppendUvarint(nil, uint64(j.Standbys)))
	}
	if j.Rack != "" {
		out = appendField(out, joinRack, []byte(j.Rack))
	}
	for run := range runs(j.Warm, func(a, b graph.TaskID) bool { return a.Subtopology == b.Subtopology }) {
		f := binary.AppendUvarint(appendString(nil, run[0].Subtopology), uint64(len(run)))
		for _, id := range run {
			f = binary.AppendUvarint(f, uint64(max(id.Partition, 0)))
		}
		out = appendField(out, joinWarm, f)
	}
	return appendCheck(appendNext(out))
}

// DecodeJoin reads the user data of a join. The error wraps ErrUserData.
func DecodeJoin(data []byte) (Join, error) {
	var j Join
	err := readFields(data, func(tag uint64, f *reader) {
		switch tag {
		case joinNonce:
			j.Nonce = f.uint64()
		case joinFingerprint:
			copy(j.Fingerprint[:], f.bytes(8))
		case joinDefinition:
			s := Subtopology{Name: f.string(), PartitionsMax: f.int32()}
			for n := f.uvarint(); n > 0 && !f.bad; n-- {
				s.Sources = append(s.Sources, f.string())
			}
			if len(f.rest) > 0 { // else of a build that did not say it
				s.Stateful = f.uvarint()&definitionStateful > 0
			}
			j.Subtopologies = append(j.Subtopologies, s)
		case joinLocal:
			name := f.string()
			for n := f.uvarint(); n > 0 && !f.bad; n-- {
				l := LocalTask{Task: graph.TaskID{Subtopology: name, Partition: f.int32()}, Position: f.int64()}
				j.Local = append(j.Local, l)
			}
		case joinStopped:
			j.Stopped = append(j.Stopped, StoppedTask{Task: f.task(), Reason: f.string()})
		case joinAddress:
			j.Address = string(f.rest)
		case joinStandbys:
			j.Standbys = f.int32()
		case joinRack:
			j.Rack = string(f.rest)
		case joinWarm:
			name := f.string()
			for n := f.uvarint(); n > 0 && !f.bad; n-- {
				j.Warm = append(j.Warm, graph.TaskID{Subtopology: name, Partition: f.int32()})
			}
		}
	})
	if err != nil {
		return Join{}, fmt.Errorf("join data: %w", err)
	}
	return j, nil
}

// Encode returns the user data of an assignment.
func (p Plan) Encode() []byte {
	out := []byte{formatMajor, formatMinor}
	out = appendField(out, planID, binary.BigEndian.AppendUint64(nil, p.ID))
	for _, m := range p.Pending {
		f := appendTask(nil, m.Task)
		f = appendString(f, m.From)
		out = appendField(out, planOwed, appendString(f, m.To))
	}
	for _, e := range p.Entries {
		f := appendString(nil, e.Member)
		f = append(f, e.Fingerprint[:]...)
		f = binary.BigEndian.AppendUint64(f, e.Subscription)
		f = binary.AppendUvarint(f, uint64(max(e.Stopped, 0)))
		f = binary.AppendUvarint(appendString(f, e.Address), uint64(max(e.Standbys, 0)))
		out = appendField(out, planEntry, appendString(f, e.Rack))
	}
	together := func(a, b Copy) bool { return a.Member == b.Member && a.Task.Subtopology == b.Task.Subtopology }
	for run := range runs(p.Copies, together) {
		f := appendString(appendString(nil, run[0].Member), run[0].Task.Subtopology)
		f = binary.AppendUvarint(f, uint64(len(run)))
		for _, c := range run {
			at := uint64(max(c.Task.Partition, 0)) << 1
			if c.Awaited {
				at |= 1
			}
			f = binary.AppendUvarint(f, at)
		}
		out = appendField(out, planCopy, f)
	}
	same := func(a, b Owner) bool { return a.Member == b.Member && a.Task.Subtopology == b.Task.Subtopology }
	for run := range runs(p.Owners, same) {
		f := appendString(appendString(nil, run[0].Member), run[0].Task.Subtopology)
		f = binary.AppendUvarint(f, uint64(len(run)))
		for _, o := range run {
			f = binary.AppendUvarint(f, uint64(max(o.Task.Partition, 0)))
		}
		out = appendField(out, planOwner, f)
	}
	return appendCheck(appendNext(out))
}

// runs divides a list into its longest parts whose elements go together with their first one.
func runs[T any](all []T, together func(first, other T) bool) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(all) > 0 {
			n := 1
			for n < len(all) && together(all[0], all[n]) {
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// DecodePlan reads the user data of an assignment. The error wraps ErrUserData.
func DecodePlan(data []byte) (Plan, error) {
	var p Plan
	err := readFields(data, func(tag uint64, f *reader) {
		switch tag {
		case planID:
			p.ID = f.uint64()
		case planOwed:
			p.Pending = append(p.Pending, Move{Task: f.task(), From: f.string(), To: f.string()})
		case planEntry:
			e := Entry{Member: f.string()}
			copy(e.Fingerprint[:], f.bytes(8))
			e.Subscription = f.uint64()
			if len(f.rest) > 0 { // else of a build that did not count them
				e.Stopped = f.int32()
			}
			if len(f.rest) > 0 { // as above
				e.Address = f.string()
			}
			if len(f.rest) > 0 { // as above
				e.Standbys, e.Rack = f.int32(), f.string()
			}
			p.Entries = append(p.Entries, e)
		case planCopy:
			member, name := f.string(), f.string()
			for n := f.uvarint(); n > 0 && !f.bad; n-- {
				at := f.below(math.MaxInt32<<1 | 1)
				p.Copies = append(p.Copies, Copy{
					Task: graph.TaskID{Subtopology: name, Partition: int32(at >> 1)}, Member: member, Awaited: at&1 > 0,
				})
			}
		case planOwner:
			member, name := f.string(), f.string()
			for n := f.uvarint(); n > 0 && !f.bad; n-- {
				p.Owners = append(p.Owners, Owner{Task: graph.TaskID{Subtopology: name, Partition: f.int32()}, Member: member})
			}
		}
	})
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}

// readFields checks the frame and calls each with every field. A field may be read only in part:
// the rest is a newer writer's.
func readFields(data []byte, each func(tag uint64, f *reader)) error {
	switch {
	case len(data) < 6:
		return fmt.Errorf("%w: %d bytes are too few", ErrUserData, len(data))
	case data[0] == 0:
		return fmt.Errorf("%w: there is no major version 0", ErrUserData)
	case data[0] > formatMajor:
		return fmt.Errorf("%w: %w: major version %d, this build reads %d", ErrUserData, state.ErrFormat, data[0], formatMajor)
	}
	body, check := data[:len(data)-4], data[len(data)-4:]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(check) {
		return fmt.Errorf("%w: the check does not match", ErrUserData)
	}
	r := reader{rest: body[2:]}
	for len(r.rest) > 0 {
		tag := r.uvarint()
		f := reader{rest: r.bytes(r.uvarint())}
		if !r.bad {
			each(tag, &f)
		}
		if r.bad || f.bad {
			return fmt.Errorf("%w: field %d is cut off or out of range", ErrUserData, tag)
		}
	}
	return nil
}

func appendCheck(out []byte) []byte {
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

func appendField(out []byte, tag uint64, body []byte) []byte {
	out = binary.AppendUvarint(out, tag)
	out = binary.AppendUvarint(out, uint64(len(body)))
	return append(out, body...)
}

func appendString(out []byte, s string) []byte {
	out = binary.AppendUvarint(out, uint64(len(s)))
	return append(out, s...)
}

func appendTask(out []byte, id graph.TaskID) []byte {
	return binary.AppendUvarint(appendString(out, id.Subtopology), uint64(max(id.Partition, 0)))
}

// cut shortens s to at most n bytes, at the start of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// reader takes values from the front. After the first that is not there, bad is set and every value
// is zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) string() string { return string(r.bytes(r.uvarint())) }

func (r *reader) uint64() uint64 {
	b := r.bytes(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func (r *reader) int64() int64 { return int64(r.below(math.MaxInt64)) }

func (r *reader) int32() int32 { return int32(r.below(math.MaxInt32)) }

func (r *reader) below(most uint64) uint64 {
	v := r.uvarint()
	if v > most {
		r.bad, r.rest = true, nil
		return 0
	}
	return v
}

func (r *reader) task() graph.TaskID {
	return graph.TaskID{Subtopology: r.string(), Partition: r.int32()}
}
