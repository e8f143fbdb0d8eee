package task

import (
	"encoding/binary"
	"math"

	"github.com/onceward/onceward/state"
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

// RecordKey is the key of the record that holds a task's commit metadata. Other records about the
// task have other keys: compaction must never remove the record that a commit names.
func RecordKey(task string) []byte { return []byte("blob " + task) }

// PositionsKey is the key of the record that keeps the metadata of a task's last commit after a
// clean stop. The first commit of the next incarnation deletes the record, because it does not
// describe the last commit any more.
func PositionsKey(task string) []byte { return []byte("positions " + task) }
