package state_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/state"
)

var errCodec = errors.New("codec")

// text refuses one value, number one length.
type text struct{}

func (text) Append(dst []byte, v string) ([]byte, error) {
	if v == "bad" {
		return dst, errCodec
	}
	return append(dst, v...), nil
}

func (text) Decode(b []byte) (string, error) { return string(b), nil }

type number struct{}

func (number) Append(dst []byte, v uint64) ([]byte, error) {
	if v == 13 {
		return dst, errCodec
	}
	return binary.BigEndian.AppendUint64(dst, v), nil
}

func (number) Decode(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, errCodec
	}
	return binary.BigEndian.Uint64(b), nil
}

func TestKeyValue(t *testing.T) {
	task := newTask(t, "s")
	s := state.NewKeyValue(task.Store("s"), text{}, number{})
	err := errors.Join(s.Put("a", 1), s.Put("c", 3), s.Put("b", 2), s.Put("b", 4), s.Delete("c"))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok, err := s.Get("b"); v != 4 || !ok || err != nil {
		t.Errorf("b is %d, %t, %v", v, ok, err)
	}
	if v, ok, err := s.Get("c"); v != 0 || ok || err != nil {
		t.Errorf("c is %d, %t, %v", v, ok, err)
	}
	if v, present, err := s.PutIfAbsent("b", 9); v != 4 || !present || err != nil {
		t.Errorf("b was %d, %t, %v", v, present, err)
	}
	if v, present, err := s.PutIfAbsent("c", 5); v != 0 || present || err != nil {
		t.Errorf("c was %d, %t, %v", v, present, err)
	}
	var all []state.Pair[string, uint64]
	for p, err := range s.All() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	want := []state.Pair[string, uint64]{{Key: "a", Value: 1}, {Key: "b", Value: 4}, {Key: "c", Value: 5}}
	if !slices.Equal(all, want) {
		t.Errorf("all are %v, want %v", all, want)
	}
	from, err := s.EncodeKey("b")
	if err != nil {
		t.Fatal(err)
	}
	for p, err := range s.Scan(state.Range{From: from, Reverse: true}) {
		if p.Key != "c" || err != nil {
			t.Errorf("the last one is %v, %v", p, err)
		}
		break
	}
}

// TestKeyValueCopiesShareTheBuffer: a copy must not disturb the original's entries.
func TestKeyValueCopiesShareTheBuffer(t *testing.T) {
	task := newTask(t, "s")
	s := state.NewKeyValue(task.Store("s"), text{}, number{})
	c := s
	for i := range uint64(10) {
		digit := string('0' + rune(i))
		if err := errors.Join(s.Put("s"+digit, i), c.Put("c"+digit, i)); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for p, err := range c.All() {
		if err != nil || uint64(p.Key[1]-'0') != p.Value {
			t.Errorf("%v, %v", p, err)
		}
		n++
	}
	if n != 20 {
		t.Errorf("%d entries, want 20", n)
	}
}

func TestKeyValueCodecErrors(t *testing.T) {
	task := newTask(t, "s")
	b := task.Store("s")
	s := state.NewKeyValue(b, text{}, number{})
	mustPut(t, b, "short", "value of another codec")
	_, _, getErr := s.Get("bad")
	_, _, decodeErr := s.Get("short")
	_, _, absentErr := s.PutIfAbsent("bad", 1)
	_, _, presentErr := s.PutIfAbsent("short", 1)
	_, encodeErr := s.EncodeKey("bad")
	var scanErr error
	for _, scanErr = range s.All() {
	}
	for op, err := range map[string]error{
		"get": getErr, "decode": decodeErr, "put key": s.Put("bad", 1), "put value": s.Put("k", 13),
		"put if absent": absentErr, "put if present": presentErr, "delete": s.Delete("bad"), "encode": encodeErr,
		"scan": scanErr,
	} {
		if !errors.Is(err, errCodec) {
			t.Errorf("%s: got %v", op, err)
		}
	}
	if _, ok, _ := b.Get([]byte("k")); ok {
		t.Error("a value that could not be encoded was written")
	}
}

// heldBytes adds up what the short values hold that it is given.
type heldBytes struct {
	state.Bytes
	held int
}

func (b *heldBytes) Put(key, value []byte) error {
	if len(value) < 100 {
		b.held += cap(value)
	}
	return b.Bytes.Put(key, value)
}

// TestShortValuesHoldLittle: a round is bounded by the lengths of its values, which must be about
// what they hold, also where each comes after a long one. The long ones here take each other's
// place: the round stays small.
func TestShortValuesHoldLittle(t *testing.T) {
	const records = 200
	task := newTask(t, "s")
	b := &heldBytes{Bytes: task.Store("s")}
	s := state.NewKeyValue(b, text{}, text{})
	long := strings.Repeat("x", 100<<10)
	for i := range records {
		if err := errors.Join(s.Put("long", long), s.Put(fmt.Sprint("short ", i), "v")); err != nil {
			t.Fatal(err)
		}
	}
	if open := task.OpenBytes(); b.held > open {
		t.Errorf("%d short values hold %d bytes, the whole round says that it holds %d", records, b.held, open)
	}
}
