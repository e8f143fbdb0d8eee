package schemas

// A Codec encodes and decodes values of one type in one format. The package
// documentation has the full contract; schemas/codectest checks it.
//
// A Codec is safe for concurrent use.
type Codec[T any] interface {
	// Append appends the encoding of v to dst and returns the extended slice,
	// as the append built-in does. On error it returns dst with its length and
	// content unchanged; capacity behind it may have been written to. It keeps
	// neither dst nor anything that v refers to. The error is an [*Error].
	Append(dst []byte, v T) ([]byte, error)

	// Decode returns the value that all of b encodes; bytes left over are an
	// error. It neither changes b nor keeps a reference into it. On error the
	// value is the zero T and the error is an [*Error].
	Decode(b []byte) (T, error)

	// Name returns the stable identity of the format, such as "int64" or
	// "avro:69bfb82ab456619d". It is part of topology descriptions and
	// fingerprints: two codecs with one name read each other's bytes, and a name
	// that changes is an incompatible change of the topology.
	Name() string
}
