package deadletter

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// Letter is a dead letter: the record as it was when it died last, and what its headers say of its
// deaths.
//
// What fmt and log/slog print of a Letter is String, whatever the verb. Its fields hold the
// payload.
type Letter struct {
	// DeadLetterInfo has where the record died first (Origin, with its timestamp) and, if that is
	// an internal topic which keeps it, of which record of an input (Source), which node of which
	// application and version failed, with which class and message, after how many attempts, and
	// when.
	graph.DeadLetterInfo
	// Key and Value are the original bytes, nil if null. If Cut is not empty they may be the
	// beginning only.
	Key, Value []byte
	// Headers are the record's own, without those of the dead letter.
	Headers []topology.Header
}

// Parse reads a record of a dead-letter topic. The error is graph.ErrNoDeadLetter if the record is
// not a dead letter of ours; else it names the header that is missing or malformed. The dead letter
// shares the bytes of the record.
func Parse(r topology.Record[[]byte, []byte]) (Letter, error) {
	info, err := graph.ParseDeadLetter(r.Headers)
	if err != nil {
		return Letter{}, err
	}
	return Letter{DeadLetterInfo: info, Key: r.Key, Value: r.Value, Headers: ownHeaders(r.Headers)}, nil
}

// ownHeaders returns the headers that the record had when it was read.
func ownHeaders(headers []topology.Header) []topology.Header {
	var own []topology.Header
	for _, h := range headers {
		if !graph.IsDeadLetterHeader(h.Key) {
			own = append(own, h)
		}
	}
	return own
}

// String returns one line about the death, with the sizes of key, value and headers and nothing of
// what is in them. The texts come from headers, which anybody can write; control characters in them
// become spaces.
func (l Letter) String() string {
	of := ""
	if l.Source.Topic != "" {
		of = fmt.Sprintf(", of %s-%d@%d,", l.Source.Topic, l.Source.Partition, l.Source.Offset)
	}
	s := fmt.Sprintf("%s-%d@%d%s died of %s at node %s of %s (death %d, attempts %d): %s; key %s, value %s, "+
		"%d headers", l.Origin.Topic, l.Origin.Partition, l.Origin.Offset, of, l.Class, l.Node, l.Application,
		l.Deaths, l.Attempts, l.Message, size(l.Key), size(l.Value), len(l.Headers))
	if l.Cut != "" {
		s += ", cut"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// Format is String for every verb: %d and %#v would show the bytes of the fields.
func (l Letter) Format(s fmt.State, _ rune) {
	// The error is the writer's, and fmt reports those itself.
	_, _ = io.WriteString(s, l.String())
}

// LogValue is String, so that handlers which write structs field by field show no payload.
func (l Letter) LogValue() slog.Value { return slog.StringValue(l.String()) }

func size(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%d bytes", len(b))
}
