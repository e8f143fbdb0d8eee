package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
)

// Windows are spans of event time of one size. None begins before the epoch. A record belongs to
// every window that its timestamp is in. It is made with [Tumbling], [Hopping] or [Sliding], and is
// a value.
//
// Tumbling and hopping windows begin at multiples of the advance, counted from the epoch. The
// beginning is part of a window and the end is not.
type Windows struct {
	size, advance, grace time.Duration
	sliding              bool
}

// Tumbling returns windows of that size, one after the other, so that a record is in exactly one.
func Tumbling(size time.Duration) Windows { return Windows{size: size, advance: size} }

// Hopping returns windows of that size that begin every advance. They overlap if the advance is
// smaller than the size; it cannot be larger.
func Hopping(size, advance time.Duration) Windows { return Windows{size: size, advance: advance} }

// Sliding returns windows that follow the records: for each record of a key, one window ends with
// it, and one begins a millisecond behind it if another record of the key is in that one. Both ends
// are part of a window, so two records are in one window if their timestamps differ by at most
// difference. Each set of records of a key that are that close together has a window.
//
// A window that would begin before the epoch begins at the epoch. Records with a null value are
// left out and counted as "null-value".
func Sliding(difference time.Duration) Windows { return Windows{size: difference, sliding: true} }

// Grace returns w with time for late records: a window takes records until the stream time of its
// node is that long behind its end. The default is none.
func (w Windows) Grace(grace time.Duration) Windows {
	w.grace = grace
	return w
}

// Size returns how long a window is. That of sliding windows is the difference.
func (w Windows) Size() time.Duration { return w.size }

// Retention returns how long the store of such windows has to keep one at least. It is made for the
// last argument of [WindowStore]. For tumbling and hopping windows it is the size and the grace. A
// new sliding window takes over what is in windows that begin up to two differences before it, so
// it is twice the difference, the grace, and two milliseconds.
func (w Windows) Retention() time.Duration {
	if w.sliding {
		return 2*w.size + w.grace + 2*time.Millisecond
	}
	return w.size + w.grace
}

// String returns the kind of the windows and their times; two windows of the same string are the
// same.
func (w Windows) String() string {
	if w.sliding {
		return fmt.Sprintf("sliding, difference %s, grace %s", w.size, w.grace)
	}
	return fmt.Sprintf("size %s, advance %s, grace %s", w.size, w.advance, w.grace)
}

// windowsMax is the longest size and the longest grace. It keeps sums of them with any timestamp in
// range.
const windowsMax = 100 * 365 * 24 * time.Hour

func (w Windows) check() error {
	whole := func(d time.Duration) bool { return d%time.Millisecond == 0 }
	switch {
	case w == Windows{}:
		return errors.New("the windows have no size; Tumbling, Hopping and Sliding make windows")
	case w.sliding && (w.size < time.Millisecond || w.size > windowsMax || !whole(w.size)):
		return fmt.Errorf("the difference of sliding windows is whole milliseconds, from 1 ms to 100 years, not %s", w.size)
	case w.size < time.Millisecond || w.size > windowsMax || !whole(w.size):
		return fmt.Errorf("the size of a window is whole milliseconds, from 1 ms to 100 years, not %s", w.size)
	case !w.sliding && (w.advance < time.Millisecond || w.advance > w.size || !whole(w.advance)):
		return fmt.Errorf("windows of %s advance by whole milliseconds, from 1 ms to their size, not by %s",
			w.size, w.advance)
	case w.grace < 0 || w.grace > windowsMax || !whole(w.grace):
		return fmt.Errorf("the grace of windows is whole milliseconds, from 0 to 100 years, not %s", w.grace)
	}
	return nil
}

// spans are Windows in milliseconds.
type spans struct {
	size, advance, grace int64
	// lasts is how long a window takes records behind its beginning, without the grace. That is a
	// millisecond more than the size for windows that include their end.
	lasts int64
}

func (w Windows) spans() spans {
	s := spans{size: w.size.Milliseconds(), advance: w.advance.Milliseconds(), grace: w.grace.Milliseconds()}
	s.lasts = s.size
	if w.sliding {
		s.advance, s.lasts = 1, s.size+1
	}
	return s
}

// first returns the beginning of the oldest window that has ms in it.
func (s spans) first(ms int64) int64 { return max(0, ms-s.size+s.advance) / s.advance * s.advance }

// closing returns the beginning of the youngest window that is closed at a stream time; it is
// negative if none is.
func (s spans) closing(streamTime int64) int64 {
	return floorDiv(streamTime-s.grace-s.lasts, s.advance) * s.advance
}

// Windowed is a key in one window: the key of a table of windows. It is comparable if K is.
type Windowed[K any] struct {
	Key K
	// Start and End are those of the window, in milliseconds since the epoch. End is part of
	// sliding windows and of sessions, whose last record it is the timestamp of. It is not part of
	// tumbling and hopping windows.
	Start, End int64
}

// WindowedCodec returns the codec of windowed keys for topics: the key followed by the beginning of
// the window, as eight bytes, big-endian. It is what Kafka Streams' TimeWindowedSerde writes. The
// size is that of the windows ([Windows.Size]); a key of a window of another size cannot be
// encoded. Its name is "windowed:", the name of the key's codec, "/" and the size in milliseconds.
func WindowedCodec[K any](key schemas.Codec[K], size time.Duration) schemas.Codec[Windowed[K]] {
	if key == nil {
		return nil
	}
	return windowedCodec[K]{key: key, size: size.Milliseconds()}
}

type windowedCodec[K any] struct {
	key  schemas.Codec[K]
	size int64
}

func (c windowedCodec[K]) Name() string { return fmt.Sprintf("windowed:%s/%d", c.key.Name(), c.size) }

const startBytes = 8

func (c windowedCodec[K]) Append(dst []byte, w Windowed[K]) ([]byte, error) {
	if w.Start < 0 || w.End < w.Start || w.End-w.Start != c.size {
		return dst, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpAppend, Offset: -1,
			Reason: "the window has another size, or begins before the epoch",
		}
	}
	b, err := c.key.Append(dst, w.Key)
	if err != nil {
		return dst, innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	return binary.BigEndian.AppendUint64(b, uint64(w.Start)), nil
}

func (c windowedCodec[K]) Decode(b []byte) (Windowed[K], error) {
	n := len(b) - startBytes
	if n < 0 {
		return Windowed[K]{}, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpDecode, Offset: int64(len(b)),
			Reason: "the beginning of the window is missing",
		}
	}
	start := int64(binary.BigEndian.Uint64(b[n:]))
	if start < 0 || start+c.size < start {
		return Windowed[K]{}, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpDecode, Offset: int64(n),
			Reason: "the window begins or ends at a time that there is not",
		}
	}
	key, err := c.key.Decode(b[:n])
	if err != nil {
		return Windowed[K]{}, innerError(c.Name(), schemas.OpDecode, 0, err)
	}
	return Windowed[K]{Key: key, Start: start, End: start + c.size}, nil
}
