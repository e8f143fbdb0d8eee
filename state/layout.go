package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a store: its view and its rows.
type Kind uint8

// The kinds of stores, each with the typed view that reads and writes its rows.
const (
	// KeyValueKind has one value for each key: KeyValue.
	KeyValueKind Kind = iota
	// TimestampedKind has one value for each key, with its time: Timestamped.
	TimestampedKind
	// WindowKind has one value for each key and window start: Window.
	WindowKind
	// SessionKind has one value for each key and session: Session.
	SessionKind
	// VersionedKind has the history of each key: Versioned.
	VersionedKind
	// DedupeKind has what is remembered of each id for a time: Dedupe.
	DedupeKind
	// SeriesKind has all values of each key by their times: Series.
	SeriesKind
)

var kindNames = [...]string{"keyvalue", "timestamped", "window", "session", "versioned", "dedupe", "series"}

// String returns the name of the kind, which is part of the format.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Layout defines the rows of a store, in the database and in its changelog. The zero value is a
// key-value store. It is a comparable value. A store keeps its layout for ever. Another layout
// means other rows: the store is restored in full, if its changelog has suitable records (Reads).
//
// Bytes and Database hold rows, a changelog holds records. Each row has exactly one record: Record
// and Row are each other's inverse. Rows are made for reading (a segment number in front lets one
// delete remove a time span). Records are those of Kafka Streams where it has such a store.
// FORMAT.md defines both byte by byte.
type Layout struct {
	Kind Kind
	// Retention is how long a row can be read after its time, in milliseconds of the store's stream
	// time. For VersionedKind it is how long a version can be read after it was superseded. It is
	// positive for the kinds with a retention (see Kind) and 0 for the others.
	Retention int64
}

// Expires reports whether rows of this kind are out of sight some time after they were written.
func (k Kind) Expires() bool {
	return k == WindowKind || k == SessionKind || k == VersionedKind || k == DedupeKind || k == SeriesKind
}

// Segmented reports whether rows begin with a segment number.
func (l Layout) Segmented() bool {
	return l.Kind == WindowKind || l.Kind == SessionKind || l.Kind == DedupeKind || l.Kind == SeriesKind
}

// retentionMax keeps every sum of a time and a retention within an int64 of milliseconds. It also
// bounds the longer retention of some changelogs as a time.Duration.
const retentionMax = int64(200*365*24) * int64(time.Hour/time.Millisecond)

// Reads reports whether a store of this layout can be restored from the changelog of the other
// layout: whether both have the same records. That holds for one kind with any retention. It also
// holds for key-value and timestamped stores, whose rows differ only in the time.
func (l Layout) Reads(other Layout) bool {
	untimed := func(k Kind) bool { return k == KeyValueKind || k == TimestampedKind }
	return l.Kind == other.Kind || untimed(l.Kind) && untimed(other.Kind)
}

// Validate reports what is wrong with l.
func (l Layout) Validate() error {
	switch {
	case int(l.Kind) >= len(kindNames):
		return fmt.Errorf("there is no store of %s", l.Kind)
	case l.Kind.Expires() && l.Retention <= 0:
		return fmt.Errorf("a %s store has a retention of at least 1 ms, not %d", l.Kind, l.Retention)
	case l.Kind.Expires() && l.Retention > retentionMax:
		return fmt.Errorf("the retention of a %s store is at most 200 years, not %d ms", l.Kind, l.Retention)
	case !l.Kind.Expires() && l.Retention != 0:
		return fmt.Errorf("a %s store has no retention", l.Kind)
	}
	return nil
}

// String returns the stored form: the name of the kind, and for kinds with a retention "/" and the
// retention.
func (l Layout) String() string {
	if l.Kind.Expires() {
		return l.Kind.String() + "/" + strconv.FormatInt(l.Retention, 10)
	}
	return l.Kind.String()
}

// ParseLayout is the inverse of String. The error wraps ErrFormat: a newer build may know what this
// one does not.
func ParseLayout(s string) (Layout, error) {
	name, retention, _ := strings.Cut(s, "/")
	for kind := range kindNames {
		if kindNames[kind] != name {
			continue
		}
		l := Layout{Kind: Kind(kind)}
		if l.Kind.Expires() {
			l.Retention, _ = strconv.ParseInt(retention, 10, 64) // Validate and the comparison judge it
		}
		if l.Validate() == nil && l.String() == s {
			return l, nil
		}
	}
	return Layout{}, fmt.Errorf("state: parse layout: %w: this build does not know %q", ErrFormat, s)
}

// Sizes of the parts of rows, in bytes.
const (
	segmentSize  = 4
	timeSize     = 8
	sequenceSize = 4
	// windowSuffix is what a window row has behind the user's key: start and sequence number.
	windowSuffix = timeSize + sequenceSize
	// seriesSuffix is time and sequence number.
	seriesSuffix = timeSize + sequenceSize
	// sessionSuffix is end and start.
	sessionSuffix = 2 * timeSize
)

// segmentIntervalMin keeps small retentions from making many segments.
const segmentIntervalMin = int64(time.Minute / time.Millisecond)

// segmentsMax is how many segments can have something to read.
const segmentsMax = 3

// segmentInterval is the time span of one segment in milliseconds. With half of the retention, at
// most segmentsMax segments have readable rows. Fewer segments would keep expired rows on the disk
// for longer. More segments would make a lookup without a time slower. Kafka Streams uses the same
// interval.
func (l Layout) segmentInterval() int64 { return max(l.Retention/2, segmentIntervalMin) }

// segmentOf returns the number of the segment of a time, which is not negative.
func (l Layout) segmentOf(ms int64) uint32 {
	return uint32(min(ms/l.segmentInterval(), math.MaxUint32))
}

// Expired returns the rows that no read at streamTime, or later, sees any more, as far as they are
// one range: whole segments. ok is false when there are none to speak of.
func (l Layout) Expired(streamTime int64) (r Range, ok bool) {
	if !l.Segmented() {
		return Range{}, false
	}
	first := l.firstSegment(streamTime)
	if first == 0 {
		return Range{}, false
	}
	return Range{To: binary.BigEndian.AppendUint32(nil, first)}, true
}

// firstSegment is the oldest one with a row that can be read at streamTime.
func (l Layout) firstSegment(streamTime int64) uint32 {
	return l.segmentOf(max(l.oldestReadable(streamTime), 0))
}

// oldestReadable is the smallest time that can be read at streamTime. Kafka Streams includes the
// end of the retention for versions, and not for the others.
func (l Layout) oldestReadable(streamTime int64) int64 {
	if l.Kind == VersionedKind {
		return streamTime - l.Retention
	}
	return streamTime - l.Retention + 1
}

// OldestInChangelog returns a time in milliseconds since the epoch. At streamTime, records with an
// earlier timestamp belong to rows that cannot be read; deletes with an earlier timestamp are
// deletes of such rows. It is 0 for layouts without such a time. A record has the time of its row
// or a later one, except the delete of an id, which has the start of the row's segment.
func (l Layout) OldestInChangelog(streamTime int64) int64 {
	if !l.Segmented() {
		return 0
	}
	return max(l.oldestReadable(streamTime)-l.segmentInterval(), 0)
}

// Live reports whether a row of that time can be read at streamTime, for kinds whose rows expire by
// their time.
func (l Layout) Live(ms, streamTime int64) bool { return ms >= l.oldestReadable(streamTime) }
