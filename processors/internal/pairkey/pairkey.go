// Package pairkey makes one key of a store out of two parts, so that no key is the beginning of
// another one, and keys are in the order of the first part and then of the second.
//
// The first part may be any bytes. Each byte 00 in it is written as 00 FF, and 00 01 ends it; the
// second part follows as it is.
//
// The functions keep nothing and are safe for concurrent use.
package pairkey

import "bytes"

const (
	zero    = 0x00
	literal = 0xff // after zero: a zero of the first part
	end     = 0x01 // after zero: the end of the first part
)

// Seal makes b[from:] the first part of a key, in place as far as the room behind b goes. What the
// caller appends to the result is the second part.
func Seal(b []byte, from int) []byte {
	if n := bytes.Count(b[from:], []byte{zero}); n > 0 {
		read := len(b) - 1
		for range n {
			b = append(b, literal)
		}
		// From the end, so that nothing is overwritten before it was read; it is done where both
		// meet.
		for write := len(b) - 1; write > read; read-- {
			if b[read] == zero {
				b[write] = literal
				write--
			}
			b[write] = b[read]
			write--
		}
	}
	return append(b, zero, end)
}

// Split takes a key apart; ok is false if Seal has not made it. The first part may share memory
// with b, the second always does.
func Split(b []byte) (first, second []byte, ok bool) {
	escaped := false
	for at := 0; ; {
		i := bytes.IndexByte(b[at:], zero)
		if i < 0 || at+i+1 == len(b) {
			return nil, nil, false
		}
		i += at
		switch b[i+1] {
		case literal:
			escaped = true
			at = i + 2
		case end:
			if first = b[:i:i]; escaped {
				first = bytes.ReplaceAll(first, []byte{zero, literal}, []byte{zero})
			}
			return first, b[i+2:], true
		default:
			return nil, nil, false
		}
	}
}
