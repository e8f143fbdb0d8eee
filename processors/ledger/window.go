package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/onceward/onceward/processors/internal/declare"
	"github.com/onceward/onceward/processors/internal/identity"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// Window is the key of a ledger for a time: what was contributed to Key from Start on.
type Window[K any] struct {
	Key K `json:"key"`
	// Start is in milliseconds since the epoch.
	Start int64 `json:"start"`
}

// Windows divides the time, from the epoch on, into windows that all have the same length.
type Windows struct {
	// Size is the length of a window, and Advance the time from the start of one to that of the
	// next; both in whole milliseconds, and Size a multiple of Advance.
	Size, Advance time.Duration
}

// Tumbling returns windows that follow each other, so that every time is in one of them.
func Tumbling(size time.Duration) Windows { return Windows{Size: size, Advance: size} }

// windowsMax is in how many windows a time can be: a record is posted to each of them.
const windowsMax = 1000

func (w Windows) check() error {
	switch {
	case w.Advance < time.Millisecond || w.Advance%time.Millisecond != 0 || w.Size%time.Millisecond != 0:
		return fmt.Errorf("windows of %s every %s: both must be whole milliseconds, at least one", w.Size, w.Advance)
	case w.Size < w.Advance || w.Size%w.Advance != 0:
		return fmt.Errorf("windows of %s every %s: the size must be a multiple of the advance", w.Size, w.Advance)
	case w.Size/w.Advance > windowsMax:
		return fmt.Errorf("windows of %s every %s: a record would be in %d of them, %d are allowed", w.Size, w.Advance,
			w.Size/w.Advance, windowsMax)
	}
	return nil
}

// step returns by how much windows that overlap advance in milliseconds; 0 for others.
func (w Windows) step() int64 {
	if w.Size == w.Advance {
		return 0
	}
	return w.Advance.Milliseconds()
}

// EventTime gives the time, in milliseconds since the epoch, by which [PostWindowed] chooses the
// windows of a record. It has to be a fact of the record: with another time, a record that comes
// again would be in another window and count twice. The default is the record's timestamp, which is
// such a fact where copies keep it. Its error, and a negative time, is of class Validation unless
// it has a class. K and V must be the types of the stream.
func EventTime[K, V any](f func(r topology.Record[K, V]) (int64, error)) Option {
	return func(s *settings) error {
		if f == nil || s.eventTime != nil {
			return errors.New("EventTime: the function is nil, or is given twice")
		}
		s.eventTime = timeReader[K, V](f)
		return nil
	}
}

type timeReader[K, V any] func(r topology.Record[K, V]) (int64, error)

const errEventTime = schemas.Reason("the event time is negative")

// PostWindowed declares a ledger for each key and window: a record is posted to every window that
// its time is in, as [Post] posts it to its key. So the windows count facts and not deliveries, in
// whatever order these come, and a correction or reversal is posted to the windows of its own time,
// where it must find what it names. The name is that of the ledger; the windows are chosen by a
// node of their own, <name>-windows. [WindowCodec] is the codec of the keys that come out.
//
// If windows overlap, a contribution that comes again with a time in other windows fails
// (Conflict), even if conflicts are emitted. Otherwise it would be posted only to the windows that
// do not have it.
//
// Windows do not close, and their contributions stay: whatever comes late counts.
func PostWindowed[K, V any](
	s topology.Stream[K, V], name string, windows Windows,
	contribution func(r topology.Record[K, V]) (Contribution, error), opts ...Option,
) Ledger[Window[K], V] {
	set := newSettings(opts)
	set.windows = windows
	set.Mistake(windows.check())
	if contribution == nil {
		set.Mistake(errNilContribution)
	}
	timeOf, ok := set.eventTime.(timeReader[K, V])
	switch {
	case set.eventTime == nil:
		timeOf = func(r topology.Record[K, V]) (int64, error) { return r.Timestamp, nil }
	case !ok:
		set.Mistake(fmt.Errorf("EventTime: the function is for other types than those of the stream, whose keys are %s and "+
			"values %s", reflect.TypeFor[K](), reflect.TypeFor[V]()))
	}
	var windowKeys schemas.Codec[Window[K]]
	keys, err := identity.KeyCodec[K](set.Keys)
	set.Mistake(err)
	if err == nil {
		windowKeys = WindowCodec(keys)
	}
	read := reader[Window[K], V]{
		contribution: func(r topology.Record[Window[K], V]) (Contribution, error) {
			return contribution(topology.WithKey(r, r.Key.Key))
		},
		timeOf: func(r topology.Record[Window[K], V]) (int64, error) {
			return timeOf(topology.WithKey(r, r.Key.Key))
		},
		newHasher: ofWindows(hasherFor[K, V](set)),
	}
	return post(windowed(s, name, set, timeOf), name, read, set, windowKeys)
}

// windowed returns the records of s once for each of their windows, whose key they have. No
// operator of the topology could do that, because the windows of a key are where the key is: in one
// task, unless the key itself was changed before.
func windowed[K, V any](
	s topology.Stream[K, V], name string, set *settings, timeOf timeReader[K, V],
) topology.Stream[Window[K], V] {
	node := topology.Stateful(s, name+"-windows").Copartitioned()
	declare.React(node, &set.Common)
	out := topology.Outlet[Window[K], V](node, "out")
	null := identity.Null[K]()
	size, advance := set.windows.Size.Milliseconds(), set.windows.Advance.Milliseconds()
	node.Process(func(t *topology.Setup) (topology.Handler[K, V], error) {
		emit := out.In(t)
		return func(c *topology.Context, r topology.Record[K, V]) error {
			if null(r.Key) {
				return identity.NullKey()
			}
			ms, err := timeOf(r)
			if err != nil {
				return identity.Refused(err)
			}
			if ms < 0 {
				return topology.Fail(topology.Validation, errEventTime)
			}
			for start := max(ms-ms%advance-size+advance, 0); start <= ms; start += advance {
				if err := emit(c, topology.WithKey(r, Window[K]{Key: r.Key, Start: start})); err != nil {
					return err
				}
			}
			return nil
		}, nil
	})
	return out.Stream()
}

// WindowCodec returns the codec of windows: the start in 8 bytes, big-endian, and the key. So the
// windows of a store lie in the order of time. Its name is "ledger-window-1:" and the name of keys.
func WindowCodec[K any](keys schemas.Codec[K]) schemas.Codec[Window[K]] { return windowCodec[K]{keys} }

const windowStartBytes = 8

type windowCodec[K any] struct{ keys schemas.Codec[K] }

func (c windowCodec[K]) Name() string { return "ledger-window-1:" + c.keys.Name() }

func (c windowCodec[K]) Append(dst []byte, w Window[K]) ([]byte, error) {
	if w.Start < 0 {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "the window starts before the epoch")
	}
	b, err := c.keys.Append(binary.BigEndian.AppendUint64(dst, uint64(w.Start)), w.Key)
	if err != nil {
		return dst, codecError(c.Name(), schemas.OpAppend, -1, "the key: "+schemas.ReasonOf(err))
	}
	return b, nil
}

func (c windowCodec[K]) Decode(b []byte) (w Window[K], err error) {
	if len(b) < windowStartBytes {
		return w, codecError(c.Name(), schemas.OpDecode, len(b), "the window is too short")
	}
	if w.Start = int64(binary.BigEndian.Uint64(b)); w.Start < 0 {
		return Window[K]{}, codecError(c.Name(), schemas.OpDecode, 0, "the window starts before the epoch")
	}
	if w.Key, err = c.keys.Decode(b[windowStartBytes:]); err != nil {
		return Window[K]{}, codecError(c.Name(), schemas.OpDecode, windowStartBytes, "the key: "+schemas.ReasonOf(err))
	}
	return w, nil
}
