package graph

import (
	"bytes"
	"math"
	"strconv"
)

// DeadLetterSource is the position of a record of an input. It is what topology.Record.Source and
// topology.Record.AppendTime returned.
type DeadLetterSource struct {
	Topic     string
	Partition int32
	Offset    int64
	// AppendTime is when the broker appended the record, in milliseconds since the epoch, or 0 if
	// it is not known.
	AppendTime int64
}

// Append appends the value of a [HeaderSource]: topic, partition and offset, and the append time if
// it is known. For the zero s, which is that of a record without a source, it appends nothing.
func (s DeadLetterSource) Append(b []byte) []byte {
	if s.Topic == "" {
		return b
	}
	b = append(append(b, s.Topic...), ' ')
	b = append(strconv.AppendInt(b, int64(s.Partition), 10), ' ')
	b = strconv.AppendInt(b, s.Offset, 10)
	if s.AppendTime > 0 && s.AppendTime <= appendTimeMax {
		b = strconv.AppendInt(append(b, ' '), s.AppendTime, 10)
	}
	return b
}

// ParseDeadLetterSource reads the value of a [HeaderSource]. ok is false if it is not a position,
// since any producer of the topic can write the header. A topic that equals known allocates
// nothing.
func ParseDeadLetterSource(text []byte, known string) (s DeadLetterSource, ok bool) {
	if len(text) == 0 {
		return DeadLetterSource{}, true
	}
	space := []byte{' '}
	topic, rest, _ := bytes.Cut(text, space)
	partition, rest, _ := bytes.Cut(rest, space)
	offset, appended, timed := bytes.Cut(rest, space)
	if s.Topic = known; known == "" || string(topic) != known {
		if s.Topic = string(topic); CheckTopicName(s.Topic) != nil {
			return DeadLetterSource{}, false
		}
	}
	n, ok := sourceNumber(partition, 0, math.MaxInt32)
	s.Partition = int32(n)
	if ok {
		s.Offset, ok = sourceNumber(offset, 0, math.MaxInt64)
	}
	if ok && timed {
		s.AppendTime, ok = sourceNumber(appended, 1, appendTimeMax)
	}
	if !ok {
		return DeadLetterSource{}, false
	}
	return s, true
}

const (
	// appendTimeMax is the end of the year 9999, in milliseconds since the epoch. Later times have
	// no text in RFC 3339.
	appendTimeMax = 253402300799999
	// sourceDigitsMax bounds the numbers, and so the header.
	sourceDigitsMax = len("9223372036854775807")
)

func sourceNumber(text []byte, least, most int64) (int64, bool) {
	if len(text) > sourceDigitsMax {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil && n >= least && n <= most
}
