package inbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/payload"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Option is an option of [Dedupe].
type Option func(s *settings) error

type settings struct {
	declare.Common
	allowMissing, stayByID, keepsOrigin, binaryIDs bool
	// emits says which records are emitted that would fail otherwise.
	emits     struct{ conflicts, late, missing, malformed bool }
	retention retention
	archive   *topology.TopicOf[string, Entry]
	// payload is what package payload takes, business a reader[K, V] and scope a byKey or a
	// detour[K, V]; or nil. Only Dedupe can check their type parameters.
	payload, business, scope any
}

// retention is how long ids are kept.
type retention struct {
	// of is 0 where ids do not expire.
	of time.Duration
	// expires and forever say that Retain and Forever were given. One of them has to be.
	expires, forever, tolerated bool
}

var (
	errNoRetention = errors.New("the inbox does not say how long it keeps ids; Retain lets them expire, Forever keeps all")
	errNilFunction = errors.New("the function is nil")
	errTwice       = errors.New("the option is given twice")
)

// check notes the options that do not go together.
func (s *settings) check(global bool) {
	switch r := s.retention; {
	case !r.expires && !r.forever:
		s.Mistake(errNoRetention)
	case r.expires && r.forever:
		s.Mistake(errors.New("Retain and Forever contradict each other; give one of them"))
	case r.expires:
	case s.archive != nil:
		s.Mistake(errArchiveForever)
	case r.tolerated:
		s.Mistake(errors.New("TolerateLongerTopics with Forever: no id expires, so the inbox knows every record of the topic again"))
	case s.emits.late:
		s.Mistake(errors.New("EmitLate with Forever: no id expires, so no record is late"))
	}
	if s.emits.missing && s.allowMissing {
		s.Mistake(errors.New("EmitMissing and AllowMissingID contradict each other: a record without an id is emitted or accepted; give one of them"))
	}
	if s.stayByID && !global {
		s.Mistake(errStay)
	}
	if s.keepsOrigin && !global {
		s.Mistake(errOrigin)
	}
	if global && s.business != nil {
		s.Mistake(errors.New("BusinessKey with Globally: records with one business key and several ids would be in several " +
			"partitions; put a second inbox behind the first, Globally by the business key"))
	}
}

// AllowMissingID lets records without an id pass to Accepted. Nothing but a [BusinessKey] protects
// them from being processed twice; they are counted as missing.
func AllowMissingID() Option {
	return func(s *settings) error {
		s.allowMissing = true
		return nil
	}
}

// ReadBinaryIDs says that the function id returns the bytes of an id, such as the 16 bytes of a
// UUID, as string(uuid[:]). The id is their hexadecimal form, two lower-case digits a byte: that is
// stored, shown by commands, and written by [Globally] and [Archive]. An id has 1 to 512 bytes. A
// business key stays text.
//
// An inbox that gets or loses the option does not know the ids that it has stored. Give it another
// name.
func ReadBinaryIDs() Option {
	return func(s *settings) error {
		s.binaryIDs = true
		return nil
	}
}

// Retain expires an id when its record is d older than the newest record that the task's inbox has
// seen, by the timestamps of the records. d is in whole milliseconds. It must be at least the
// retention of the source topics, or the application does not start: a record that is read again
// later would be taken for new, or be late.
//
// Every inbox has Retain or [Forever]; Build reports one that has neither.
func Retain(d time.Duration) Option {
	return func(s *settings) error {
		again := s.retention.expires
		s.retention.expires = true
		switch {
		case d < time.Millisecond || d%time.Millisecond != 0:
			return fmt.Errorf("Retain(%s): the retention must be whole milliseconds, at least one", d)
		case again:
			return fmt.Errorf("Retain: %w", errTwice)
		}
		s.retention.of = d
		return nil
	}
}

// Forever keeps every id, so that a duplicate is found however late it comes. The store and its
// changelog grow with every new id.
func Forever() Option {
	return func(s *settings) error {
		s.retention.forever = true
		return nil
	}
}

// EmitConflicts emits conflicts ([Inbox.Conflicts]) instead of failing them.
func EmitConflicts() Option {
	return func(s *settings) error {
		s.emits.conflicts = true
		return nil
	}
}

// EmitLate emits late records ([Inbox.Late]) instead of failing them. It needs [Retain].
func EmitLate() Option {
	return func(s *settings) error {
		s.emits.late = true
		return nil
	}
}

// EmitMissing emits records without an id ([Inbox.Missing]) instead of failing them.
// [AllowMissingID] accepts them.
func EmitMissing() Option {
	return func(s *settings) error {
		s.emits.missing = true
		return nil
	}
}

// EmitMalformed emits records whose id is unusable ([Inbox.Malformed]) instead of failing them.
func EmitMalformed() Option {
	return func(s *settings) error {
		s.emits.malformed = true
		return nil
	}
}

// TolerateLongerTopics lets an inbox with [Retain] start although a source topic has a longer
// retention, with a warning in the log. Records that a replay reads from before the dedupe window
// are late then, and not processed.
func TolerateLongerTopics() Option {
	return func(s *settings) error {
		s.retention.tolerated = true
		return nil
	}
}

// PayloadCodec compares payloads by what codec makes of the value: by the canonical form if it is
// JSON, by the bytes if not. It suits types that are not JSON by nature, such as those of
// schemas/avro, and nullable values (topology.Nullable). V must be the type of the stream's values.
func PayloadCodec[V any](codec schemas.Codec[V]) Option {
	return func(s *settings) error {
		if codec == nil {
			return errors.New("PayloadCodec: the codec is nil")
		}
		return s.setPayload(codec)
	}
}

// PayloadHash compares payloads by the result of f, which must be the same for the same record for
// ever. Its error is of class Validation unless it has a class. K and V must be the types of the
// stream.
func PayloadHash[K, V any](f func(r topology.Record[K, V]) ([32]byte, error)) Option {
	return func(s *settings) error {
		if f == nil {
			return errors.New("PayloadHash: the function is nil")
		}
		return s.setPayload(payload.Hasher[K, V](f))
	}
}

// PayloadWithout compares payloads as by default, but without the named top-level members of the
// JSON document of the value: an event id beside a [BusinessKey], the time of a delivery, a number
// of attempts. A value that is no JSON object fails (Validation).
func PayloadWithout(members ...string) Option {
	return func(s *settings) error {
		if len(members) == 0 {
			return errors.New("PayloadWithout: there are no names")
		}
		return s.setPayload(payload.Without(append([]string{}, members...)))
	}
}

func (s *settings) setPayload(declared any) error {
	if s.payload != nil {
		return errors.New("the payload is declared twice; one of PayloadCodec, PayloadHash and PayloadWithout is enough")
	}
	s.payload = declared
	return nil
}

// OnError sets the inbox's reaction to errors of class, such as topology.Conflict.
func OnError(class topology.Class, policy topology.Policy) Option {
	return func(s *settings) error { return s.OnError(class, policy) }
}
