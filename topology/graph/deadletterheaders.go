package graph

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// The headers of a dead letter. Values are UTF-8 text. The first group is that of Kafka Streams,
// with its meaning: it is about the record that failed now. The second group is ours.
const (
	HeaderStreamsException  = "__streams.errors.exception"
	HeaderStreamsMessage    = "__streams.errors.message"
	HeaderStreamsStacktrace = "__streams.errors.stacktrace"
	HeaderStreamsTopic      = "__streams.errors.topic"
	HeaderStreamsPartition  = "__streams.errors.partition"
	HeaderStreamsOffset     = "__streams.errors.offset"

	// HeaderID identifies the record that died: see [DeadLetterID].
	HeaderID = "onceward.id"
	// HeaderApplication is the application in which the record died. In each application a record
	// has an id and an origin of its own. Only the number of deaths goes on from one to the next.
	HeaderApplication = "onceward.application"
	// HeaderVersion is the fingerprint of the topology.
	HeaderVersion = "onceward.version"
	HeaderTask    = "onceward.task"
	HeaderNode    = "onceward.node"
	HeaderClass   = "onceward.class"
	// HeaderMessage is the reason, which quotes nothing of the record: see [Failure.Reason].
	HeaderMessage  = "onceward.message"
	HeaderAttempts = "onceward.attempts"
	// HeaderFirstFailure and HeaderLastFailure are in RFC 3339 with milliseconds, UTC.
	HeaderFirstFailure = "onceward.failure.first"
	HeaderLastFailure  = "onceward.failure.last"
	// HeaderTopic and the four after it are where the record died first.
	HeaderTopic     = "onceward.topic"
	HeaderPartition = "onceward.partition"
	HeaderOffset    = "onceward.offset"
	// HeaderTimestamp is in milliseconds since the epoch.
	HeaderTimestamp     = "onceward.timestamp"
	HeaderTimestampType = "onceward.timestamp.type"
	// HeaderSource is on a record of a repartition topic with topology.KeepOrigin, and on its dead
	// letter. It is the position of the input's record that it comes from: topic, partition and
	// offset with spaces between them. The append time in milliseconds since the epoch follows if
	// it is known. The header is empty if the record comes from no input.
	HeaderSource = "onceward.source"
	// HeaderLastTimestamp is the timestamp that the record had when it died last, in milliseconds
	// since the epoch. The timestamp of the dead letter can be another one: a topic with
	// message.timestamp.type=LogAppendTime has the broker's time, and a broker refuses some times.
	// Dead letters of older builds do not have the header.
	HeaderLastTimestamp = "onceward.timestamp.last"
	// HeaderDeaths counts how often the record died, in all applications: more than 1 after a
	// redrive.
	HeaderDeaths = "onceward.deaths"
	// HeaderEdition counts how often operators edited the dead letter since the record died. It is
	// missing if they never did.
	HeaderEdition = "onceward.edition"
	// HeaderCut is there if the record was cut to fit into the dead-letter topic. It has the full
	// sizes, such as "key=36 value=1200000 headers=2". After an edit it has those of the parts that
	// are still cut.
	HeaderCut = "onceward.cut"
)

// The headers of records that operators write to a dead-letter topic (package txn/admin). They are
// removed from a record that dies: its dead letter could pass for the work of an operator.
const (
	// HeaderRedriven is on a record without key and value that marks a dead letter as redriven. The
	// next two headers are the time and the place.
	HeaderRedriven   = "onceward.redriven"
	HeaderRedrivenAt = "onceward.redriven.at"
	HeaderRedrivenTo = "onceward.redriven.to"
	// HeaderSession is on marks and editions. It is a random text for each redrive and each edit.
	HeaderSession = "onceward.session"
)

// HeaderOwnKey is on a record of a repartition topic of package processors/inbox, where it has
// another key than its own. The value is the bytes of its own key, or null for the null key.
const HeaderOwnKey = "onceward.inbox.key"

// The limits of what a dead letter says of itself.
const (
	// DeadLetterHeaderBytesMax bounds the keys and values of the headers that a dead letter has
	// beside the record's own.
	DeadLetterHeaderBytesMax = 8 << 10
	// DeadLetterMessageBytesMax bounds the reason.
	DeadLetterMessageBytesMax = 512
	// DeadLetterDeathsMax is where the count of deaths stays. Any producer can write a large count,
	// and the dead letter of a record that dies with it has to be readable.
	DeadLetterDeathsMax = math.MaxInt32 - 1

	cutBytesMax = 80
)

// DeadLetterID returns the id of a record that dies for the first time: 32 hexadecimal digits that
// follow from the application, and from the record's position and timestamp. The timestamp differs
// from that of the record at the same position before the topic was deleted and created again.
//
// A record that dies again in the same application keeps its id. So the id, the number of deaths
// and the position of the last death identify a dead letter. A dead letter that is written twice
// has the same ones. The position counts because any producer can copy these headers from one
// record to others.
func DeadLetterID(application string, at DeadLetterOrigin) string {
	var b []byte
	for _, s := range []string{application, at.Topic} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, n := range []int64{int64(at.Partition), at.Offset, at.Timestamp} {
		b = binary.AppendVarint(b, n)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
