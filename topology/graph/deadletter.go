package graph

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/onceward/onceward/state"
)

// DeadLetterInfo is the content of the headers of a dead letter.
type DeadLetterInfo struct {
	// ID identifies the record: see [DeadLetterID].
	ID string
	// Application is the application in which the record died, and Version the fingerprint of its
	// topology at the last death.
	Application string
	Version     string
	// Task is a TaskID as text.
	Task string
	// Node failed with an error of Class. Message is the reason, and quotes nothing of the record.
	Node    string
	Class   Class
	Message string
	// Attempts is how often the record was tried before it died last.
	Attempts int
	// FirstFailure is the time of the first failure, also before an earlier death. LastFailure is
	// that of the last death. Both are of the wall clock, in milliseconds.
	FirstFailure time.Time
	LastFailure  time.Time
	// Origin is where the record died first.
	Origin DeadLetterOrigin
	// Source is the position of the record of the input that the one at Origin comes from, if
	// Origin is in a repartition topic with topology.KeepOrigin. It is zero for every other Origin,
	// and for a record that comes from no input.
	Source DeadLetterSource
	// LastTimestamp is the timestamp that the record had at its last death, in milliseconds since
	// the epoch. The timestamp of the dead letter can differ. It is state.NoTime in dead letters of
	// older builds.
	LastTimestamp int64
	// Deaths counts from 1, over all applications in which the record died.
	Deaths int
	// Edition counts how often operators edited the dead letter since this death.
	Edition int
	// Cut is empty, or has the full sizes of a record that was cut to fit into the dead-letter
	// topic.
	Cut string
}

// DeadLetterOrigin is a position, with the timestamp of the record there.
type DeadLetterOrigin struct {
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is in milliseconds since the epoch.
	Timestamp     int64
	TimestampType TimestampType
}

// ErrNoDeadLetter says that the headers are not those of a dead letter of this project.
var ErrNoDeadLetter = errors.New("not a dead letter")

// ParseDeadLetter reads the headers of a dead letter. If a header repeats, the last one counts. The
// error is ErrNoDeadLetter if there is no header of this project. Other errors name the header that
// is missing or malformed.
func ParseDeadLetter(headers []Header) (DeadLetterInfo, error) {
	p := deadLetterParser{values: map[string]string{}}
	for _, h := range headers {
		if IsDeadLetterHeader(h.Key) {
			p.values[h.Key] = string(h.Value)
		}
	}
	if _, ok := p.values[HeaderID]; !ok {
		return DeadLetterInfo{}, fmt.Errorf("%w: there is no header %s", ErrNoDeadLetter, HeaderID)
	}
	info := DeadLetterInfo{
		ID:           p.text(HeaderID, 1, 32),
		Application:  p.text(HeaderApplication, 1, NameBytesMax),
		Version:      p.text(HeaderVersion, 1, 32),
		Task:         p.text(HeaderTask, 1, TopicBytesMax+len("_2147483647")),
		Node:         p.text(HeaderNode, 0, TopicBytesMax+len(SourceSuffix)),
		Class:        p.class(HeaderClass),
		Message:      p.text(HeaderMessage, 0, DeadLetterMessageBytesMax),
		Attempts:     int(p.number(HeaderAttempts, 1, math.MaxInt32)),
		FirstFailure: p.time(HeaderFirstFailure),
		LastFailure:  p.time(HeaderLastFailure),
		Origin: DeadLetterOrigin{
			Topic:         p.text(HeaderTopic, 1, TopicBytesMax),
			Partition:     int32(p.number(HeaderPartition, 0, math.MaxInt32)),
			Offset:        p.number(HeaderOffset, 0, math.MaxInt64),
			Timestamp:     p.number(HeaderTimestamp, math.MinInt64, math.MaxInt64),
			TimestampType: p.timestampType(HeaderTimestampType),
		},
		Source:        p.source(HeaderSource),
		LastTimestamp: state.NoTime,
		Deaths:        int(p.number(HeaderDeaths, 1, DeadLetterDeathsMax)),
		Cut:           p.optional(HeaderCut, cutBytesMax),
	}
	if _, ok := p.values[HeaderLastTimestamp]; ok {
		info.LastTimestamp = p.number(HeaderLastTimestamp, math.MinInt64, math.MaxInt64)
	}
	if _, ok := p.values[HeaderEdition]; ok {
		info.Edition = int(p.number(HeaderEdition, 1, math.MaxInt32-1))
	}
	if p.err != nil {
		return DeadLetterInfo{}, p.err
	}
	return info, nil
}

// deadLetterParser keeps the first error. Lengths are bounded because any producer can write
// headers, and a dead letter that dies again carries them on.
type deadLetterParser struct {
	values map[string]string
	err    error
}

// fail does not quote the value, which another program may have written.
func (p *deadLetterParser) fail(header, want string) {
	if p.err == nil {
		p.err = fmt.Errorf("dead letter: header %s is missing or is not %s", header, want)
	}
}

func (p *deadLetterParser) text(header string, lenMin, lenMax int) string {
	s, ok := p.values[header]
	if !ok || len(s) < lenMin || len(s) > lenMax {
		p.fail(header, fmt.Sprintf("a text of %d to %d bytes", lenMin, lenMax))
		return ""
	}
	return s
}

func (p *deadLetterParser) optional(header string, lenMax int) string {
	if _, ok := p.values[header]; !ok {
		return ""
	}
	return p.text(header, 1, lenMax)
}

func (p *deadLetterParser) number(header string, least, most int64) int64 {
	n, err := strconv.ParseInt(p.values[header], 10, 64)
	if err != nil || n < least || n > most {
		p.fail(header, "a number in range")
		return 0
	}
	return n
}

func (p *deadLetterParser) class(header string) Class {
	c, err := ParseClass(p.values[header])
	if err != nil {
		p.fail(header, "an error class")
	}
	return c
}

func (p *deadLetterParser) time(header string) time.Time {
	t, err := time.Parse(time.RFC3339, p.values[header])
	if err != nil {
		p.fail(header, "a time in RFC 3339")
		return time.Time{}
	}
	return t
}

func (p *deadLetterParser) timestampType(header string) TimestampType {
	for _, t := range []TimestampType{CreateTime, LogAppendTime} {
		if p.values[header] == t.String() {
			return t
		}
	}
	p.fail(header, "a timestamp type")
	return CreateTime
}

func (p *deadLetterParser) source(header string) DeadLetterSource {
	s, ok := ParseDeadLetterSource([]byte(p.values[header]), "")
	if !ok {
		p.fail(header, "a position")
	}
	return s
}

// IsDeadLetterHeader reports whether a dead letter, or a record that operators write about it, has
// a header with that key beside those of the record that died.
func IsDeadLetterHeader(key string) bool {
	if strings.HasPrefix(key, "__streams.errors.") {
		return true
	}
	if !strings.HasPrefix(key, "onceward.") {
		return false
	}
	switch key {
	case HeaderID, HeaderApplication, HeaderVersion, HeaderTask, HeaderNode, HeaderClass, HeaderMessage,
		HeaderAttempts, HeaderFirstFailure, HeaderLastFailure, HeaderTopic, HeaderPartition, HeaderOffset,
		HeaderTimestamp, HeaderTimestampType, HeaderSource, HeaderLastTimestamp, HeaderDeaths, HeaderEdition, HeaderCut,
		HeaderRedriven, HeaderRedrivenAt, HeaderRedrivenTo, HeaderSession:
		return true
	}
	return false
}
