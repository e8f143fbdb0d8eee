package inbox

import (
	"errors"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Option is an option of [Dedupe].
type Option func(s *settings) error

type settings struct {
	declare.Common
	allowMissing bool
	// payload is a schemas.Codec[V] or a hasher[K, V], whose type parameters only Dedupe can check, or nil.
	payload any
}

// AllowMissingID lets records without an id pass to Accepted. Nothing protects them from being processed
// twice; they are counted as missing.
func AllowMissingID() Option {
	return func(s *settings) error {
		s.allowMissing = true
		return nil
	}
}

// PayloadCodec compares payloads by what codec makes of the value: by the canonical form if it is JSON, by
// the bytes if not. It suits types that are not JSON by nature, such as those of schemas/avro, and nullable
// values (topology.Nullable). V must be the type of the stream's values.
func PayloadCodec[V any](codec schemas.Codec[V]) Option {
	return func(s *settings) error {
		if codec == nil {
			return errors.New("PayloadCodec: the codec is nil")
		}
		return s.setPayload(codec)
	}
}

// PayloadHash compares payloads by the result of f, which must be the same for the same record for ever. Its
// error is of class Validation unless it has a class. K and V must be the types of the stream.
func PayloadHash[K, V any](f func(r topology.Record[K, V]) ([32]byte, error)) Option {
	return func(s *settings) error {
		if f == nil {
			return errors.New("PayloadHash: the function is nil")
		}
		return s.setPayload(hasher[K, V](f))
	}
}

func (s *settings) setPayload(payload any) error {
	if s.payload != nil {
		return errors.New("the payload is declared twice; one of PayloadCodec and PayloadHash is enough")
	}
	s.payload = payload
	return nil
}

// OnError sets the inbox's reaction to errors of class, such as topology.Conflict.
func OnError(class topology.Class, policy topology.Policy) Option {
	return func(s *settings) error { return s.OnError(class, policy) }
}
