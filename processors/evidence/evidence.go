package evidence

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Entry is the evidence of one decision. Times are in milliseconds since the epoch. Its JSON form
// is that of the topic.
type Entry struct {
	// Row is the row that was decided about: the key of the record, and no part of its value.
	Row []byte `json:"-"`

	// Application, Version and Node say who has decided. Version is the fingerprint of the
	// topology: it changes with nodes, stores, topics and formats, and not with the code of a
	// function, a configuration or a library.
	Application string `json:"application"`
	Version     string `json:"version"`
	Node        string `json:"node"`
	Task        string `json:"task"`

	// Outcome, Reason, Store, Subject, Names, By, Note, Before, After and Given are those of
	// decision.Decision.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitzero"`
	Store   string `json:"store,omitzero"`
	Subject string `json:"subject,omitzero"`
	Names   string `json:"names,omitzero"`
	By      string `json:"by,omitzero"`
	Note    string `json:"note,omitzero"`
	Before  *int64 `json:"before,omitzero"`
	After   *int64 `json:"after,omitzero"`
	Given   *int64 `json:"given,omitzero"`

	// Topic, Partition and Offset are where the record that was decided about was read, also if it
	// was deferred, or had come through an internal topic that keeps its origin. Topic is
	// empty where that is not known here, and nothing is in the other two: the record had come
	// through another internal topic, or there is none.
	Topic     string `json:"topic,omitzero"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Deferred says that the record had been deferred, and was decided about when it was resumed.
	Deferred bool `json:"kept,omitzero"`
	// Turn is the record in whose turn it was decided, as topic[partition]@offset, where that is
	// another one: the one that has released it, or that of the internal topic. It is empty where
	// that was no record, but a clock or the stream time.
	Turn string `json:"turn,omitzero"`
	// Time is the timestamp of the record that was decided about. AppendTime is when the broker
	// appended it to Topic; it is zero unless Topic has message.timestamp.type=LogAppendTime, and
	// for deferred records. StreamTime is the stream time of the task.
	Time       int64 `json:"time"`
	AppendTime int64 `json:"append_time,omitzero"`
	StreamTime int64 `json:"stream_time,omitzero"`

	// Mode is why the record was processed, Attempt how often it had been tried.
	Mode    string `json:"mode"`
	Attempt int    `json:"attempt"`

	// EventType and EventVersion are those of the fact in the record, from [HeaderEventType] and
	// [HeaderEventVersion]. The ids are those of package envelope; one that is not UTF-8 is in
	// hexadecimal digits. Fields are empty if the record does not have them.
	EventType      string `json:"event_type,omitzero"`
	EventVersion   string `json:"event_version,omitzero"`
	MessageID      string `json:"message_id,omitzero"`
	EventID        string `json:"event_id,omitzero"`
	IdempotencyKey string `json:"idempotency_key,omitzero"`
	AggregateID    string `json:"aggregate_id,omitzero"`
	CorrelationID  string `json:"correlation_id,omitzero"`
	CausationID    string `json:"causation_id,omitzero"`

	// head is how the entry begins in JSON, up to Task, as a cache for writers of many similar
	// entries; empty if unknown.
	head string
}

// The headers that tell the type of an event and the version of its schema. Where they are missing,
// the attributes of CloudEvents are read, ce_type and ce_dataschema.
const (
	HeaderEventType    = "onceward.event-type"
	HeaderEventVersion = "onceward.event-version"

	cloudEventType   = "ce_type"
	cloudEventSchema = "ce_dataschema"
)

// Topic describes a topic of evidence.
func Topic(name string) topology.TopicOf[[]byte, Entry] {
	return topology.Topic(name, schemas.Bytes(), schemas.Codec[Entry](newEntryCodec()))
}

// Topics returns the topics to which a topology writes evidence, sorted.
func Topics(t *topology.Topology) (topics []string) {
	for _, topic := range t.Topics() {
		if rows, ok := t.Written(topic); ok && rows.Values.Type == reflect.TypeFor[Entry]().String() {
			topics = append(topics, topic)
		}
	}
	return topics
}

// Decode returns the entry that a record of such a topic holds. A record that does not say what was
// decided, and by which node and task, is an error: other records are JSON too.
func Decode(key, value []byte) (Entry, error) {
	row, e, err := Topic("").Decode(key, value)
	e.Row = row
	if err == nil && (e.Application == "" || e.Node == "" || e.Task == "" || e.Outcome == "") {
		err = errors.New("it says no outcome, or no application, node or task")
	}
	return e, err
}

// Record declares a node of that name that writes the decisions of a processor to a topic. Several
// of them may write to one topic, so that a row has one history, however many processors have a say
// in it.
func Record(s topology.Stream[[]byte, decision.Decision], name string, t topology.TopicOf[[]byte, Entry]) {
	node := topology.Stateful(s, name)
	out := topology.Outlet[[]byte, Entry](node, "entries")
	node.Process(func(t *topology.Setup) (topology.Handler[[]byte, decision.Decision], error) {
		emit := out.In(t)
		from := Entry{Application: t.Application(), Version: t.Fingerprint(), Task: t.Task().String()}
		return func(c *topology.Context, r topology.Record[[]byte, decision.Decision]) error {
			if r.Value.Node != from.Node { // the first decision, unless those of several nodes come
				from.Node = r.Value.Node
				from.head = headOf(&from)
			}
			entry := topology.WithValue(r, from)
			fill(&entry.Value, c, &r)
			return emit(c, entry)
		}, nil
	})
	out.Stream().IntoNamed(name+"-sink", t)
}

// fill fills e in, which has what is the same for all decisions of a node in a task.
func fill(e *Entry, c *topology.Context, r *topology.Record[[]byte, decision.Decision]) {
	d := &r.Value
	e.Row = d.Row
	e.Outcome, e.Reason, e.Store, e.Subject = d.Outcome, d.Reason, d.Store, d.Subject
	e.Names, e.By, e.Note = d.Names, d.By, d.Note
	e.Before, e.After, e.Given = pointers(d.Before, d.After, d.Given)
	e.Time, e.StreamTime = r.Timestamp, r.StreamTime()
	if topic, partition, offset := r.Source(); topic != "" && !isInternal(e.Application, topic) {
		e.Topic, e.Partition, e.Offset = topic, partition, offset
		e.AppendTime, _ = r.AppendTime()
	}
	e.Deferred = d.Deferred
	topic, partition, offset := c.Source()
	if own := topic == e.Topic && partition == e.Partition && offset == e.Offset; topic != "" && (e.Deferred || !own) {
		e.Turn = topic + "[" + strconv.Itoa(int(partition)) + "]@" + strconv.FormatInt(offset, 10)
	}
	e.Mode, e.Attempt = modeOf(c, r).String(), c.Attempt()
	if len(r.Headers) == 0 {
		return
	}
	e.EventType = text(r, HeaderEventType, cloudEventType)
	e.EventVersion = text(r, HeaderEventVersion, cloudEventSchema)
	ids := envelope.Of(*r)
	e.MessageID, e.EventID, e.IdempotencyKey = idText(ids.MessageID), idText(ids.EventID), idText(ids.IdempotencyKey)
	e.AggregateID, e.CorrelationID, e.CausationID = idText(ids.AggregateID), idText(ids.CorrelationID), idText(ids.CausationID)
}

// idText returns an id as text: one that is bytes in hexadecimal digits, as an inbox with binary
// ids stores it.
func idText(id string) string {
	if utf8.ValidString(id) {
		return id
	}
	return hex.EncodeToString([]byte(id))
}

// modeOf returns the mode of the record that was decided about, which may be another one than is at
// work.
func modeOf[K, V any](c *topology.Context, r *topology.Record[K, V]) topology.Mode {
	if c.Mode() != topology.Live || len(r.Headers) == 0 {
		return c.Mode()
	}
	value, _ := r.Header(topology.HeaderMode)
	m, err := topology.ParseMode(string(value))
	if err != nil {
		return topology.Live // there is no such header: a node would not have been given what cannot be read
	}
	return m
}

// isInternal reports whether a topic belongs to a topology.Repartition: its records are copies,
// their positions mean nothing outside of the application, and they are purged.
func isInternal(application, topic string) bool {
	return strings.HasSuffix(topic, "-repartition") && strings.HasPrefix(topic, application+"-")
}

// text returns the header of that key, or the other one where it is missing.
func text[K, V any](r *topology.Record[K, V], key, other string) string {
	value, _ := r.Header(key)
	if len(value) == 0 {
		value, _ = r.Header(other)
	}
	return string(value)
}

// pointers returns where the versions are that are there, all of them in one piece of memory.
func pointers(before, after, given topology.Option[int64]) (_, _, _ *int64) {
	var memory *[3]int64
	at := func(i int, o topology.Option[int64]) *int64 {
		v, ok := o.Get()
		if !ok {
			return nil
		}
		if memory == nil {
			memory = new([3]int64)
		}
		memory[i] = v
		return &memory[i]
	}
	return at(0, before), at(1, after), at(2, given)
}
