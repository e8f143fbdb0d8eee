package graph

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// The headers of a dead letter. Values are UTF-8 text. Those of the first group are the ones of Kafka
// Streams, with its meaning: the record that failed now. Those of the second group are ours.
const (
	HeaderStreamsException  = "__streams.errors.exception"
	HeaderStreamsMessage    = "__streams.errors.message"
	HeaderStreamsStacktrace = "__streams.errors.stacktrace"
	HeaderStreamsTopic      = "__streams.errors.topic"
	HeaderStreamsPartition  = "__streams.errors.partition"
	HeaderStreamsOffset     = "__streams.errors.offset"

	// HeaderID identifies the record that died: see [DeadLetterID].
	HeaderID = "onceward.id"
	// HeaderApplication is the one in which the record died. A record that dies in one application after another is
	// another one in each of them, with an id and an origin of its own; only the number of deaths goes on.
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
	// HeaderSource is on records of a repartition topic with topology.KeepOrigin, and so on their dead letters, whether they died there or,
	// redriven, elsewhere: where the record was read that they come from, as topic, partition, offset and, if it is known, when the broker
	// appended it, in milliseconds since the epoch, with spaces between them. It is empty if they come from none.
	HeaderSource = "onceward.source"
	// HeaderLastTimestamp is the timestamp that the record had when it died last, in milliseconds since the epoch. The dead
	// letter's own can be another one: a topic with message.timestamp.type=LogAppendTime gives it the broker's time, and a
	// broker does not take every time. Letters of older builds do not have it.
	HeaderLastTimestamp = "onceward.timestamp.last"
	// HeaderDeaths counts how often the record died, in whatever application: 1, and more after it was redriven.
	HeaderDeaths = "onceward.deaths"
	// HeaderEdition counts how often an operator has edited the dead letter since the record died; it is not there
	// if nobody has.
	HeaderEdition = "onceward.edition"
	// HeaderCut is there if the record had to be cut to fit into the dead-letter topic. It gives the full
	// sizes, such as "key=36 value=1200000 headers=2"; an edition has those of what is not put right yet.
	HeaderCut = "onceward.cut"
)

// The headers of what operators write to a dead-letter topic (package txn/admin). A record that dies never brings them along:
// with them its letter could pass for something that an operator has done.
const (
	// HeaderRedriven, with the time and the place in the two after it, makes a record without key and value the mark of a
	// letter that was redriven.
	HeaderRedriven   = "onceward.redriven"
	HeaderRedrivenAt = "onceward.redriven.at"
	HeaderRedrivenTo = "onceward.redriven.to"
	// HeaderSession is on marks and editions: a random text for each redrive and each edit, which tells them apart.
	HeaderSession = "onceward.session"
)

// HeaderOwnKey is on a record that travels under another key than its own, through a repartition topic of package
// processors/inbox: its value is the record's own key, in bytes, and null for the null key.
const HeaderOwnKey = "onceward.inbox.key"

// The limits of what a dead letter says of itself.
const (
	// DeadLetterHeaderBytesMax bounds the keys and values of the headers that a dead letter has beside the
	// record's own.
	DeadLetterHeaderBytesMax = 8 << 10
	// DeadLetterMessageBytesMax bounds the reason.
	DeadLetterMessageBytesMax = 512
	// DeadLetterDeathsMax is where the count of deaths stays. Anybody can write a large one, and the letter
	// of a record that dies with it has to be readable.
	DeadLetterDeathsMax = math.MaxInt32 - 1

	cutBytesMax = 80
)

// DeadLetterID returns the id of a record that dies for the first time: 32 hexadecimal digits that follow from the
// application, and from the record's position and timestamp. The timestamp tells it from the record that was there before the
// topic was deleted and created again.
//
// A record that dies again in the same application keeps its id. So the id, the number of deaths and the position of the
// last one identify a dead letter, and a dead letter that is written twice has the same ones. The position counts because
// anybody can write these headers, and copy them from one record to others.
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
