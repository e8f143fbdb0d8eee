package projection

import (
	"cmp"
	"encoding/binary"
	"encoding/json"

	"github.com/onceward/onceward/processors/internal/pairkey"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// position is where a record stands among those of its aggregate.
type position struct {
	Incarnation int64 `json:"incarnation,omitzero"`
	Version     int64 `json:"version"`
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.Incarnation, q.Incarnation), cmp.Compare(p.Version, q.Version))
}

// parkedKey is the key of a record that waits.
type parkedKey[K any] struct {
	Key K        `json:"key"`
	At  position `json:"at"`
}

// parked is a record that waits.
type parked[V any] struct {
	Value     V
	Timestamp int64
	// Headers is never nil: a record without headers has none when it is released either.
	Headers []topology.Header
	// Deferred is absent where an earlier build has written the record.
	Deferred topology.Option[topology.Deferred]
}

// MarshalJSON is for tools that show the store.
func (p parked[V]) MarshalJSON() ([]byte, error) {
	type header struct {
		Key   string `json:"key"`
		Value []byte `json:"value"`
	}
	shown := struct {
		Value     V        `json:"value"`
		Timestamp int64    `json:"timestamp"`
		Headers   []header `json:"headers,omitempty"`
		// The position in the topic and the mode are absent where an earlier build has written the
		// record.
		Topic     string `json:"topic,omitempty"`
		Partition *int32 `json:"partition,omitempty"`
		Offset    *int64 `json:"offset,omitempty"`
		Mode      string `json:"mode,omitempty"`
	}{Value: p.Value, Timestamp: p.Timestamp}
	for _, h := range p.Headers {
		shown.Headers = append(shown.Headers, header(h))
	}
	if deferred, known := p.Deferred.Get(); known {
		shown.Mode = deferred.Mode.String()
		if deferred.Topic != "" {
			shown.Topic, shown.Partition, shown.Offset = deferred.Topic, &deferred.Partition, &deferred.Offset
		}
	}
	return json.Marshal(shown)
}

func parkedOf[K, V any](c *topology.Context, r topology.Record[K, V]) parked[V] {
	p := parked[V]{Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers, Deferred: topology.Some(topology.DeferredOf(c, r))}
	if p.Headers == nil {
		p.Headers = []topology.Header{}
	}
	return p
}

// resume calls f with p as the record that it was.
func resume[K, V any](
	c *topology.Context, key K, p parked[V], f func(r topology.Record[K, V]) error,
) error {
	deferred, known := p.Deferred.Get()
	if !known {
		var err error
		if deferred.Mode, err = topology.ModeOf(p.Headers); err != nil {
			deferred.Mode = topology.Replay // a table's source lets it pass, and as anything but live
		}
	}
	r := topology.Record[K, V]{Key: key, Value: p.Value, Timestamp: p.Timestamp, Headers: p.Headers}
	return topology.Resume(c, r, deferred, f)
}

// queue is what is known of the records of one key that wait. A key for which none waits has no
// queue.
type queue struct {
	Records int64 `json:"records"`
	// Highest is where the record of them stands that is furthest ahead, or was.
	Highest position `json:"highest"`
	// Since is the stream time when the row of the key moved last, or the first of them came. Clock
	// is the same by the wall clock, as the punctuation saw it; 0 if it has not come by since.
	Since int64 `json:"since"`
	Clock int64 `json:"clock,omitzero"`
}

// The stored forms are described in the package documentation.
const (
	parkedFormat       = 2
	parkedFormatBefore = 1 // without what is known of the record by topology.Deferred
	parkedHeaderBytes  = 14
	parkedSourceBytes  = 15 // with the length of the topic, and without the topic
	parkedNull         = 1 << 0
	positionBytes      = 16
	versionBytes       = 8 // the last ones of a position
	headerLengthsBytes = 8
	noValue            = 1<<32 - 1

	queueFormat = 1
	queueBytes  = 41
)

// parkedKeyCodec keeps the order of positions.
type parkedKeyCodec[K any] struct{ key schemas.Codec[K] }

func (c parkedKeyCodec[K]) Name() string { return "projection-parked-key-1:" + c.key.Name() }

func (c parkedKeyCodec[K]) Append(dst []byte, k parkedKey[K]) ([]byte, error) {
	b, err := c.key.Append(dst, k.Key)
	if err != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "the key: "+schemas.ReasonOf(err))
	}
	return appendPosition(pairkey.Seal(b, len(dst)), k.At), nil
}

func (c parkedKeyCodec[K]) Decode(b []byte) (parkedKey[K], error) {
	key, at, ok := pairkey.Split(b)
	if !ok || len(at) != positionBytes {
		return parkedKey[K]{}, codecError(c.Name(), schemas.OpDecode, len(b), "the key is not that of a parked record")
	}
	k, err := c.key.Decode(key)
	if err != nil {
		return parkedKey[K]{}, codecError(c.Name(), schemas.OpDecode, 0, "the key: "+schemas.ReasonOf(err))
	}
	return parkedKey[K]{Key: k, At: positionOf(at)}, nil
}

// signBit makes unsigned order of the order of signed numbers.
const signBit = 1 << 63

func appendPosition(dst []byte, p position) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Incarnation)^signBit)
	return binary.BigEndian.AppendUint64(dst, uint64(p.Version)^signBit)
}

func positionOf(b []byte) position {
	return position{
		Incarnation: int64(binary.BigEndian.Uint64(b[:8]) ^ signBit),
		Version:     int64(binary.BigEndian.Uint64(b[8:positionBytes]) ^ signBit),
	}
}

type parkedCodec[V any] struct {
	value schemas.Codec[V]
	null  func(V) bool
}

func (c parkedCodec[V]) Name() string { return "projection-parked-1:" + c.value.Name() }

func (c parkedCodec[V]) Append(dst []byte, p parked[V]) ([]byte, error) {
	var flags byte
	null := c.null(p.Value)
	if null {
		flags = parkedNull
	}
	deferred, known := p.Deferred.Get()
	format := byte(parkedFormat)
	if !known {
		format = parkedFormatBefore
	}
	b := binary.BigEndian.AppendUint64(append(dst, format, flags), uint64(p.Timestamp))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.Headers)))
	if known {
		b = binary.BigEndian.AppendUint32(append(b, byte(deferred.Mode)), uint32(deferred.Partition))
		b = binary.BigEndian.AppendUint64(b, uint64(deferred.Offset))
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(deferred.Topic))), deferred.Topic...)
	}
	for _, h := range p.Headers {
		valueBytes := uint32(len(h.Value))
		if h.Value == nil {
			valueBytes = noValue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(h.Key)))
		b = binary.BigEndian.AppendUint32(b, valueBytes)
		b = append(append(b, h.Key...), h.Value...)
	}
	if null {
		return b, nil
	}
	b, err := c.value.Append(b, p.Value)
	if err != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "the value: "+schemas.ReasonOf(err))
	}
	return b, nil
}

func (c parkedCodec[V]) Decode(b []byte) (parked[V], error) {
	fail := func(offset int, reason string) (parked[V], error) {
		return parked[V]{}, codecError(c.Name(), schemas.OpDecode, offset, reason)
	}
	switch {
	case len(b) > 0 && b[0] != parkedFormat && b[0] != parkedFormatBefore:
		return fail(0, "the record has a format that this build does not read")
	case len(b) < parkedHeaderBytes:
		return fail(len(b), "the record is too short")
	case b[1]&^parkedNull != 0:
		return fail(1, "unknown flags")
	}
	p := parked[V]{Timestamp: int64(binary.BigEndian.Uint64(b[2:10])), Headers: []topology.Header{}}
	rest := b[parkedHeaderBytes:]
	if b[0] == parkedFormat {
		deferred, after, ok := cutDeferred(rest)
		if !ok {
			return fail(parkedHeaderBytes, "where the record comes from cannot be read")
		}
		p.Deferred, rest = topology.Some(deferred), after
	}
	for range binary.BigEndian.Uint32(b[10:parkedHeaderBytes]) {
		h, after, ok := cutHeader(rest)
		if !ok {
			return fail(len(b)-len(rest), "a header is too short")
		}
		p.Headers = append(p.Headers, h)
		rest = after
	}
	if b[1]&parkedNull != 0 {
		if len(rest) > 0 {
			return fail(len(b)-len(rest), "a null has a value")
		}
		return p, nil
	}
	value, err := c.value.Decode(rest)
	if err != nil {
		return fail(len(b)-len(rest), "the value: "+schemas.ReasonOf(err))
	}
	p.Value = value
	return p, nil
}

// cutDeferred reads what is known of a record beside itself.
func cutDeferred(b []byte) (k topology.Deferred, rest []byte, ok bool) {
	if len(b) < parkedSourceBytes || b[0] >= byte(topology.Forensic) {
		return k, b, false
	}
	k.Mode, k.Partition = topology.Mode(b[0]), int32(binary.BigEndian.Uint32(b[1:5]))
	k.Offset = int64(binary.BigEndian.Uint64(b[5:13]))
	rest = b[parkedSourceBytes:]
	topicBytes := int(binary.BigEndian.Uint16(b[13:parkedSourceBytes]))
	if len(rest) < topicBytes {
		return k, b, false
	}
	k.Topic = string(rest[:topicBytes])
	return k, rest[topicBytes:], true
}

// cutHeader reads a header into memory of its own.
func cutHeader(b []byte) (h topology.Header, rest []byte, ok bool) {
	if len(b) < headerLengthsBytes {
		return h, b, false
	}
	keyBytes, valueBytes := uint64(binary.BigEndian.Uint32(b)), uint64(binary.BigEndian.Uint32(b[4:]))
	null := valueBytes == noValue
	if null {
		valueBytes = 0
	}
	rest = b[headerLengthsBytes:]
	if uint64(len(rest)) < keyBytes+valueBytes {
		return h, b, false
	}
	h.Key = string(rest[:keyBytes])
	rest = rest[keyBytes:]
	if !null {
		h.Value = append([]byte{}, rest[:valueBytes]...)
	}
	return h, rest[valueBytes:], true
}

type queueCodec struct{}

func (queueCodec) Name() string { return "projection-queue-1" }

func (c queueCodec) Append(dst []byte, q queue) ([]byte, error) {
	if q.Records < 1 {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "a queue without records")
	}
	b := binary.BigEndian.AppendUint64(append(dst, queueFormat), uint64(q.Records))
	b = appendPosition(b, q.Highest)
	b = binary.BigEndian.AppendUint64(b, uint64(q.Since))
	return binary.BigEndian.AppendUint64(b, uint64(q.Clock)), nil
}

func (c queueCodec) Decode(b []byte) (queue, error) {
	switch {
	case len(b) > 0 && b[0] != queueFormat:
		return queue{}, codecError(c.Name(), schemas.OpDecode, 0, "the queue has a format that this build does not read")
	case len(b) != queueBytes:
		return queue{}, codecError(c.Name(), schemas.OpDecode, min(len(b), queueBytes), "the queue has not 41 bytes")
	}
	q := queue{
		Records: int64(binary.BigEndian.Uint64(b[1:9])),
		Highest: positionOf(b[9:25]),
		Since:   int64(binary.BigEndian.Uint64(b[25:33])),
		Clock:   int64(binary.BigEndian.Uint64(b[33:queueBytes])),
	}
	if q.Records < 1 {
		return queue{}, codecError(c.Name(), schemas.OpDecode, 1, "a queue without records")
	}
	return q, nil
}

func codecError(codec, op string, offset int, reason string) error {
	return &schemas.Error{Codec: codec, Op: op, Offset: int64(offset), Reason: reason}
}
