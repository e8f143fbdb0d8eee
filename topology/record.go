package topology

import "time"

// Record is one record with a typed key and value.
//
// A record that a topology passes to user code knows the input record that it comes from
// ([Record.Source], [Record.StreamTime]). So do copies of it, and records made by [WithKey] and
// [WithValue].
//
// User code can also build a record from nothing: Record[K, V]{Key: k, Value: v}. It inherits from
// the record that its node is processing: always the origin, the timestamp if Timestamp is 0, and
// the headers if Headers is nil. So correlation and causation ids travel on by default; an empty,
// non-nil Headers stops that.
//
// Records are values. Other records share the Headers slice and the bytes in it, so do not modify
// them. Appending is safe, because the slice has no spare capacity.
type Record[K, V any] struct {
	Key   K
	Value V
	// Timestamp is the event time in milliseconds since the epoch.
	Timestamp int64
	Headers   []Header

	// origin is shared by all records of one input and never changes, so a record that a test keeps
	// stays true.
	origin *origin
}

// origin is where a record comes from.
type origin struct {
	topic      string
	partition  int32
	offset     int64
	streamTime int64
	// appended is when the broker appended the record there, in milliseconds since the epoch; 0 if
	// unknown.
	appended int64
}

// Time returns Timestamp as a time in UTC.
func (r Record[K, V]) Time() time.Time { return time.UnixMilli(r.Timestamp).UTC() }

// Source returns the position of the input record that r comes from: its topic on the cluster,
// partition and offset. They are zero for a record that did not come from a topology, and for the
// record of a punctuation or of a closed window. Behind a [Stream.Repartition] it is the position
// in the internal topic, unless that has [KeepOrigin].
//
// A position is an ingestion key at best: the same fact sent again has another one. It is not an
// identity.
func (r Record[K, V]) Source() (topic string, partition int32, offset int64) {
	if r.origin == nil {
		return "", 0, 0
	}
	return r.origin.topic, r.origin.partition, r.origin.offset
}

// AppendTime returns when the broker appended the record that r comes from to the topic of
// [Record.Source], in milliseconds since the epoch. It is false if that is unknown: for topics with
// timestamps of the producers (message.timestamp.type=CreateTime), for a deferred record
// ([Resume]), and if there is no such record.
func (r Record[K, V]) AppendTime() (ms int64, ok bool) {
	if r.origin == nil || r.origin.appended == 0 {
		return 0, false
	}
	return r.origin.appended, true
}

// StreamTime returns the task's stream time when the record was read or resumed ([Resume]), in
// milliseconds since the epoch: the largest timestamp so far, including this record. It is zero for
// a record that did not come from a topology.
func (r Record[K, V]) StreamTime() int64 {
	if r.origin == nil {
		return 0
	}
	return r.origin.streamTime
}

// Header returns the value of the last header with that key, as Kafka's lastHeader does.
func (r Record[K, V]) Header(key string) (value []byte, ok bool) {
	i := lastHeader(r.Headers, key)
	if i < 0 {
		return nil, false
	}
	return r.Headers[i].Value, true
}

// WithHeader returns r with one more header.
func (r Record[K, V]) WithHeader(key string, value []byte) Record[K, V] {
	r.Headers = withHeader(r.Headers, key, value)
	return r
}

// WithKey returns r with another key, whose type may differ.
func WithKey[K2, K, V any](r Record[K, V], key K2) Record[K2, V] {
	return Record[K2, V]{
		Key: key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers, origin: r.origin,
	}
}

// WithValue returns r with another value, whose type may differ.
func WithValue[V2, K, V any](r Record[K, V], value V2) Record[K, V2] {
	return Record[K, V2]{
		Key: r.Key, Value: value, Timestamp: r.Timestamp, Headers: r.Headers, origin: r.origin,
	}
}

// scope is the data that a record built from nothing inherits: the facts of the record that a node
// is processing.
type scope struct {
	origin    *origin
	timestamp int64
	headers   []Header
	// key points to the key of that record, for a node with a FixedKeyOutlet; nil if there is none.
	key any
}

func scopeOf[K, V any](r *Record[K, V]) scope {
	return scope{origin: r.origin, timestamp: r.Timestamp, headers: r.Headers}
}

// inherit completes r if user code built it from nothing.
func inherit[K, V any](r *Record[K, V], s *scope) {
	if r.origin != nil {
		return
	}
	r.origin = s.origin
	if r.Timestamp == 0 {
		r.Timestamp = s.timestamp
	}
	if r.Headers == nil {
		r.Headers = s.headers
	}
}
