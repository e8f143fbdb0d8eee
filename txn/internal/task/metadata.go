package task

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// CommitMetadata is the commit metadata of a task, in the metadata of its first input partition.
// Offsets and state name each other by it: the offsets of all inputs, the exact position in every
// changelog, and the ids of the rounds that wrote them.
//
// Brokers store it as text: "ow", the major version in decimal, ":", and these fields in unpadded
// base64.
//   - fingerprint: 8 bytes
//   - round id and state id: 14 bytes each
//   - number of inputs; for each the 4-byte hash of its topic, offset and stream time as varints
//   - number of changelogs; for each the 4-byte hash of its store's name, applied and the store's
//     stream time as uvarints. A Table has the offset of its input and its count instead
//   - 8 bytes of hash over stores and topic ids
//   - fields of newer minor versions: for each a tag above 0 and a length as uvarints, and that
//     many bytes
//
// All fixed-width integers are big endian.
//
// Builds of one major version read each other's commits, as instances of both share a group during
// an upgrade. A reader skips the fields that it does not know, and its own commits do not contain
// them. So a field may say only what can be missing.
//
// A commit of a newer major version is refused with state.ErrFormat. It is not mistaken for the
// metadata of another program, which do not begin like ours. The frame, everything up to the ":" or
// "@" (see Reference), is the same in every version. A build that raises the major version raises
// that of package assign too. Otherwise an older build could read the plan, join, be given tasks,
// and stop them.
type CommitMetadata struct {
	// Fingerprint is the topology's.
	Fingerprint [8]byte
	Round       state.RoundID
	State       state.RoundID
	Inputs      []CommittedInput
	Changelogs  []CommittedChangelog
	// Topics is TopicsHash of the changelogs.
	Topics uint64
	// Retry is the record that has failed and is to be tried again, if there is one.
	Retry CommittedRetry
	// Parked says how many records wait in the stores of parked keys. A store where none waits is
	// not named, nor is any by a build that does not know the field.
	Parked []CommittedParked
	// Mode is that of the application. A commit that does not contain it is in mode Live: builds
	// that know modes leave out only that one. Commits of earlier builds count as Live too. If they
	// counted as any mode, a replay could continue with live state.
	Mode topology.Mode
	// Modeless says that the commit is an operator's, for a task of which no commit was known and
	// no state is kept: it is of no mode, and Mode is Live. The first round decides.
	Modeless bool
}

// CommittedParked is a store in which records of a source wait, so that a topology without a place
// for them does not go on without them.
type CommittedParked struct {
	Store   string
	Records int64
}

// tagParked is the field of Parked: for each store the length of its name as a uvarint, the name,
// and the records as a uvarint. A build that does not know it does not look whether the topology
// has the store. A commit without it does not say that nothing waits, as it may be that of such a
// build: see restore.findParked.
const tagParked = 2

// CommittedRetry says how often a record was tried, so that the count continues after a restart or
// a move to another instance. The record is the next one of its input, and the count applies to no
// other record. Attempts is 0 if no record is retried.
type CommittedRetry struct {
	Topic    uint32 // HashName of the topic
	Offset   int64
	Attempts int
	// FirstFailure is in milliseconds since the epoch.
	FirstFailure int64
}

// tagRetry is the field of a CommittedRetry: the 4-byte hash, offset and attempts as uvarints, the
// first failure as a varint. A build that does not know it starts to count at zero.
const tagRetry = 1

// tagMode is the field of the mode: one byte, and no field for Live.
const tagMode = 3

// tagModeless is the field of Modeless, which is empty. A build that does not know it takes the
// commit for one in mode Live.
const tagModeless = 4

// CommittedInput is the committed position of one input.
type CommittedInput struct {
	Topic      uint32 // HashName of the topic
	Offset     int64
	StreamTime int64
}

// CommittedChangelog is the committed position in one changelog.
type CommittedChangelog struct {
	Store      uint32 // HashName of the store
	Applied    int64
	StreamTime int64
}

// The frame of metadata: the mark, the major version, and what the rest is.
const (
	mark          = "ow"
	kindMetadata  = ':'
	kindReference = '@'
	// versionDigits bounds what is taken for a version.
	versionDigits = 4
)

const (
	// MetadataMax is the longest text that is put into an offset commit. Brokers refuse more than
	// offset.metadata.max.bytes (4096 by default) for the one partition, while they accept the
	// others. Longer metadata become a record that a Reference names.
	MetadataMax = 2048
)

// Reference stands for commit metadata that are too large for an offset commit: it names the record
// of the rounds topic that holds them. The stable commit that names the record proves it, so it may
// be read uncommitted.
type Reference struct {
	Round     state.RoundID
	Partition int32
	Offset    int64
}

// Encode returns the text of the reference: as that of CommitMetadata, with "@" instead of ":", and
// in base64 the round id, and partition and offset as uvarints.
func (r Reference) Encode() string {
	out := appendRound(nil, r.Round)
	out = binary.AppendUvarint(out, uint64(r.Partition))
	out = binary.AppendUvarint(out, uint64(r.Offset))
	return frame(kindReference, out)
}

// ParseReference reads metadata; ok is false when it is anything but a reference of a version that
// this build reads.
func ParseReference(metadata string) (ref Reference, ok bool) {
	body, err := unframe(kindReference, metadata)
	if err != nil {
		return Reference{}, false
	}
	r := fieldReader{rest: body}
	ref.Round = r.round()
	partition := r.offset()
	ref.Offset = r.offset()
	ref.Partition = int32(partition)
	if r.bad || len(r.rest) != 0 || partition > math.MaxInt32 {
		return Reference{}, false
	}
	return ref, true
}

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

// RecordKey is the key of the record that holds a task's commit metadata. Other records about the
// task have other keys: compaction must never remove the record that a commit names.
func RecordKey(task string) []byte { return []byte("blob " + task) }

// PositionsKey is the key of the record that keeps the metadata of a task's last commit after a
// clean stop. The first commit of the next incarnation deletes the record, because it does not
// describe the last commit any more.
func PositionsKey(task string) []byte { return []byte("positions " + task) }

// HashName is the 4-byte hash that stands for a topic's or store's name in commit metadata. For a
// store it is its id.
func HashName(name string) uint32 { return uint32(state.IDOf(name)) }

// TopicsHash identifies the changelog topics themselves: a topic that was deleted and made again
// under its old name changes it.
func TopicsHash(changelogs []state.Changelog) uint64 {
	h := fnv.New64a()
	for _, c := range changelogs {
		_, _ = h.Write([]byte(c.Store))
		_, _ = h.Write([]byte{0})
		_, _ = h.Write(c.TopicID[:])
	}
	return h.Sum64()
}

// NewCommitMetadata describes positions as a commit.
func NewCommitMetadata(fingerprint [8]byte, p state.Positions) CommitMetadata {
	b := CommitMetadata{Fingerprint: fingerprint, Round: p.Round, State: p.State, Topics: TopicsHash(p.Changelogs)}
	for _, in := range p.Inputs {
		b.Inputs = append(b.Inputs, CommittedInput{HashName(in.Topic), in.Offset, in.StreamTime})
	}
	for _, c := range p.Changelogs {
		b.Changelogs = append(b.Changelogs, CommittedChangelog{HashName(c.Store), c.Applied, c.StreamTime})
	}
	return b
}

// Target returns the committed position in a store's changelog; known is false when the commit does
// not name the store. A nil b names none.
func (b *CommitMetadata) Target(store string) (applied int64, known bool) {
	c, known := b.Changelog(store)
	return c.Applied, known
}

// Changelog returns the committed position in a store's changelog; known is false when the commit
// does not name the store. A nil b names none.
func (b *CommitMetadata) Changelog(store string) (c CommittedChangelog, known bool) {
	if b == nil {
		return CommittedChangelog{}, false
	}
	for _, c := range b.Changelogs {
		if c.Store == HashName(store) {
			return c, true
		}
	}
	return CommittedChangelog{}, false
}

// Input returns the committed position of a topic; known is false when the commit does not name it.
// A nil b names none.
func (b *CommitMetadata) Input(topic string) (in CommittedInput, known bool) {
	if b == nil {
		return CommittedInput{}, false
	}
	for _, in := range b.Inputs {
		if in.Topic == HashName(topic) {
			return in, true
		}
	}
	return CommittedInput{}, false
}

// WhereParked returns the stores in which records wait. A nil b names none.
func (b *CommitMetadata) WhereParked() []CommittedParked {
	if b == nil {
		return nil
	}
	return b.Parked
}

// IsOf reports whether an instance that takes over commits in these modes may go on from this one.
func (b *CommitMetadata) IsOf(modes []topology.Mode) bool {
	return b.Modeless || slices.Contains(modes, b.Mode)
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
