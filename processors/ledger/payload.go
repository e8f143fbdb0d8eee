package ledger

import (
	"encoding/hex"
	"errors"

	"github.com/onceward/onceward/processors/internal/payload"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Hash is the SHA-256 of a payload, or zeros for a null value; nil if the ledger did not compare
// payloads. Its text has hexadecimal digits.
type Hash []byte

const hashBytes = 32

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	read, err := hex.DecodeString(string(text))
	if err != nil || len(read) != hashBytes {
		return schemas.Reason("not the hash of a payload")
	}
	*h = read
	return nil
}

// ComparePayload makes a contribution that comes again with another payload a conflict, even if it
// has the same amounts. Payloads are compared as package inbox does by default. [PayloadCodec],
// [PayloadHash] and [PayloadWithout] state another way, and imply ComparePayload.
func ComparePayload() Option { return func(s *settings) error { return s.comparePayload(nil) } }

// PayloadCodec is [ComparePayload] by what codec makes of the value: by the canonical form if it is
// JSON, by the bytes if not. V must be the type of the stream's values.
func PayloadCodec[V any](codec schemas.Codec[V]) Option {
	return func(s *settings) error {
		if codec == nil {
			return errors.New("PayloadCodec: the codec is nil")
		}
		return s.comparePayload(codec)
	}
}

// PayloadHash is [ComparePayload] by the result of f, which must be the same for the same record
// for ever. Its error is of class Validation unless it has a class. K and V must be the types of
// the stream.
func PayloadHash[K, V any](f func(r topology.Record[K, V]) ([32]byte, error)) Option {
	return func(s *settings) error {
		if f == nil {
			return errors.New("PayloadHash: the function is nil")
		}
		return s.comparePayload(payload.Hasher[K, V](f))
	}
}

// PayloadWithout is [ComparePayload] without the named top-level members of the JSON document of
// the value, such as the time of a delivery. A value that is no JSON object fails (Validation).
func PayloadWithout(members ...string) Option {
	return func(s *settings) error {
		if len(members) == 0 {
			return errors.New("PayloadWithout: there are no names")
		}
		return s.comparePayload(payload.Without(append([]string{}, members...)))
	}
}

func (s *settings) comparePayload(declared any) error {
	if s.comparesPayload {
		return errors.New("the payload is declared twice; one of ComparePayload, PayloadCodec, PayloadHash and PayloadWithout is enough")
	}
	s.comparesPayload, s.payload = true, declared
	return nil
}

// hasherFor returns what makes the hasher of a task, nil if payloads are not compared.
func hasherFor[K, V any](s *settings) func() payload.Hasher[K, V] {
	if !s.comparesPayload {
		return nil
	}
	newHasher, err := payload.HasherFor[K, V](s.payload)
	s.Mistake(err)
	return newHasher
}

// ofWindows returns what hashes the records of s behind the node that gives them their windows.
func ofWindows[K, V any](newHasher func() payload.Hasher[K, V]) func() payload.Hasher[Window[K], V] {
	if newHasher == nil {
		return nil
	}
	return func() payload.Hasher[Window[K], V] {
		hash := newHasher()
		return func(r topology.Record[Window[K], V]) ([32]byte, error) { return hash(topology.WithKey(r, r.Key.Key)) }
	}
}
