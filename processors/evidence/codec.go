package evidence

import (
	"strconv"

	"github.com/onceward/onceward/schemas"
)

// entryCodec is schemas.JSON of an Entry, byte for byte, whose Append does not use reflection: a
// record has an entry for each decision about it, and writing them would cost more than deciding.
type entryCodec struct{ schemas.Codec[Entry] }

func newEntryCodec() entryCodec { return entryCodec{schemas.JSON[Entry]()} }

// Append implements schemas.Codec.
func (c entryCodec) Append(dst []byte, e Entry) ([]byte, error) {
	w := entryWriter{b: dst}
	if e.head != "" {
		w.b = append(w.b, e.head...)
	} else {
		w.head(&e)
	}
	w.text(`,"outcome":`, e.Outcome)
	w.some(`,"reason":`, e.Reason)
	w.some(`,"store":`, e.Store)
	w.some(`,"subject":`, e.Subject)
	w.some(`,"names":`, e.Names)
	w.some(`,"by":`, e.By)
	w.some(`,"note":`, e.Note)
	w.version(`,"before":`, e.Before)
	w.version(`,"after":`, e.After)
	w.version(`,"given":`, e.Given)
	w.some(`,"topic":`, e.Topic)
	w.number(`,"partition":`, int64(e.Partition))
	w.number(`,"offset":`, e.Offset)
	if e.Deferred {
		w.b = append(w.b, `,"kept":true`...)
	}
	w.some(`,"turn":`, e.Turn)
	w.number(`,"time":`, e.Time)
	if e.AppendTime != 0 {
		w.number(`,"append_time":`, e.AppendTime)
	}
	if e.StreamTime != 0 {
		w.number(`,"stream_time":`, e.StreamTime)
	}
	w.text(`,"mode":`, e.Mode)
	w.number(`,"attempt":`, int64(e.Attempt))
	w.some(`,"event_type":`, e.EventType)
	w.some(`,"event_version":`, e.EventVersion)
	w.some(`,"message_id":`, e.MessageID)
	w.some(`,"event_id":`, e.EventID)
	w.some(`,"idempotency_key":`, e.IdempotencyKey)
	w.some(`,"aggregate_id":`, e.AggregateID)
	w.some(`,"correlation_id":`, e.CorrelationID)
	w.some(`,"causation_id":`, e.CausationID)
	if w.odd || len(w.b)-len(dst) >= schemas.MaxJSONBytes {
		return c.Codec.Append(dst, e)
	}
	return append(w.b, '}'), nil
}

// entryWriter appends the members of an entry.
type entryWriter struct {
	b []byte
	// odd says that a text cannot be written as it is.
	odd bool
}

// headOf returns how e begins in JSON, up to its task, and is empty if that cannot be written as it
// is.
func headOf(e *Entry) string {
	var w entryWriter
	if w.head(e); w.odd {
		return ""
	}
	return string(w.b)
}

func (w *entryWriter) head(e *Entry) {
	w.text(`{"application":`, e.Application)
	w.text(`,"version":`, e.Version)
	w.text(`,"node":`, e.Node)
	w.text(`,"task":`, e.Task)
}

func (w *entryWriter) text(member, s string) {
	w.b = append(w.b, member...)
	w.quote(s)
}

// some leaves the member out if the text is empty.
func (w *entryWriter) some(member, s string) {
	if s != "" {
		w.text(member, s)
	}
}

func (w *entryWriter) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c-' ' > '~'-' ' || c == '"' || c == '\\' {
			w.odd = true
			return
		}
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, s...)
	w.b = append(w.b, '"')
}

func (w *entryWriter) number(member string, n int64) {
	w.b = strconv.AppendInt(append(w.b, member...), n, 10)
}

func (w *entryWriter) version(member string, n *int64) {
	if n != nil {
		w.number(member, *n)
	}
}
