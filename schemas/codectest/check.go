package codectest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/onceward/onceward/schemas"
)

// Checks return what is wrong instead of failing a test, so that the suite's own
// tests can show that it catches codecs that are broken in each way.

var prefix = []byte("prefix\x00\xff")

func checkName[T any](codec schemas.Codec[T]) []string {
	if name := codec.Name(); name == "" || name != codec.Name() {
		return []string{fmt.Sprintf("Name is empty or not stable: %q", name)}
	}
	return nil
}

// checkAppend checks Append into slices without, with little and with enough
// room behind their content.
func checkAppend[T any](codec schemas.Codec[T], v T) (problems []string) {
	want, err := codec.Append(nil, v)
	if err != nil {
		return []string{fmt.Sprintf("Append failed: %v", err)}
	}
	for _, room := range []int{0, 1, len(want), len(want) + 64} {
		dst := append(make([]byte, 0, len(prefix)+room), prefix...)
		got, err := codec.Append(dst, v)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("Append failed with %d bytes of room: %v", room, err))
		case !bytes.Equal(dst, prefix) || !bytes.HasPrefix(got, prefix):
			problems = append(problems, fmt.Sprintf("Append changed what dst held (%d bytes of room)", room))
		case !bytes.Equal(got[len(prefix):], want):
			problems = append(problems, "Append gave different bytes for the same value")
		}
	}
	return problems
}

func checkRoundTrip[T any](codec schemas.Codec[T], v T) []string {
	b, err := codec.Append(nil, v)
	if err != nil {
		return []string{fmt.Sprintf("Append failed: %v", err)}
	}
	got, err := codec.Decode(b)
	if err != nil {
		return []string{fmt.Sprintf("Decode of Append failed: %v", err)}
	}
	if !reflect.DeepEqual(got, v) {
		return []string{fmt.Sprintf("Decode of Append gave\n%#v, want\n%#v", got, v)}
	}
	again, err := codec.Append(nil, got)
	if err != nil || !bytes.Equal(again, b) {
		return []string{fmt.Sprintf("Append of Decode gave other bytes, or error %v", err)}
	}
	return nil
}

// checkRetention overwrites the input after Decode, and the output after Append,
// and looks for effects.
func checkRetention[T any](codec schemas.Codec[T], v T) (problems []string) {
	b, err := codec.Append(nil, v)
	if err != nil {
		return []string{fmt.Sprintf("Append failed: %v", err)}
	}
	want, input := bytes.Clone(b), bytes.Clone(b) // b itself may be what Append keeps
	got, err := codec.Decode(input)
	if err != nil {
		return []string{fmt.Sprintf("Decode failed: %v", err)}
	}
	if !bytes.Equal(input, want) {
		problems = append(problems, "Decode changed its input")
	}
	for i := range input {
		input[i] ^= 0xff
	}
	if !reflect.DeepEqual(got, v) {
		problems = append(problems, "Decode kept a reference to its input")
	}
	first, err := codec.Append(nil, v)
	if err != nil {
		return append(problems, fmt.Sprintf("Append failed: %v", err))
	}
	for i := range first {
		first[i] ^= 0xff
	}
	if second, err := codec.Append(nil, v); err != nil || !bytes.Equal(second, want) {
		problems = append(problems, "Append kept a reference to what it returned")
	}
	return problems
}

// checkHostile decodes truncated and corrupted forms of v's encoding. Whether they
// decode is not for the suite to say (a string cut short is a string); that they
// do not panic, leave the input alone and fail properly is.
func checkHostile[T any](codec schemas.Codec[T], v T) (problems []string) {
	b, err := codec.Append(nil, v)
	if err != nil {
		return []string{fmt.Sprintf("Append failed: %v", err)}
	}
	seen := make(map[string]struct{}) // one report of each kind is enough
	for _, input := range corruptions(b) {
		for _, problem := range decodeHostile(codec, input) {
			if _, ok := seen[problem]; !ok {
				seen[problem] = struct{}{}
				problems = append(problems, problem)
			}
		}
	}
	return problems
}

func decodeHostile[T any](codec schemas.Codec[T], input []byte) (problems []string) {
	defer func() {
		if p := recover(); p != nil {
			problems = append(problems, fmt.Sprintf("Decode panicked: %v", p))
		}
	}()
	before := bytes.Clone(input)
	v, err := codec.Decode(input)
	if !bytes.Equal(before, input) {
		problems = append(problems, "Decode changed its input")
	}
	if err != nil {
		if !reflect.ValueOf(&v).Elem().IsZero() {
			problems = append(problems, "Decode gave an error and a value")
		}
		problems = append(problems, checkError(codec.Name(), schemas.OpDecode, len(input), err)...)
	}
	return problems
}

// corruptions returns changed forms of b: cut short; with bytes behind it; with extreme bytes in
// place of the byte at every index; and with the canaries inserted there, bare and as JSON strings.
func corruptions(b []byte) (inputs [][]byte) {
	words := []string{Canary, CanaryNumber, `"` + Canary + `"`, `"` + CanaryNumber + `"`, "-", "\x00", "\xff"}
	for i := 0; i <= len(b); i++ {
		inputs = append(inputs, b[:i:i])
		for _, word := range words {
			inputs = append(inputs, slices.Concat(b[:i], []byte(word), b[i:]))
			inputs = append(inputs, slices.Concat(b[:i], []byte(word)))
		}
		if i == len(b) {
			break
		}
		for _, x := range []byte{0x00, 0x01, 0x7f, 0x80, 0xff} {
			changed := bytes.Clone(b)
			changed[i] = x
			inputs = append(inputs, changed)
		}
	}
	return inputs
}

func checkRefusal[T any](codec schemas.Codec[T], v T) (problems []string) {
	defer func() {
		if p := recover(); p != nil {
			problems = append(problems, fmt.Sprintf("Append panicked: %v", p))
		}
	}()
	for _, room := range []int{0, 256} {
		dst := append(make([]byte, 0, len(prefix)+room), prefix...)
		got, err := codec.Append(dst, v)
		if err == nil {
			return append(problems, "Append took the value")
		}
		if !bytes.Equal(got, prefix) || !bytes.Equal(dst, prefix) {
			problems = append(problems, "Append failed and changed dst")
		}
		problems = append(problems, checkError(codec.Name(), schemas.OpAppend, -1, err)...)
	}
	return problems
}

// checkError checks an error of a codec of the given name; size is the length of
// the input.
func checkError(name, op string, size int, err error) (problems []string) {
	var e *schemas.Error
	if !errors.As(err, &e) {
		return []string{fmt.Sprintf("error is a %T, not a *schemas.Error", err)}
	}
	if e.Codec != name || e.Op != op || e.Reason == "" {
		problems = append(problems, fmt.Sprintf("error names codec %q, operation %q and reason %q",
			e.Codec, e.Op, e.Reason))
	}
	if e.Offset < -1 || e.Offset > int64(size) {
		problems = append(problems, "error has an offset outside the input")
	}
	walk(err, func(err error) {
		text := err.Error() + fmt.Sprintf(" %+v %#v", err, err)
		if strings.Contains(text, Canary) || strings.Contains(text, CanaryNumber) {
			problems = append(problems, fmt.Sprintf("error of type %T quotes the payload: %v", err, err))
		}
	})
	return problems
}

// walk calls f for err and for every error that it wraps.
func walk(err error, f func(error)) {
	f(err)
	switch e := err.(type) { //nolint:errorlint // this is the walk along the chain itself
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			walk(inner, f)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			walk(inner, f)
		}
	}
}

// checkLend compares what a Lender lends with what it decodes. Other codecs have nothing to check.
func checkLend[T any](codec schemas.Codec[T], v T) (problems []string) {
	lender, ok := codec.(schemas.Lender[T])
	if !ok {
		return nil
	}
	b, err := codec.Append(nil, v)
	if err != nil {
		return []string{fmt.Sprintf("Append failed: %v", err)}
	}
	for _, input := range append(corruptions(b), b) {
		before := bytes.Clone(input)
		decoded, decodeErr := codec.Decode(input)
		lent, lendErr := lender.Lend(input)
		switch {
		case !bytes.Equal(before, input):
			return []string{"Lend changed its input"}
		case (decodeErr == nil) != (lendErr == nil) || !reflect.DeepEqual(decoded, lent):
			return []string{"Lend gives something else than Decode"}
		case lendErr != nil:
			problems = append(problems, checkError(codec.Name(), schemas.OpDecode, len(input), lendErr)...)
		}
	}
	return problems
}
