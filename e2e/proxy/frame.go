package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Direction says which way a frame goes.
type Direction uint8

// The two directions.
const (
	ToBroker Direction = iota // requests
	ToClient                  // replies
)

func (d Direction) String() string {
	if d == ToClient {
		return "reply"
	}
	return "request"
}

// Keys of the requests that tests of transactions are about, by the names of the Kafka protocol.
const (
	KeyProduce         int16 = 0
	KeyFetch           int16 = 1
	KeyMetadata        int16 = 3
	KeyOffsetFetch     int16 = 9
	KeyFindCoordinator int16 = 10
	KeyJoinGroup       int16 = 11
	KeyHeartbeat       int16 = 12
	KeySyncGroup       int16 = 14
	KeyInitProducerID  int16 = 22
	KeyEndTxn          int16 = 26
	KeyTxnOffsetCommit int16 = 28

	keyAPIVersions     int16 = 18
	keyDescribeCluster int16 = 60
)

// Frame is one request or one reply. A reply carries the header of the request that it answers.
// Frames are not changed once they are parsed, and may be kept.
type Frame struct {
	Direction   Direction
	Key         int16 // api key
	Version     int16 // api version
	Correlation int32
	ClientID    string // "" where it is null

	raw    []byte // without the length prefix
	body   int    // where the body of a request begins, -1 for a key or version that is not known
	answer *Frame // the request that a reply answers
}

func (f *Frame) String() string {
	return fmt.Sprintf("%s %s v%d, correlation id %d, client %q",
		kmsg.NameForKey(f.Key), f.Direction, f.Version, f.Correlation, f.ClientID)
}

// frameMax bounds a frame, in bytes; Kafka's own limit for requests is 100 MiB.
const frameMax = 128 << 20

// errMalformed says that a stream is not Kafka's.
var errMalformed = errors.New("not a Kafka frame")

// readFrame reads one frame without its length. The error is io.EOF where the stream ends between
// two frames.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(length[:]))
	if n < 4 || n > frameMax {
		return nil, fmt.Errorf("%w: the length is %d", errMalformed, n)
	}
	var raw bytes.Buffer // grows with what comes: a stream that is not Kafka's can begin with any length
	raw.Grow(min(int(n), 64<<10))
	if _, err := io.CopyN(&raw, r, int64(n)); err != nil {
		return nil, fmt.Errorf("in the middle of a frame: %w", err)
	}
	return raw.Bytes(), nil
}

// appendFrame is the opposite of readFrame.
func appendFrame(dst, raw []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(raw))), raw...)
}

// ReadRequest reads the next request of a client's stream. The error is io.EOF where the stream
// ends between two frames.
func ReadRequest(r io.Reader) (*Frame, error) {
	raw, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	return parseRequest(raw)
}

// ReadReply reads the next reply of a broker's stream. The function takes the request with a
// correlation id from the outstanding ones, and returns nil where there is none.
func ReadReply(r io.Reader, take func(correlation int32) *Frame) (*Frame, error) {
	raw, err := readFrame(r)
	if err != nil {
		return nil, err
	}
	request := take(correlation(raw))
	if request == nil {
		return nil, fmt.Errorf("%w: a reply to correlation id %d, which is not outstanding", errMalformed, correlation(raw))
	}
	return parseReply(raw, request), nil
}

// Bytes returns the frame as it is sent, with its length.
func (f *Frame) Bytes() []byte { return appendFrame(nil, f.raw) }

// parseRequest reads the header of a request: key, version, correlation id, client id and, in newer
// versions, tags.
func parseRequest(raw []byte) (*Frame, error) {
	if len(raw) < 10 {
		return nil, fmt.Errorf("%w: a request of %d bytes", errMalformed, len(raw))
	}
	f := &Frame{
		Direction: ToBroker, Key: int16(binary.BigEndian.Uint16(raw)), Version: int16(binary.BigEndian.Uint16(raw[2:])),
		Correlation: int32(binary.BigEndian.Uint32(raw[4:])), raw: raw, body: -1,
	}
	at := 10
	if n := int(int16(binary.BigEndian.Uint16(raw[8:]))); n > 0 {
		if n > len(raw)-at {
			return nil, fmt.Errorf("%w: a client id of %d bytes in a request of %d", errMalformed, n, len(raw))
		}
		f.ClientID = string(raw[at : at+n])
		at += n
	}
	req := f.kind()
	if req == nil {
		return f, nil
	}
	if req.IsFlexible() {
		n, err := skipTags(raw[at:])
		if err != nil {
			return nil, err
		}
		at += n
	}
	f.body = at
	return f, nil
}

// parseReply reads a reply to the request.
func parseReply(raw []byte, request *Frame) *Frame {
	return &Frame{
		Direction: ToClient, Key: request.Key, Version: request.Version, Correlation: request.Correlation, ClientID: request.ClientID,
		raw: raw, answer: request,
	}
}

// correlation returns the id of the request that a reply answers; raw is not shorter than 4 bytes.
func correlation(raw []byte) int32 { return int32(binary.BigEndian.Uint32(raw)) }

// kind returns an empty request of the frame's key and version, nil if the protocol library does
// not know them.
func (f *Frame) kind() kmsg.Request {
	req := kmsg.RequestForKey(f.Key)
	if req == nil || f.Version < 0 || f.Version > req.MaxVersion() {
		return nil
	}
	req.SetVersion(f.Version)
	return req
}

// skipTags returns the size of a tag section: a count, and for each tag a number, a size and as
// many bytes.
func skipTags(b []byte) (int, error) {
	at := 0
	next := func() uint64 {
		v, n := binary.Uvarint(b[min(at, len(b)):])
		if n <= 0 {
			at = len(b) + 1
			return 0
		}
		at += n
		return v
	}
	for count := next(); count > 0 && at <= len(b); count-- {
		next()
		if size := next(); at <= len(b) && size <= uint64(len(b)-at) {
			at += int(size)
		} else {
			at = len(b) + 1
		}
	}
	if at > len(b) {
		return 0, fmt.Errorf("%w: the tags of a header do not end", errMalformed)
	}
	return at, nil
}

// Request decodes the request; for a reply, the one that it answers. Each call decodes anew.
func (f *Frame) Request() (kmsg.Request, error) {
	if f.answer != nil {
		return f.answer.Request()
	}
	req := f.kind()
	if req == nil {
		return nil, fmt.Errorf("proxy: %s: unknown to this protocol library", f)
	}
	if err := req.ReadFrom(f.raw[f.body:]); err != nil {
		return nil, fmt.Errorf("proxy: decode %s: %w", f, err)
	}
	return req, nil
}

// Answers returns the request that a reply answers, nil for a request. It is the very frame that a
// rule for requests saw, so that the two can be compared: correlation ids repeat between
// connections.
func (f *Frame) Answers() *Frame { return f.answer }

// Response decodes a reply. It fails for a request.
func (f *Frame) Response() (kmsg.Response, error) {
	if f.answer == nil {
		return nil, fmt.Errorf("proxy: %s is not a reply", f)
	}
	resp, at, err := f.header()
	if err != nil {
		return nil, err
	}
	if err := resp.ReadFrom(f.raw[at:]); err != nil {
		return nil, fmt.Errorf("proxy: decode %s: %w", f, err)
	}
	return resp, nil
}

// header returns an empty response of the reply's kind, and where its body begins.
func (f *Frame) header() (resp kmsg.Response, body int, err error) {
	req := f.answer.kind()
	if req == nil {
		return nil, 0, fmt.Errorf("proxy: %s: unknown to this protocol library", f)
	}
	resp, body = req.ResponseKind(), 4
	resp.SetVersion(f.Version)
	// A client that does not know the broker's version yet could not read a newer header: this one
	// reply always has the old one.
	if resp.IsFlexible() && f.Key != keyAPIVersions {
		n, err := skipTags(f.raw[body:])
		if err != nil {
			return nil, 0, err
		}
		body += n
	}
	return resp, body, nil
}

// TransactionalID returns the transactional id that the request names, or "".
func (f *Frame) TransactionalID() string {
	req, err := f.Request()
	if err != nil {
		return ""
	}
	var id *string
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		id = req.TransactionID
	case *kmsg.InitProducerIDRequest:
		id = req.TransactionalID
	case *kmsg.TxnOffsetCommitRequest:
		id = &req.TransactionalID
	case *kmsg.EndTxnRequest:
		id = &req.TransactionalID
	}
	if id == nil {
		return ""
	}
	return *id
}

// Answered says whether the broker will answer a request: a produce request may ask for no
// acknowledgement.
func (f *Frame) Answered() bool {
	if f.Key != KeyProduce {
		return true
	}
	req, err := f.Request()
	if err != nil {
		return true // the broker will say so
	}
	return req.(*kmsg.ProduceRequest).Acks != 0
}
