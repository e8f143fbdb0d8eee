package schemas

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The operations that an [Error] names.
const (
	// OpAppend is the encoding of a value.
	OpAppend = "append"
	// OpDecode is the decoding of bytes.
	OpDecode = "decode"
	// OpCanonicalize is the reading of a document for its canonical form.
	OpCanonicalize = "canonicalize"
)

// An Error says which codec could not do what, where and why. It holds no byte of
// the payload, neither in its own text nor in an error that it wraps, so that it
// can go to any log or header.
type Error struct {
	// Codec is the name of the codec, or "canonical-json".
	Codec string
	// Op is one of the Op constants.
	Op string
	// Offset is the index of the input byte at which the problem was noticed. It is the length of
	// the input if the input ended too early. It is -1 if the problem has no place in the bytes, as
	// in most failures of Append.
	Offset int64
	// Reason says what is wrong, without quoting.
	Reason string
	// Err is a more specific error for errors.As, or nil. Codecs set it only to
	// errors that are known to hold no payload.
	Err error
}

// Error returns the operation, the codec, the place and the reason in one line.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString("schemas: ")
	s.WriteString(e.Op)
	s.WriteString(" ")
	s.WriteString(e.Codec)
	if e.Offset >= 0 {
		s.WriteString(": byte ")
		s.WriteString(strconv.FormatInt(e.Offset, 10))
	}
	s.WriteString(": ")
	s.WriteString(e.Reason)
	if e.Err != nil {
		s.WriteString(": ")
		s.WriteString(e.Err.Error())
	}
	return s.String()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// A Reason is an error whose author vouches that its text holds nothing of the
// value in question. User code that a codec calls (UnmarshalJSON, the conversion
// functions of schemas/avro) returns one to have its text shown; of any other
// error a codec shows only the Go type. Field names, types and limits belong in a
// Reason, contents do not.
type Reason string

// Error returns the text itself.
func (r Reason) Error() string { return string(r) }

// ReasonOf describes err, which comes from user code, without the risk of quoting a payload. It
// returns the text of the [Reason] or the reason of the [*Error] that is err or that err wraps, and
// otherwise only the Go type. It is for authors of codecs.
func ReasonOf(err error) string {
	if reason, ok := errors.AsType[Reason](err); ok {
		return string(reason)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return fmt.Sprintf("error of type %T, text withheld because it may quote the payload", err)
}
