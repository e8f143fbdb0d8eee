package admin

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
)

// mark says that a dead letter was redriven.
type mark struct {
	letter letterKey
	at     time.Time
	// session is that of the redrive.
	session string
}

// markOf returns the mark of a dead letter that is redriven.
func markOf(topic string, l *DeadLetter, to TopicPartition, now time.Time, session string) *broker.Record {
	return &broker.Record{Topic: topic, Partition: l.Partition, Timestamp: now, Headers: []broker.RecordHeader{
		{Key: HeaderRedriven, Value: []byte(l.identity)},
		{Key: HeaderRedrivenAt, Value: now.UTC().AppendFormat(nil, markTime)},
		{Key: HeaderRedrivenTo, Value: fmt.Appendf(nil, "%s-%d", to.Topic, to.Partition)},
		{Key: graph.HeaderSession, Value: []byte(session)},
	}}
}

const markTime = "2006-01-02T15:04:05.000Z07:00"

// parseMark reads a mark; ok is false for every other record. A mark with an unreadable time
// counts. A mark without a dead letter has no effect.
//
// The header alone is not enough. A dead letter of an older runtime can have it from the record
// that died, and is a dead letter all the same.
func parseMark(r *broker.Record) (m mark, ok bool) {
	if r.Key != nil || r.Value != nil {
		return mark{}, false
	}
	m.at, m.session = r.Timestamp, sessionOf(r)
	for _, h := range r.Headers {
		switch h.Key {
		case graph.HeaderID:
			return mark{}, false
		case HeaderRedriven:
			m.letter, ok = letterKey(h.Value), true
		case HeaderRedrivenAt:
			if t, err := time.Parse(time.RFC3339, string(h.Value)); err == nil {
				m.at = t
			}
		}
	}
	return m, ok
}

func isMarkHeader(key string) bool {
	return key == HeaderRedriven || key == HeaderRedrivenAt || key == HeaderRedrivenTo
}

// sessionOf returns the session in which a mark or an edition was written, "" if it does not say.
func sessionOf(r *broker.Record) (session string) {
	for _, h := range r.Headers {
		if h.Key == graph.HeaderSession {
			session = string(h.Value)
		}
	}
	return session
}
