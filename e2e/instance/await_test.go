package instance

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// fatalTB notes how a test was to fail.
type fatalTB struct {
	testing.TB
	said string
}

func (f *fatalTB) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	panic(f)
}

// TestAwait: what has come counts also when nobody is left, and what cannot come any more is not
// waited for.
func TestAwait(t *testing.T) {
	gone := errors.New("nobody is left")
	for _, test := range []struct {
		alive error
		after int // looks
		fails bool
	}{{nil, 0, false}, {nil, 3, false}, {gone, 0, false}, {gone, 1, true}} {
		f, looks := &fatalTB{TB: t}, 0
		func() {
			defer func() {
				if p := recover(); p != nil && p != f {
					panic(p)
				}
			}()
			Await(f, "the end", func() error { return test.alive }, func() error {
				if looks++; looks <= test.after {
					return errors.New("it lacks something")
				}
				return nil
			})
		}()
		if fails := f.said != ""; fails != test.fails || looks > test.after+1 {
			t.Errorf("%+v: %d looks, and %q", test, looks, f.said)
		}
		if test.fails && (!strings.Contains(f.said, gone.Error()) || !strings.Contains(f.said, "it lacks something")) {
			t.Errorf("%+v: it has failed with %q", test, f.said)
		}
	}
}

func TestClosed(t *testing.T) {
	c := make(chan struct{})
	if Closed(c) {
		t.Error("what is open is closed")
	}
	if close(c); !Closed(c) {
		t.Error("what is closed is open")
	}
}
