package schemas

type bytesCodec struct{}

// Bytes returns the codec of raw bytes, which are their own encoding. Like every
// codec it copies: the slice that Decode returns shares nothing with its input.
// Decode never returns nil, since nil stands for no value, and Append takes nil
// for empty. Its name is "bytes".
func Bytes() Codec[[]byte] { return bytesCodec{} }

func (bytesCodec) Name() string { return "bytes" }

func (bytesCodec) Append(dst []byte, v []byte) ([]byte, error) { return append(dst, v...), nil }

func (bytesCodec) Decode(b []byte) ([]byte, error) {
	v := make([]byte, len(b))
	copy(v, b)
	return v, nil
}
