package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
)

// SessionWindows are spans of event time with activity: records of one key of which none is more
// than the gap after the one before. A session begins with its first record and ends with its last
// one; both times are in it. It is made with [Sessions], and is a value.
type SessionWindows struct{ gap, grace time.Duration }

// Sessions returns sessions that end when there is no record for longer than gap.
func Sessions(gap time.Duration) SessionWindows { return SessionWindows{gap: gap} }

// Grace returns w with time for late records: a session takes records until the stream time of its
// node is the gap and the grace behind its end. The default is none.
func (w SessionWindows) Grace(grace time.Duration) SessionWindows {
	w.grace = grace
	return w
}

// Gap returns the longest time between two records of a session.
func (w SessionWindows) Gap() time.Duration { return w.gap }

// Retention returns how long the store of such sessions has to keep one at least: the gap, the
// grace and a millisecond. A session that ended exactly the gap and the grace before the stream
// time still takes records. The result is made for the last argument of [SessionStore].
func (w SessionWindows) Retention() time.Duration { return w.gap + w.grace + time.Millisecond }

// String returns gap and grace; two sessions of the same string are the same.
func (w SessionWindows) String() string {
	return fmt.Sprintf("sessions with gap %s, grace %s", w.gap, w.grace)
}

func (w SessionWindows) check() error {
	whole := func(d time.Duration) bool { return d%time.Millisecond == 0 }
	switch {
	case w == SessionWindows{}:
		return errors.New("the sessions have no gap; Sessions makes them")
	case w.gap < time.Millisecond || w.gap > windowsMax || !whole(w.gap):
		return fmt.Errorf("the gap of sessions is whole milliseconds, from 1 ms to 100 years, not %s", w.gap)
	case w.grace < 0 || w.grace > windowsMax || !whole(w.grace):
		return fmt.Errorf("the grace of sessions is whole milliseconds, from 0 to 100 years, not %s", w.grace)
	}
	return nil
}

// SessionCodec returns the codec of the keys of sessions for topics: the key followed by the end
// and the beginning of the session, each as eight bytes, big-endian. It is what Kafka Streams'
// SessionWindowedSerde writes. Its name is "session:" and the name of the key's codec.
func SessionCodec[K any](key schemas.Codec[K]) schemas.Codec[Windowed[K]] {
	if key == nil {
		return nil
	}
	return sessionCodec[K]{key}
}

type sessionCodec[K any] struct{ key schemas.Codec[K] }

func (c sessionCodec[K]) Name() string { return "session:" + c.key.Name() }

func (c sessionCodec[K]) Append(dst []byte, w Windowed[K]) ([]byte, error) {
	if w.Start < 0 || w.End < w.Start {
		return dst, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpAppend, Offset: -1, Reason: "the session begins before the epoch, or ends before it begins",
		}
	}
	b, err := c.key.Append(dst, w.Key)
	if err != nil {
		return dst, innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(w.End)), uint64(w.Start)), nil
}

func (c sessionCodec[K]) Decode(b []byte) (Windowed[K], error) {
	n := len(b) - 2*startBytes
	if n < 0 {
		return Windowed[K]{}, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpDecode, Offset: int64(len(b)), Reason: "the times of the session are missing",
		}
	}
	end, start := int64(binary.BigEndian.Uint64(b[n:])), int64(binary.BigEndian.Uint64(b[n+startBytes:]))
	if start < 0 || end < start {
		return Windowed[K]{}, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpDecode, Offset: int64(n), Reason: "the session begins before the epoch, or ends before it begins",
		}
	}
	key, err := c.key.Decode(b[:n])
	if err != nil {
		return Windowed[K]{}, innerError(c.Name(), schemas.OpDecode, 0, err)
	}
	return Windowed[K]{Key: key, Start: start, End: end}, nil
}
