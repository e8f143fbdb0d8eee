package topology

import (
	"time"

	"github.com/onceward/onceward/schemas"
)

// WindowedTextCodec returns the codec of windowed keys for topics that people read: the key, "@",
// the beginning of the window, "/", and its end. The times are in UTC, in the form of RFC 3339 with
// milliseconds. It takes windows and sessions of any size that end before the year 10000. Choose a
// key codec that writes text. Its name is "windowed-text:" and the name of the key's codec.
//
// [WindowedCodec] and [SessionCodec] are shorter, and what the tools of Kafka Streams read.
func WindowedTextCodec[K any](key schemas.Codec[K]) schemas.Codec[Windowed[K]] {
	if key == nil {
		return nil
	}
	return windowedTextCodec[K]{key}
}

type windowedTextCodec[K any] struct{ key schemas.Codec[K] }

const (
	windowTime = "2006-01-02T15:04:05.000Z"
	// windowText is how long the text behind the key is.
	windowText = len("@") + len(windowTime) + len("/") + len(windowTime)
)

// windowTextEnd is the first time that does not fit.
var windowTextEnd = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

func (c windowedTextCodec[K]) Name() string { return "windowed-text:" + c.key.Name() }

func (c windowedTextCodec[K]) Append(dst []byte, w Windowed[K]) ([]byte, error) {
	if w.Start < 0 || w.End < w.Start || w.End >= windowTextEnd {
		return dst, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpAppend, Offset: -1,
			Reason: "the window begins before the epoch, ends before it begins, or ends after the year 9999",
		}
	}
	b, err := c.key.Append(dst, w.Key)
	if err != nil {
		return dst, innerError(c.Name(), schemas.OpAppend, 0, err)
	}
	b = time.UnixMilli(w.Start).UTC().AppendFormat(append(b, '@'), windowTime)
	return time.UnixMilli(w.End).UTC().AppendFormat(append(b, '/'), windowTime), nil
}

func (c windowedTextCodec[K]) Decode(b []byte) (Windowed[K], error) {
	n := len(b) - windowText
	if n < 0 || b[n] != '@' || b[n+1+len(windowTime)] != '/' {
		return Windowed[K]{}, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpDecode, Offset: int64(max(n, 0)), Reason: "the times of the window are missing",
		}
	}
	start, startOK := readWindowTime(b[n+1 : n+1+len(windowTime)])
	end, endOK := readWindowTime(b[n+2+len(windowTime):])
	if !startOK || !endOK || start < 0 || end < start {
		return Windowed[K]{}, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpDecode, Offset: int64(n),
			Reason: "the times of the window cannot be read, or the window begins before the epoch or ends before it begins",
		}
	}
	key, err := c.key.Decode(b[:n])
	if err != nil {
		return Windowed[K]{}, innerError(c.Name(), schemas.OpDecode, 0, err)
	}
	return Windowed[K]{Key: key, Start: start, End: end}, nil
}

// readWindowTime reads a time. A key has one form only, so other forms of the time are refused.
func readWindowTime(b []byte) (ms int64, ok bool) {
	t, err := time.Parse(windowTime, string(b))
	return t.UnixMilli(), err == nil && t.Format(windowTime) == string(b)
}
