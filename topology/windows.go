package topology

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
)

// Windows are spans of event time of one size, each with a beginning that is included and an end that is not.
// They begin at multiples of the advance, counted from the epoch; none begins before it. A record belongs to
// every window that its timestamp is in. It is made with [Tumbling] or [Hopping], and is a value.
type Windows struct{ size, advance, grace time.Duration }

// Tumbling returns windows of that size, one after the other, so that a record is in exactly one.
func Tumbling(size time.Duration) Windows { return Windows{size: size, advance: size} }

// Hopping returns windows of that size that begin every advance. They overlap if the advance is smaller than
// the size; it cannot be larger.
func Hopping(size, advance time.Duration) Windows { return Windows{size: size, advance: advance} }

// Grace returns w with time for late records: a window takes records until the stream time of its node is
// that long behind its end. The default is none.
func (w Windows) Grace(grace time.Duration) Windows {
	w.grace = grace
	return w
}

// Size returns how long a window is.
func (w Windows) Size() time.Duration { return w.size }

// Retention returns how long the store of such windows has to keep one at least: its size and the grace. It
// is made for the last argument of [WindowStore].
func (w Windows) Retention() time.Duration { return w.size + w.grace }

// String returns size, advance and grace; two windows of the same string are the same.
func (w Windows) String() string {
	return fmt.Sprintf("size %s, advance %s, grace %s", w.size, w.advance, w.grace)
}

// windowsMax is the longest size and the longest grace. It keeps sums of them with any timestamp in range.
const windowsMax = 100 * 365 * 24 * time.Hour

func (w Windows) check() error {
	whole := func(d time.Duration) bool { return d%time.Millisecond == 0 }
	switch {
	case w == Windows{}:
		return errors.New("the windows have no size; Tumbling and Hopping make windows")
	case w.size < time.Millisecond || w.size > windowsMax || !whole(w.size):
		return fmt.Errorf("the size of a window is whole milliseconds, from 1 ms to 100 years, not %s", w.size)
	case w.advance < time.Millisecond || w.advance > w.size || !whole(w.advance):
		return fmt.Errorf("windows of %s advance by whole milliseconds, from 1 ms to their size, not by %s",
			w.size, w.advance)
	case w.grace < 0 || w.grace > windowsMax || !whole(w.grace):
		return fmt.Errorf("the grace of windows is whole milliseconds, from 0 to 100 years, not %s", w.grace)
	}
	return nil
}

// spans are Windows in milliseconds.
type spans struct{ size, advance, grace int64 }

func (w Windows) spans() spans {
	return spans{w.size.Milliseconds(), w.advance.Milliseconds(), w.grace.Milliseconds()}
}

// first returns the beginning of the oldest window that has ms in it.
func (s spans) first(ms int64) int64 { return max(0, ms-s.size+s.advance) / s.advance * s.advance }

// closing returns the beginning of the youngest window that is closed at a stream time; it is negative if
// none is.
func (s spans) closing(streamTime int64) int64 {
	return floorDiv(streamTime-s.grace-s.size, s.advance) * s.advance
}

// Windowed is a key in one window: the key of a table of windows. It is comparable if K is.
type Windowed[K any] struct {
	Key K
	// Start and End are those of the window, in milliseconds since the epoch. End is not part of it, except where it is
	// that of a session: the timestamp of its last record.
	Start, End int64
}

// WindowedCodec returns the codec of windowed keys for topics: the key followed by the beginning of the
// window, as eight bytes, big-endian. It is what Kafka Streams' TimeWindowedSerde writes. The size is that of
// the windows; a key of a window of another size cannot be encoded. Its name is "windowed:", the name of the
// key's codec, "/" and the size in milliseconds.
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
