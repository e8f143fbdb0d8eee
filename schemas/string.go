package schemas

import "unicode/utf8"

const reasonUTF8 = "text is not valid UTF-8"

type stringCodec struct{}

// String returns the codec of text: its UTF-8 bytes, nothing else, as Kafka's
// StringSerializer writes it. Invalid UTF-8 is an error both ways, because other
// clients would replace it silently and two different keys could become one. The
// empty string is a value; it encodes to no bytes. Its name is "string".
func String() Codec[string] { return stringCodec{} }

func (stringCodec) Name() string { return "string" }

func (c stringCodec) Append(dst []byte, v string) ([]byte, error) {
	if !utf8.ValidString(v) {
		return dst, &Error{Codec: c.Name(), Op: OpAppend, Offset: -1, Reason: reasonUTF8}
	}
	return append(dst, v...), nil
}

func (c stringCodec) Decode(b []byte) (string, error) {
	if at := invalidUTF8(b); at >= 0 {
		return "", &Error{Codec: c.Name(), Op: OpDecode, Offset: int64(at), Reason: reasonUTF8}
	}
	return string(b), nil
}

// invalidUTF8 returns the index of the first byte that is not part of valid
// UTF-8, or -1. The search runs only once the fast check has failed.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; ; {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size <= 1 {
			return i
		}
		i += size
	}
}
