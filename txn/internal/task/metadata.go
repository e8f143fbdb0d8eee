package task

import (
	"hash/fnv"
	"slices"

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

const (
	// MetadataMax is the longest text that is put into an offset commit. Brokers refuse more than
	// offset.metadata.max.bytes (4096 by default) for the one partition, while they accept the
	// others. Longer metadata become a record that a Reference names.
	MetadataMax = 2048
)

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
