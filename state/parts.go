package state

import "fmt"

// Parts is a row taken apart, for tools that show rows: what the store's codecs have made, and the
// times that the layout keeps beside it, in milliseconds since the epoch. A time that the layout
// does not have is NoTime.
type Parts struct {
	// Key is what the key codec has made. Rows of one key can be many: those of a window store, for
	// instance.
	Key []byte
	// Value is what the value codec has made, nil for a version that says that the key was deleted.
	Value []byte
	// Start is that of a window or a session, End that of a session.
	Start, End int64
	// Time is that of a timestamped value, of the value of a window, or of an id.
	Time int64
	// ValidFrom is where a version begins.
	ValidFrom int64
}

// Parts takes a row apart. Key and Value are parts of the arguments. The error wraps ErrCorrupt for
// a row that this layout cannot have.
func (l Layout) Parts(key, value []byte) (Parts, error) {
	if value == nil {
		value = []byte{} // the row is there
	}
	r, err := l.Record(Write{Key: key, Value: value})
	if err != nil {
		return Parts{}, fmt.Errorf("taking a row apart: %w", err)
	}
	p := Parts{Key: r.Key, Value: r.Value, Start: NoTime, End: NoTime, Time: NoTime, ValidFrom: NoTime}
	switch l.Kind {
	case KeyValueKind:
	case TimestampedKind, DedupeKind:
		p.Time = r.Timestamp
	case WindowKind:
		p.Time = r.Timestamp
		p.Key, p.Start = cutWindow(r.Key)
	case SessionKind:
		p.Key, p.Start, p.End = cutSession(r.Key)
	case SeriesKind:
		p.Key, p.Time, _ = cutSeries(r.Key)
	case VersionedKind:
		p.ValidFrom = r.Timestamp
	}
	return p, nil
}
