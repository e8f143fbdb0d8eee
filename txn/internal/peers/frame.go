package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
	"unicode/utf8"
)

// The version of the frames that this build writes. It reads every minor version of the major one.
const (
	formatMajor = 1
	formatMinor = 3 // 1: a hello names the instance that was dialled. 2: streams. 3: over
)

const (
	// frameMax bounds a frame without its length.
	frameMax = 64 << 10
	// headSize is what every frame has: major, minor, type.
	headSize  = 3
	checkSize = crc32.Size
	macSize   = 32
	// idsMax bounds the transactional ids that are kept of one incarnation, idBytesMax those of one
	// frame, and reasonMax the text of a refusal.
	idsMax     = 2048
	idBytesMax = 16 << 10
	reasonMax  = 200
)

// errFrame says that a frame cannot be read, errVersion that its major version is another one.
var (
	errFrame   = errors.New("damaged frame")
	errVersion = errors.New("other major version")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kind is the type of a frame.
type kind byte

const (
	kindHello     kind = 1
	kindProof     kind = 2
	kindUpdate    kind = 3
	kindHeartbeat kind = 4
	kindGoodbye   kind = 5
	kindQuestion  kind = 6
	kindReport    kind = 7
	kindStream    kind = 8
	kindData      kind = 9
	kindOver      kind = 10
)

// Codes of a goodbye.
const (
	codeStopping  = 1
	codeDuplicate = 2
	codeRefused   = 3
	codeSilent    = 4
)

// state is what a report says of an incarnation.
type state byte

const (
	stateNever     state = 0
	stateHeard     state = 1
	stateLost      state = 2
	stateStopped   state = 3
	stateRestarted state = 4
	stateFencing   state = 5
	stateFenced    state = 6
)

// frame is a frame of any type; each type uses some of the fields.
type frame struct {
	kind                           kind
	application, cluster, instance string
	incarnation                    uint64
	address, memberID              string
	ids                            []string
	nonce                          []byte
	proof                          []byte
	code                           byte
	reason                         string
	state                          state
	age                            time.Duration // of the state
	by                             string        // the instance that fences
	to                             string        // the instance that was dialled
	data                           []byte        // of a stream
	plan                           uint64        // the plan of the group that is over
}

// Tags of the fields.
const (
	tagApplication = 1
	tagCluster     = 2
	tagInstance    = 3
	tagIncarnation = 4
	tagAddress     = 5
	tagMemberID    = 6
	tagID          = 7
	tagNonce       = 8
	tagProof       = 9
	tagCode        = 10
	tagReason      = 11
	tagState       = 12
	tagAge         = 13
	tagBy          = 14
	tagTo          = 15
	tagData        = 16
	tagPlan        = 17
)

// body returns the head and the fields. A field that is zero is left out.
func (f frame) body() []byte {
	out := []byte{formatMajor, formatMinor, byte(f.kind)}
	field := func(tag uint64, value []byte) {
		out = binary.AppendUvarint(out, tag)
		out = binary.AppendUvarint(out, uint64(len(value)))
		out = append(out, value...)
	}
	text := func(tag uint64, s string) {
		if s != "" {
			field(tag, []byte(s))
		}
	}
	number := func(tag, n uint64) {
		if n != 0 {
			field(tag, binary.BigEndian.AppendUint64(nil, n))
		}
	}
	text(tagApplication, f.application)
	text(tagCluster, f.cluster)
	text(tagInstance, f.instance)
	number(tagIncarnation, f.incarnation)
	text(tagAddress, f.address)
	text(tagMemberID, f.memberID)
	for _, id := range f.ids {
		text(tagID, id)
	}
	text(tagNonce, string(f.nonce))
	text(tagProof, string(f.proof))
	number(tagCode, uint64(f.code))
	text(tagReason, f.reason)
	number(tagState, uint64(f.state))
	number(tagAge, uint64(max(f.age.Milliseconds(), 0)))
	text(tagBy, f.by)
	text(tagTo, f.to)
	text(tagData, string(f.data))
	number(tagPlan, f.plan)
	return out
}

// decode reads what body has written. It skips unknown fields.
func decode(body []byte) (frame, error) {
	if len(body) < headSize {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, len(body))
	}
	f := frame{kind: kind(body[2])}
	for rest := body[headSize:]; len(rest) > 0; {
		tag, n := binary.Uvarint(rest)
		if n <= 0 {
			return frame{}, fmt.Errorf("%w: a tag is cut off", errFrame)
		}
		rest = rest[n:]
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return frame{}, fmt.Errorf("%w: the field with tag %d is cut off", errFrame, tag)
		}
		value := rest[n : n+int(size)]
		rest = rest[n+int(size):]
		if err := f.set(tag, value); err != nil {
			return frame{}, err
		}
	}
	return f, nil
}

func (f *frame) set(tag uint64, value []byte) error {
	var number uint64
	switch tag {
	case tagIncarnation, tagCode, tagState, tagAge, tagPlan:
		if len(value) < 8 { // a newer minor version may append
			return fmt.Errorf("%w: the number with tag %d has %d bytes", errFrame, tag, len(value))
		}
		number = binary.BigEndian.Uint64(value)
	case tagApplication, tagCluster, tagInstance, tagAddress, tagMemberID, tagID, tagReason, tagBy, tagTo:
		if !utf8.Valid(value) {
			return fmt.Errorf("%w: the text with tag %d is not UTF-8", errFrame, tag)
		}
	}
	switch tag {
	case tagApplication:
		f.application = string(value)
	case tagCluster:
		f.cluster = string(value)
	case tagInstance:
		f.instance = string(value)
	case tagIncarnation:
		f.incarnation = number
	case tagAddress:
		f.address = string(value)
	case tagMemberID:
		f.memberID = string(value)
	case tagID:
		f.ids = append(f.ids, string(value))
	case tagNonce:
		f.nonce = value
	case tagProof:
		f.proof = value
	case tagCode:
		f.code = byte(min(number, 255))
	case tagReason:
		f.reason = cut(string(value))
	case tagState:
		f.state = state(min(number, 255))
	case tagAge:
		// A longer time would overflow, and says the same.
		f.age = time.Duration(min(number, uint64(24*time.Hour/time.Millisecond))) * time.Millisecond
	case tagBy:
		f.by = string(value)
	case tagTo:
		f.to = string(value)
	case tagData:
		f.data = value
	case tagPlan:
		f.plan = number
	}
	return nil
}

// cut bounds a text that ends up in a frame, in logs and in the status.
func cut(s string) string {
	if len(s) <= reasonMax {
		return s
	}
	end := reasonMax
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// seal returns a frame as it is sent: length, body, the MAC if key is set, check.
func seal(body []byte, key *macKey) ([]byte, error) {
	size := len(body) + key.size() + checkSize
	if size > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes is larger than %d", size, frameMax)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+size), uint32(size))
	out = append(out, body...)
	out = append(out, key.next(out)...)
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli)), nil
}

// read returns the next frame's body. The error wraps errFrame or errVersion if it is the frame's
// fault.
func read(r io.Reader, key *macKey) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size > frameMax || size < headSize+checkSize {
		return nil, fmt.Errorf("%w: the length is %d", errFrame, size)
	}
	all := make([]byte, 4+size)
	copy(all, length[:])
	if _, err := io.ReadFull(r, all[4:]); err != nil {
		return nil, err
	}
	sealed, check := all[:len(all)-checkSize], all[len(all)-checkSize:]
	if binary.BigEndian.Uint32(check) != crc32.Checksum(sealed, castagnoli) {
		return nil, fmt.Errorf("%w: the check is wrong", errFrame)
	}
	if sealed[4] != formatMajor {
		return nil, fmt.Errorf("%w: the peer's frames have version %d, and this build reads version %d", errVersion, sealed[4], formatMajor)
	}
	end := len(sealed) - key.size()
	if end < 4+headSize || !key.check(sealed[:end], sealed[end:]) {
		return nil, fmt.Errorf("%w: the MAC is wrong", errFrame)
	}
	return sealed[4:end], nil
}
