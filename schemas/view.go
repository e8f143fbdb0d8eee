package schemas

import "unsafe"

// A Lender is a [Codec] whose values can be views: they share the memory of their encoding, so that
// reading one allocates and copies nothing.
//
// Only the sources of a topology ask for views. Stores and tools call Decode, which copies. The
// functions of a topology that get a lent key or value have two rules:
//
//   - Do not change a view. The record may be processed again, from the same memory.
//   - Do not keep a view, or a part of one, after the function has returned. A copy may be kept:
//     see bytes.Clone and strings.Clone.
//
// A function may emit a view, put it into a store, and use it as a key: codecs copy there. Package
// topologytest finds functions that break the rules.
type Lender[T any] interface {
	Codec[T]

	// Lend is Decode, except that the value may refer to b.
	Lend(b []byte) (T, error)
}

type bytesView struct{ bytesCodec }

// BytesView returns the codec of raw bytes that lends: see [Lender] for the rules. Otherwise it is
// [Bytes], and has its name.
func BytesView() Lender[[]byte] { return bytesView{} }

// Lend returns b without room to append to, and never nil.
func (bytesView) Lend(b []byte) ([]byte, error) {
	if b == nil {
		return []byte{}, nil
	}
	return b[:len(b):len(b)], nil
}

type stringView struct{ stringCodec }

// StringView returns the codec of text that lends: see [Lender] for the rules. Otherwise it is
// [String], and has its name.
func StringView() Lender[string] { return stringView{} }

func (c stringView) Lend(b []byte) (string, error) {
	if at := invalidUTF8(b); at >= 0 {
		return "", &Error{Codec: c.Name(), Op: OpDecode, Offset: int64(at), Reason: reasonUTF8}
	}
	return unsafe.String(unsafe.SliceData(b), len(b)), nil
}
