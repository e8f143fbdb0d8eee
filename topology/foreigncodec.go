package topology

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/onceward/onceward/schemas"
)

// The two sides of a join by a foreign key send subscriptions and answers to each other, and the
// right side stores subscriptions. The bytes stay: state/FORMAT.md has them. Numbers are
// big-endian.
//
//	subscription   value in <name>-subscriptions, whose key is the foreign key
//	               01 ‖ kind ‖ partition (4) ‖ hash (16, unless the kind has none) ‖ left key
//	answer         value in <name>-answers, whose key is the left key
//	               01 ‖ kind ‖ hash (16, unless the kind has none) ‖ right value (if the kind has one)
//	row            of the store <name>-subscriptions
//	               key: 01 ‖ length of the foreign key (4) ‖ foreign key ‖ left key
//	               value: hash (16) ‖ partition (4)
//
// The length in front of the foreign key makes all rows of one foreign key neighbours, whatever its
// codec writes: no other row begins with the same bytes.

// foreignVersion is the first byte of all three forms.
const foreignVersion = 1

// valueHash tells values of the left table apart: the first 16 bytes of the SHA-256 of an encoded
// value.
type valueHash [16]byte

func hashOf(encoded []byte) valueHash {
	sum := sha256.Sum256(encoded)
	return valueHash(sum[:len(valueHash{})])
}

// MarshalText is the form for tools.
func (h valueHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads the form for tools.
func (h *valueHash) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(h) {
		return schemas.Reason("a hash has 32 hexadecimal digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// subscriptionKind is what a subscription asks the right side to do.
type subscriptionKind byte

const (
	// leave ends the subscription. The row of the left table has subscribed to another foreign key.
	leave subscriptionKind = iota
	// leaveAnswered ends it, and is answered: the row of the left table has no foreign key any
	// more, or was deleted.
	leaveAnswered
	// subscribe is answered if the right table has the row.
	subscribe
	// subscribeAlways is answered in any case.
	subscribeAlways
	// confirm changes no subscription. It is answered if the right table does not have the row.
	confirm
	subscriptionKinds
)

func (k subscriptionKind) hasHash() bool { return k >= subscribe }

// subscription is what the left side sends. Fields are exported for tools.
type subscription[K any] struct {
	Kind subscriptionKind `json:"kind"`
	// Partition is the one of the left task, to which answers go.
	Partition int32     `json:"partition"`
	Hash      valueHash `json:"hash"`
	Key       K         `json:"key"`
}

const (
	kindBytes      = 2
	partitionBytes = 4
	hashBytes      = len(valueHash{})
)

// foreignError is the error of one of the codecs in this file.
func foreignError(codec, op string, at int, reason string) *schemas.Error {
	return &schemas.Error{Codec: codec, Op: op, Offset: int64(at), Reason: reason}
}

// checkForeignVersion refuses what another version has written. The task stops then, since a newer
// build can read it.
func checkForeignVersion(codec string, b []byte) error {
	if len(b) == 0 {
		return foreignError(codec, schemas.OpDecode, 0, "it is empty")
	}
	if b[0] == foreignVersion {
		return nil
	}
	err := foreignError(codec, schemas.OpDecode, 0, fmt.Sprintf("version %d is not known, this build has %d", b[0], foreignVersion))
	err.Err = Fail(Config, schemas.Reason("start a build that knows the version"))
	return err
}

// subscriptionCodec is the form of subscriptions.
type subscriptionCodec[K any] struct{ key schemas.Codec[K] }

func (c subscriptionCodec[K]) Name() string { return "subscription:" + c.key.Name() }

func (c subscriptionCodec[K]) Append(dst []byte, s subscription[K]) ([]byte, error) {
	if s.Kind >= subscriptionKinds || s.Partition < 0 {
		return dst, foreignError(c.Name(), schemas.OpAppend, -1, "the kind or the partition is invalid")
	}
	n := len(dst)
	b := append(dst, foreignVersion, byte(s.Kind))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Partition))
	if s.Kind.hasHash() {
		b = append(b, s.Hash[:]...)
	}
	b, err := c.key.Append(b, s.Key)
	if err != nil {
		return dst[:n], innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	return b, nil
}

func (c subscriptionCodec[K]) Decode(b []byte) (s subscription[K], err error) {
	if err := checkForeignVersion(c.Name(), b); err != nil {
		return s, err
	}
	if len(b) < kindBytes+partitionBytes {
		return s, foreignError(c.Name(), schemas.OpDecode, len(b), "it is too short")
	}
	kind, partition, at := subscriptionKind(b[1]), binary.BigEndian.Uint32(b[kindBytes:]), kindBytes+partitionBytes
	if kind >= subscriptionKinds {
		return s, foreignError(c.Name(), schemas.OpDecode, 1, "the kind is invalid")
	}
	if int32(partition) < 0 {
		return s, foreignError(c.Name(), schemas.OpDecode, kindBytes, "the partition is invalid")
	}
	var hash valueHash
	if kind.hasHash() {
		if len(b) < at+hashBytes {
			return s, foreignError(c.Name(), schemas.OpDecode, len(b), "it is too short for its hash")
		}
		at += copy(hash[:], b[at:])
	}
	key, err := c.key.Decode(b[at:])
	if err != nil {
		return s, innerError(c.Name(), schemas.OpDecode, at, err)
	}
	return subscription[K]{Kind: kind, Partition: int32(partition), Hash: hash, Key: key}, nil
}

// answerKind is what an answer has.
type answerKind byte

const (
	// answerLeft is the answer to leaveAnswered. It has no hash.
	answerLeft answerKind = iota
	// answerNothing says that the right table has no row.
	answerNothing
	// answerRow has the row of the right table.
	answerRow
	answerKinds
)

// answer is what the right side sends. Fields are exported for tools.
type answer[R any] struct {
	Kind  answerKind `json:"kind"`
	Hash  valueHash  `json:"hash"`
	Value R          `json:"value"`
	// encoded is the encoded Value where several answers have the same, else nil.
	encoded []byte
	// partition is where the answer goes. It is not written.
	partition int32
}

// answerCodec is the form of answers.
type answerCodec[R any] struct{ value schemas.Codec[R] }

func (c answerCodec[R]) Name() string { return "answer:" + c.value.Name() }

func (c answerCodec[R]) Append(dst []byte, a answer[R]) ([]byte, error) {
	if a.Kind >= answerKinds {
		return dst, foreignError(c.Name(), schemas.OpAppend, -1, "the kind is invalid")
	}
	n := len(dst)
	b := append(dst, foreignVersion, byte(a.Kind))
	if a.Kind != answerLeft {
		b = append(b, a.Hash[:]...)
	}
	if a.Kind != answerRow {
		return b, nil
	}
	if a.encoded != nil {
		return append(b, a.encoded...), nil
	}
	b, err := c.value.Append(b, a.Value)
	if err != nil {
		return dst[:n], innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	return b, nil
}

func (c answerCodec[R]) Decode(b []byte) (a answer[R], err error) {
	if err := checkForeignVersion(c.Name(), b); err != nil {
		return a, err
	}
	if len(b) < kindBytes || answerKind(b[1]) >= answerKinds {
		return a, foreignError(c.Name(), schemas.OpDecode, min(len(b), 1), "the kind is invalid")
	}
	kind, at := answerKind(b[1]), kindBytes
	var hash valueHash
	if kind != answerLeft {
		if len(b) < at+hashBytes {
			return a, foreignError(c.Name(), schemas.OpDecode, len(b), "it is too short for its hash")
		}
		at += copy(hash[:], b[at:])
	}
	var value R
	switch {
	case kind == answerRow:
		if value, err = c.value.Decode(b[at:]); err != nil {
			return a, innerError(c.Name(), schemas.OpDecode, at, err)
		}
	case len(b) > at:
		return a, foreignError(c.Name(), schemas.OpDecode, at, "it has a value, which its kind has not")
	}
	return answer[R]{Kind: kind, Hash: hash, Value: value}, nil
}

// subscriberKey is the key of a row: a row of the left table that has subscribed to a foreign key.
type subscriberKey[F, K any] struct {
	Foreign F `json:"foreign"`
	Key     K `json:"key"`
}

// subscriberKeyCodec is the form of the keys of rows.
type subscriberKeyCodec[F, K any] struct {
	foreign schemas.Codec[F]
	key     schemas.Codec[K]
}

const prefixBytes = 1 + 4

func (c subscriberKeyCodec[F, K]) Name() string {
	return "subscriber:" + c.foreign.Name() + "," + c.key.Name()
}

// appendPrefix appends what the rows of a foreign key, and only they, begin with.
func (c subscriberKeyCodec[F, K]) appendPrefix(dst []byte, foreign F) ([]byte, error) {
	n := len(dst)
	b, err := c.foreign.Append(append(dst, foreignVersion, 0, 0, 0, 0), foreign)
	if err != nil {
		return dst[:n], innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	binary.BigEndian.PutUint32(b[n+1:], uint32(len(b)-n-prefixBytes))
	return b, nil
}

func (c subscriberKeyCodec[F, K]) Append(dst []byte, s subscriberKey[F, K]) ([]byte, error) {
	b, err := c.appendPrefix(dst, s.Foreign)
	if err != nil {
		return b, err
	}
	if b, err = c.key.Append(b, s.Key); err != nil {
		return dst, innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	return b, nil
}

func (c subscriberKeyCodec[F, K]) Decode(b []byte) (s subscriberKey[F, K], err error) {
	end, err := c.foreignEnd(b)
	if err != nil {
		return s, err
	}
	foreign, err := c.foreign.Decode(b[prefixBytes:end])
	if err != nil {
		return s, innerError(c.Name(), schemas.OpDecode, prefixBytes, err)
	}
	key, err := c.decodeKey(b, end)
	if err != nil {
		return s, err
	}
	return subscriberKey[F, K]{Foreign: foreign, Key: key}, nil
}

// foreignEnd returns the index behind the foreign key.
func (c subscriberKeyCodec[F, K]) foreignEnd(b []byte) (int, error) {
	if err := checkForeignVersion(c.Name(), b); err != nil {
		return 0, err
	}
	if len(b) < prefixBytes || uint64(binary.BigEndian.Uint32(b[1:])) > uint64(len(b)-prefixBytes) {
		return 0, foreignError(c.Name(), schemas.OpDecode, 1, "the length of the foreign key is not one")
	}
	return prefixBytes + int(binary.BigEndian.Uint32(b[1:])), nil
}

// decodeKey decodes the left key, which begins behind the foreign key.
func (c subscriberKeyCodec[F, K]) decodeKey(b []byte, at int) (K, error) {
	key, err := c.key.Decode(b[at:])
	if err != nil {
		return key, innerError(c.Name(), schemas.OpDecode, at, err)
	}
	return key, nil
}

// subscriber is the value of a row.
type subscriber struct {
	Hash      valueHash `json:"hash"`
	Partition int32     `json:"partition"`
}

// subscriberCodec is the form of the values of rows.
type subscriberCodec struct{}

func (subscriberCodec) Name() string { return "subscriber" }

func (c subscriberCodec) Append(dst []byte, s subscriber) ([]byte, error) {
	if s.Partition < 0 {
		return dst, foreignError(c.Name(), schemas.OpAppend, -1, "the partition is invalid")
	}
	return binary.BigEndian.AppendUint32(append(dst, s.Hash[:]...), uint32(s.Partition)), nil
}

func (c subscriberCodec) Decode(b []byte) (s subscriber, err error) {
	if len(b) != hashBytes+partitionBytes || b[hashBytes] > 0x7f {
		return s, foreignError(c.Name(), schemas.OpDecode, min(len(b), hashBytes), "a hash and a partition are expected")
	}
	return subscriber{Hash: valueHash(b[:hashBytes]), Partition: int32(binary.BigEndian.Uint32(b[hashBytes:]))}, nil
}
