package schemas

import (
	"encoding/binary"
	"fmt"
)

type int32Codec struct{}

// Int32 returns the codec of 32-bit integers as Kafka's IntegerSerializer writes
// them: four bytes, big-endian, two's complement. Decode takes exactly four bytes.
// The byte order is that of unsigned numbers, so negative keys sort behind
// positive ones. Its name is "int32".
func Int32() Codec[int32] { return int32Codec{} }

func (int32Codec) Name() string { return "int32" }

func (int32Codec) Append(dst []byte, v int32) ([]byte, error) {
	return binary.BigEndian.AppendUint32(dst, uint32(v)), nil
}

func (c int32Codec) Decode(b []byte) (int32, error) {
	if len(b) != 4 {
		return 0, lengthError(c.Name(), 4, len(b))
	}
	return int32(binary.BigEndian.Uint32(b)), nil
}

type int64Codec struct{}

// Int64 returns the codec of 64-bit integers as Kafka's LongSerializer writes
// them: eight bytes, big-endian, two's complement. Decode takes exactly eight
// bytes. The byte order is that of unsigned numbers, so negative keys sort behind
// positive ones. Its name is "int64".
func Int64() Codec[int64] { return int64Codec{} }

func (int64Codec) Name() string { return "int64" }

func (int64Codec) Append(dst []byte, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

func (c int64Codec) Decode(b []byte) (int64, error) {
	if len(b) != 8 {
		return 0, lengthError(c.Name(), 8, len(b))
	}
	return int64(binary.BigEndian.Uint64(b)), nil
}

func lengthError(codec string, want, got int) error {
	return &Error{Codec: codec, Op: OpDecode, Offset: int64(min(want, got)),
		Reason: fmt.Sprintf("want exactly %d bytes, got %d", want, got)}
}
