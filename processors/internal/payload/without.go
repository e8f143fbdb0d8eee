package payload

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/onceward/onceward/schemas"
)

// Without are members of a JSON object that are no part of the payload.
type Without []string

const errNoObject = schemas.Reason("the payload is no JSON object")

// hasherWithout hashes the JSON object that codec makes of the value, without the members of those
// canonical names.
func hasherWithout[K, V any](codec schemas.Codec[V], without [][]byte) Hasher[K, V] {
	var canonical []byte
	return encodedHasher[K](codec, func(b []byte) ([32]byte, error) {
		form, err := schemas.CanonicalJSON(canonical[:0], b)
		if err != nil {
			return [32]byte{}, err
		}
		if cap(form) <= scratchBytesMax {
			canonical = form
		}
		if form[0] != '{' {
			return [32]byte{}, errNoObject
		}
		return sha256.Sum256(withoutMembers(form, without)), nil
	})
}

// canonical returns the names as they are written in a canonical form, quotes included. A name that
// is not valid UTF-8 is that of no member.
func (w Without) canonical() (names [][]byte, err error) {
	for _, name := range w {
		if !utf8.ValidString(name) {
			continue
		}
		text, err := json.Marshal(name)
		if err == nil {
			text, err = schemas.CanonicalJSON(nil, text)
		}
		if err != nil {
			return nil, fmt.Errorf("PayloadWithout: the name of a member has no JSON form: %w", err)
		}
		names = append(names, text)
	}
	return names, nil
}

// withoutMembers returns a JSON object in canonical form without the members of those names, in the
// memory of form. It is in canonical form too: the order of the members, and how each is written,
// do not depend on the others.
func withoutMembers(form []byte, names [][]byte) []byte {
	kept := form[:1]
	for at := 1; at < len(form)-1; {
		colon := textEnd(form, at)
		end := valueEnd(form, colon+1)
		if !isAmong(names, form[at:colon]) {
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(kept, form[at:end]...)
		}
		at = end + 1 // behind the comma, or the end of the object
	}
	return append(kept, '}')
}

func isAmong(names [][]byte, name []byte) bool {
	for _, n := range names {
		if bytes.Equal(n, name) {
			return true
		}
	}
	return false
}

// textEnd returns where the string ends that begins at from.
func textEnd(form []byte, from int) int {
	for i := from + 1; ; i++ {
		switch form[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// valueEnd returns where the value of a member ends that begins at from: at the comma behind it, or
// at the end of the object.
func valueEnd(form []byte, from int) int {
	depth := 0
	for i := from; ; i++ {
		switch form[i] {
		case '"':
			i = textEnd(form, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
}
