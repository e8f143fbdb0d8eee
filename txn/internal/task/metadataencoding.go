package task

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// tagParked is the field of Parked: for each store the length of its name as a uvarint, the name,
// and the records as a uvarint. A build that does not know it does not look whether the topology
// has the store. A commit without it does not say that nothing waits, as it may be that of such a
// build: see restore.findParked.
const tagParked = 2

// tagRetry is the field of a CommittedRetry: the 4-byte hash, offset and attempts as uvarints, the
// first failure as a varint. A build that does not know it starts to count at zero.
const tagRetry = 1

// tagMode is the field of the mode: one byte, and no field for Live.
const tagMode = 3

// tagModeless is the field of Modeless, which is empty. A build that does not know it takes the
// commit for one in mode Live.
const tagModeless = 4

// The frame of metadata: the mark, the major version, and what the rest is.
const (
	mark          = "ow"
	kindMetadata  = ':'
	kindReference = '@'
	// versionDigits bounds what is taken for a version.
	versionDigits = 4
)

func frame(kind byte, body []byte) string {
	return mark + strconv.Itoa(metadataMajor) + string(kind) + base64.RawStdEncoding.EncodeToString(body)
}

// unframe returns what is in the frame. The error wraps state.ErrFormat if a newer build wrote it,
// of whatever kind it is.
func unframe(kind byte, metadata string) ([]byte, error) {
	rest, ours := strings.CutPrefix(metadata, mark)
	end := strings.IndexAny(rest, string([]byte{kindMetadata, kindReference}))
	if !ours || end < 1 || end > versionDigits {
		return nil, errMetadata
	}
	major, err := strconv.Atoi(rest[:end])
	if err != nil || major < 1 || strconv.Itoa(major) != rest[:end] {
		return nil, errMetadata
	}
	if major > metadataMajor {
		return nil, fmt.Errorf("%w: version %d, this build reads %d", state.ErrFormat, major, metadataMajor)
	}
	if rest[end] != kind {
		return nil, errMetadata
	}
	body, err := base64.RawStdEncoding.DecodeString(rest[end+1:])
	if err != nil {
		return nil, errMetadata
	}
	return body, nil
}

// Encode returns the metadata text.
func (b CommitMetadata) Encode() string {
	out := make([]byte, 0, 64+16*len(b.Inputs)+12*len(b.Changelogs))
	out = append(out, b.Fingerprint[:]...)
	out = appendRound(out, b.Round)
	out = appendRound(out, b.State)
	out = binary.AppendUvarint(out, uint64(len(b.Inputs)))
	for _, in := range b.Inputs {
		out = binary.BigEndian.AppendUint32(out, in.Topic)
		out = binary.AppendUvarint(out, uint64(in.Offset))
		out = binary.AppendVarint(out, in.StreamTime)
	}
	out = binary.AppendUvarint(out, uint64(len(b.Changelogs)))
	for _, c := range b.Changelogs {
		out = binary.BigEndian.AppendUint32(out, c.Store)
		out = binary.AppendUvarint(out, uint64(c.Applied))
		out = binary.AppendUvarint(out, uint64(c.StreamTime))
	}
	out = binary.BigEndian.AppendUint64(out, b.Topics)
	out = b.appendParked(b.Retry.appendTo(out))
	if b.Mode != topology.Live {
		out = append(out, tagMode, 1, byte(b.Mode))
	}
	if b.Modeless {
		out = appendField(out, tagModeless, nil)
	}
	return frame(kindMetadata, appendNext(out))
}

func (r CommittedRetry) appendTo(dst []byte) []byte {
	if r.Attempts == 0 {
		return dst
	}
	field := binary.BigEndian.AppendUint32(nil, r.Topic)
	field = binary.AppendUvarint(field, uint64(r.Offset))
	field = binary.AppendUvarint(field, uint64(r.Attempts))
	field = binary.AppendVarint(field, r.FirstFailure)
	return appendField(dst, tagRetry, field)
}

func (b CommitMetadata) appendParked(dst []byte) []byte {
	if len(b.Parked) == 0 {
		return dst
	}
	var field []byte
	for _, p := range b.Parked {
		field = append(binary.AppendUvarint(field, uint64(len(p.Store))), p.Store...)
		field = binary.AppendUvarint(field, uint64(p.Records))
	}
	return appendField(dst, tagParked, field)
}

func appendField(dst []byte, tag uint64, field []byte) []byte {
	dst = binary.AppendUvarint(dst, tag)
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

func appendRound(dst []byte, r state.RoundID) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.ProducerID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Epoch))
	return binary.BigEndian.AppendUint32(dst, r.Incarnation)
}

var errMetadata = errors.New("not the commit metadata of a task")

// entriesMax bounds what foreign metadata make us allocate.
const entriesMax = 4096

// ParseCommitMetadata reads metadata. The error wraps state.ErrFormat if a build with a newer major
// version wrote it. It fails on everything else that no Encode of this major version wrote.
func ParseCommitMetadata(metadata string) (CommitMetadata, error) {
	body, err := unframe(kindMetadata, metadata)
	if err != nil {
		return CommitMetadata{}, err
	}
	r := fieldReader{rest: body}
	var b CommitMetadata
	copy(b.Fingerprint[:], r.take(8))
	b.Round, b.State = r.round(), r.round()
	for range r.count() {
		b.Inputs = append(b.Inputs, CommittedInput{r.uint32(), r.offset(), r.varint()})
	}
	for range r.count() {
		b.Changelogs = append(b.Changelogs, CommittedChangelog{r.uint32(), r.offset(), r.offset()})
	}
	b.Topics = r.uint64()
	r.fields(&b)
	if r.bad {
		return CommitMetadata{}, errMetadata
	}
	return b, nil
}

// fieldReader reads fields one after the other; after the first failure everything is zero and bad
// stays set.
type fieldReader struct {
	rest []byte
	bad  bool
}

func (r *fieldReader) take(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad = true
		return make([]byte, n)
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

// fields reads those that came with minor versions, and passes over those of newer ones.
func (r *fieldReader) fields(b *CommitMetadata) {
	for !r.bad && len(r.rest) > 0 {
		tag, n := r.uvarint(), r.uvarint()
		if r.bad || tag == 0 || n > uint64(len(r.rest)) {
			r.bad = true
			return
		}
		field := fieldReader{rest: r.rest[:n]}
		switch tag {
		case tagMode:
			// Bytes that a newer build appends to the field are skipped. It may have modes that
			// this build does not know.
			b.Mode = topology.Mode(field.take(1)[0])
			r.bad = field.bad
		case tagModeless:
			b.Modeless = true
		case tagRetry:
			b.Retry = CommittedRetry{
				Topic: field.uint32(), Offset: field.offset(), Attempts: int(field.uvarint()), FirstFailure: field.varint(),
			}
			r.bad = field.bad || len(field.rest) > 0 || b.Retry.Attempts < 1
		case tagParked:
			for !field.bad && len(field.rest) > 0 {
				b.Parked = append(b.Parked, CommittedParked{Store: field.text(), Records: field.offset()})
			}
			r.bad = field.bad
		}
		r.rest = r.rest[n:]
	}
}

func (r *fieldReader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	return string(r.take(int(n)))
}

func (r *fieldReader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *fieldReader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *fieldReader) round() state.RoundID {
	return state.RoundID{
		ProducerID:  int64(r.uint64()),
		Epoch:       int16(binary.BigEndian.Uint16(r.take(2))),
		Incarnation: r.uint32(),
	}
}

func (r *fieldReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *fieldReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *fieldReader) offset() int64 {
	v := r.uvarint()
	if v > math.MaxInt64 {
		r.bad = true
		return 0
	}
	return int64(v)
}

func (r *fieldReader) count() int {
	n := r.uvarint()
	if n > entriesMax {
		r.bad = true
		return 0
	}
	return int(n)
}
