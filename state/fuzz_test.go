package state_test

import (
	"errors"
	"iter"
	"math"
	"testing"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// FuzzStoredRows: whatever row is in a database, reading it by a typed store or taking it apart
// ends with what it is or with ErrCorrupt. The rows of a store are checked when they are written:
// these are those of a disk that lies, or of another program.
func FuzzStoredRows(f *testing.F) {
	const minute = "\x00\x00\x00\x00\x00\x00\xea\x60"
	f.Add(byte(0), []byte("k"), []byte("v"))
	f.Add(byte(1), []byte("k"), []byte(minute+"v"))
	f.Add(byte(1), []byte("k"), []byte("short"))
	f.Add(byte(2), []byte("\x00\x00\x00\x00k"+minute+"\x00\x00\x00\x00"), []byte(minute+"v"))
	f.Add(byte(2), []byte("\x00\x00\x00\x00k"), []byte{})
	f.Add(byte(3), []byte("\x00\x00\x00\x00k"+minute+minute), []byte("v"))
	f.Add(byte(3), []byte("\x00"), []byte("v"))
	f.Add(byte(4), []byte("k"+minute), []byte("\x01v"))
	f.Add(byte(4), []byte("k"), []byte{})
	f.Add(byte(5), []byte("\x00\x00\x00\x00k"), []byte(minute+"v"))
	f.Add(byte(5), []byte{}, []byte{})
	f.Add(byte(6), []byte("\x00\x00\x00\x00k"+minute+"\x00\x00\x00\x01"), []byte("v"))
	f.Add(byte(6), []byte("\x00\x00\x00\x00k"), []byte{})
	f.Fuzz(func(t *testing.T, kind byte, key, value []byte) {
		l := layouts[int(kind)%len(layouts)]
		for err := range readings(t, l, key, value) {
			if err != nil && !errors.Is(err, state.ErrCorrupt) {
				t.Fatalf("%s: the row %q = %q: %v", l, key, value, err)
			}
		}
		if _, err := l.Parts(key, value); err != nil && !errors.Is(err, state.ErrCorrupt) {
			t.Fatalf("%s: the parts of %q = %q: %v", l, key, value, err)
		}
		if _, err := l.RowTime(state.Write{Key: key, Value: value}); err != nil && !errors.Is(err, state.ErrCorrupt) {
			t.Fatalf("%s: the time of %q = %q: %v", l, key, value, err)
		}
	})
}

// readings yields what each way to read a store with this one row ends with.
func readings(t *testing.T, l state.Layout, key, value []byte) iter.Seq[error] {
	t.Helper()
	db := memstore.New()
	declaration := state.Declaration{Name: "s", Layout: l}
	task, err := state.NewTask(db, []state.Declaration{declaration})
	if err == nil {
		err = db.Apply(state.Positions{}, state.Positions{Round: state.RoundID{ProducerID: 1}}, func(yield func(state.Write) bool) {
			yield(state.Write{Store: state.IDOf("s"), Key: key, Value: value})
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	b := task.Store("s")
	b.Advance(70_000)
	return func(yield func(error) bool) {
		readAll(l, b, func(err error) { yield(err) })
		if err := task.Close(); err != nil {
			t.Error(err)
		}
	}
}

// readAll reads a store in every way that its kind has, for the key "k" and for all.
func readAll(l state.Layout, b state.Bytes, ends func(error)) {
	backward := state.Range{Reverse: true}
	switch l.Kind {
	case state.KeyValueKind:
		s := state.NewKeyValue(b, text{}, text{})
		_, _, err := s.Get("k")
		ends(err)
		ends(errorOf(s.All()))
		ends(errorOf(s.Scan(backward)))
	case state.TimestampedKind:
		s := state.NewTimestamped(b, text{}, text{})
		_, _, _, err := s.Get("k")
		ends(err)
		ends(errorOf(s.All()))
		ends(errorOf(s.Scan(backward)))
	case state.WindowKind:
		s := state.NewWindow(b, text{}, text{}, l)
		_, _, _, err := s.Get("k", 60_000)
		ends(err)
		ends(errorOf(s.Fetch("k", 0, math.MaxInt64)))
		ends(errorOf(s.FetchReverse("k", 0, math.MaxInt64)))
		ends(errorOf(s.All(0, math.MaxInt64)))
		ends(errorOf(s.Scan(backward, 0, math.MaxInt64)))
	case state.SessionKind:
		s := state.NewSession(b, text{}, text{}, l)
		_, _, err := s.Get("k", 60_000, 60_000)
		ends(err)
		ends(errorOf(s.Fetch("k")))
		ends(errorOf(s.FetchReverse("k")))
		ends(errorOf(s.Find("k", 0, math.MaxInt64)))
		ends(errorOf(s.All()))
		ends(errorOf(s.Scan(backward, 0, math.MaxInt64)))
	case state.SeriesKind:
		s := state.NewSeries(b, text{}, text{}, l)
		_, _, err := s.Get("k", 60_000, 1)
		ends(err)
		ends(errorOf(s.Fetch("k", 0, math.MaxInt64)))
	case state.VersionedKind:
		s := state.NewVersioned(b, text{}, text{}, l)
		_, _, _, err := s.Get("k")
		ends(err)
		_, _, _, err = s.GetAsOf("k", 60_000)
		ends(err)
		ends(errorOf(s.History("k", 0, math.MaxInt64)))
		ends(errorOf(s.HistoryReverse("k", 0, math.MaxInt64)))
		ends(errorOf(s.All()))
		ends(errorOf(s.Scan(backward)))
	case state.DedupeKind:
		s := state.NewDedupe(b, text{}, text{}, l)
		_, _, err := s.Lookup("k")
		ends(err)
		ends(errorOf(s.All()))
		ends(errorOf(s.Scan(backward)))
	}
}

// errorOf reads a scan to its end.
func errorOf[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}
