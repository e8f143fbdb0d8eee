package peers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var full = frame{
	kind: kindHello, application: "app", cluster: "c", instance: "i", incarnation: 1 << 63, address: "127.0.0.1:1", memberID: "m",
	ids: []string{"x", "y"}, nonce: bytes.Repeat([]byte{7}, nonceSize), proof: bytes.Repeat([]byte{8}, macSize), code: codeRefused,
	reason: "because", state: stateFenced, age: 1500 * time.Millisecond, by: "z", to: "w", plan: 1 << 62,
}

// TestFramesAreReadAsWritten, with and without a MAC.
func TestFramesAreReadAsWritten(t *testing.T) {
	for _, secured := range []bool{false, true} {
		var w bytes.Buffer
		var in, out *macKey
		if secured {
			in, out = &macKey{key: []byte("k")}, &macKey{key: []byte("k")}
		}
		all := []frame{full, {kind: kindHeartbeat}, {kind: kindQuestion, instance: "é", incarnation: 5}}
		for _, f := range all {
			if err := send(&w, f.body(), out); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range all {
			if got, _, err := receive(&w, in); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v is read as %+v, %v", want, got, err)
			}
		}
		if _, _, err := receive(&w, in); !errors.Is(err, io.EOF) {
			t.Errorf("behind the last frame: %v", err)
		}
	}
}

// TestNewerMinorVersionIsRead: other tags and types are skipped, and so is what follows in a
// number.
func TestNewerMinorVersionIsRead(t *testing.T) {
	body := full.body()
	body[1] = 9
	body = binary.AppendUvarint(body, 1000)
	body = append(body, 2, 'x', 'y')
	body = append(body, tagIncarnation, 9, 0, 0, 0, 0, 0, 0, 0, 4, 'z')
	want := full
	want.incarnation = 4
	if got, err := decode(body); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read as %+v, %v", got, err)
	}
	inWorld(t, names(2), nil, func(w *world) {
		p := w.nodes["b"].Peers
		p.mu.Lock()
		p.broadcast(frame{kind: 99, instance: "a"})
		p.mu.Unlock()
		w.after(time.Second)
		w.wantConnected()
		if s := w.status("b", "a"); s.Suspicions != 0 {
			t.Error("a frame of an unknown type ends the connection")
		}
	})
}

// TestCutFramesAreErrors at every length, and changed ones at every byte.
func TestCutFramesAreErrors(t *testing.T) {
	data := sealed(t, full)
	for n := range data {
		if _, _, err := receive(bytes.NewReader(data[:n]), nil); err == nil {
			t.Errorf("the first %d bytes are a frame", n)
		}
		changed := bytes.Clone(data)
		changed[n] ^= 0x10
		if _, _, err := receive(bytes.NewReader(changed), nil); err == nil {
			t.Errorf("the change of byte %d is not noticed", n)
		}
	}
	body := full.body()
	for n := range body {
		if _, err := decode(body[:n]); err != nil && !errors.Is(err, errFrame) {
			t.Errorf("%d bytes of a body: %v", n, err)
		}
	}
}

func TestReasonsAreCut(t *testing.T) {
	for n := range 4 {
		got := cut(strings.Repeat("x", reasonMax-n) + "ééé")
		if len(got) > reasonMax || !utf8.ValidString(got) || len(got) < reasonMax-1 {
			t.Errorf("cut to %d bytes: %q", len(got), got)
		}
	}
}

// FuzzFrame: whatever comes is an error or a frame that is written and read again as the same.
func FuzzFrame(f *testing.F) {
	for _, seed := range []frame{full, {kind: kindHeartbeat}, {kind: kindReport, instance: "a", state: stateHeard, age: time.Second}} {
		data, err := seal(seed.body(), nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		// The fields are of more interest than the check.
		if len(data) >= headSize {
			if got, err := decode(data); err == nil {
				again, err := decode(got.body())
				if err != nil || !reflect.DeepEqual(again, got.normal()) {
					t.Errorf("%+v is written and read as %+v, %v", got, again, err)
				}
			} else if !errors.Is(err, errFrame) {
				t.Errorf("decode returns %v", err)
			}
		}
		if _, _, err := receive(bytes.NewReader(data), nil); err != nil && !errors.Is(err, errFrame) && !errors.Is(err, errVersion) &&
			!errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("receive returns %v", err)
		}
	})
}

// normal is the frame without what is not written because it is empty.
func (f frame) normal() frame {
	f.ids = slices.DeleteFunc(slices.Clone(f.ids), func(id string) bool { return id == "" })
	if len(f.ids) == 0 {
		f.ids = nil
	}
	if len(f.nonce) == 0 {
		f.nonce = nil
	}
	if len(f.proof) == 0 {
		f.proof = nil
	}
	return f
}

// TestRing: every instance has the watchers that the documentation promises, and watching is
// mutual.
func TestRing(t *testing.T) {
	for n := range 12 {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%02d", i))
		}
		r := newRing(append(all, all...)...)
		want := min(max(n-1, 0), 2*reach)
		for _, a := range all {
			if got := r.watchers(a); len(got) != want || slices.Contains(got, a) {
				t.Errorf("%d instances: %s has the watchers %v, want %d", n, a, got, want)
			}
			for _, b := range all {
				if r.watches(a, b) != r.watches(b, a) || r.watches(a, b) != slices.Contains(r.watchers(a), b) {
					t.Errorf("%d instances: %s and %s do not agree", n, a, b)
				}
			}
		}
	}
	r := newRing(names(7)...)
	if got := r.watchers("f"); !slices.Equal(got, []string{"g", "a", "d", "e"}) {
		t.Errorf("f is fenced by %v in this order", got)
	}
	if r.watches("a", "stranger") || r.watchers("stranger") != nil {
		t.Error("an instance that is not in the ring is watched")
	}
}
