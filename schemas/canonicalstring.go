package schemas

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads the string that begins at the current byte, writes its canonical
// form and returns its unescaped text. If the string has escapes, that text is the
// new end of c.unescaped, and otherwise a part of src.
func (c *canonicalizer) text() (unescaped []byte, ok bool) {
	start := c.pos + 1
	end, escaped, ok := c.closingQuote(start)
	if !ok {
		return nil, false
	}
	c.pos = end + 1
	if !escaped {
		// Nothing in it needs an escape either: quotes, backslashes and control
		// characters cannot stand in a string unescaped.
		c.out = append(c.out, c.src[start-1:end+1]...)
		return c.src[start:end], true
	}
	mark := len(c.unescaped)
	if !c.unescape(start, end) {
		return nil, false
	}
	unescaped = c.unescaped[mark:]
	c.out = appendQuoted(c.out, unescaped)
	return unescaped, true
}

// closingQuote returns the index of the quote that ends the string whose content
// begins at start, and whether there are escapes before it. It checks UTF-8 and
// control characters, but not what follows a backslash.
func (c *canonicalizer) closingQuote(start int) (end int, escaped, ok bool) {
	for i := start; i < len(c.src); {
		switch b := c.src[i]; {
		case b == '"':
			return i, escaped, true
		case b == '\\':
			escaped = true
			i += 2
		case b < 0x20:
			return 0, false, c.fail(i, reasonControl)
		case b < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRune(c.src[i:])
			if r == utf8.RuneError && size == 1 {
				return 0, false, c.fail(i, reasonUTF8)
			}
			i += size
		}
	}
	return 0, false, c.fail(len(c.src), reasonEnd)
}

// unescape appends the text of src[start:end], the content of a string, to
// c.unescaped.
func (c *canonicalizer) unescape(start, end int) bool {
	rest := c.src[start:end]
	for {
		i := bytes.IndexByte(rest, '\\')
		if i < 0 {
			c.unescaped = append(c.unescaped, rest...)
			return true
		}
		c.unescaped = append(c.unescaped, rest[:i]...)
		rest = rest[i:]
		at := end - len(rest)
		if rest[1] != 'u' { // closingQuote took two bytes, so there are two
			b := unescapedByte(rest[1])
			if b == 0 {
				return c.fail(at, reasonEscape)
			}
			c.unescaped = append(c.unescaped, b)
			rest = rest[2:]
			continue
		}
		r, size := escapedRune(rest)
		if size == 0 {
			return c.fail(at, reasonEscape)
		}
		if utf16.IsSurrogate(r) {
			return c.fail(at, reasonSurrogate)
		}
		c.unescaped = utf8.AppendRune(c.unescaped, r)
		rest = rest[size:]
	}
}

// unescapedByte returns what a backslash and b stand for, or 0 if nothing.
func unescapedByte(b byte) byte {
	switch b {
	case '"', '\\', '/':
		return b
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return 0
	}
}

// escapedRune returns the character of the \uxxxx sequence at the beginning of s, or of two such
// sequences that are a surrogate pair. It also returns the length of the sequence: 0 if s does not
// begin with one. A surrogate that is not half of a pair is returned as it is.
func escapedRune(s []byte) (r rune, size int) {
	r, ok := codeUnit(s)
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		if low, ok := codeUnit(s[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12
			}
		}
	}
	return r, 6
}

// codeUnit returns the number of the \uxxxx sequence that s begins with.
func codeUnit(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, b := range s[2:6] {
		switch {
		case isDigit(b):
			b -= '0'
		case 'a' <= b && b <= 'f':
			b -= 'a' - 10
		case 'A' <= b && b <= 'F':
			b -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(b)
	}
	return r, true
}

// appendQuoted appends text as a canonical JSON string.
func appendQuoted(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, b := range text {
		switch b {
		case '"', '\\':
			dst = append(dst, '\\', b)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			if b < 0x20 {
				dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
			} else {
				dst = append(dst, b)
			}
		}
	}
	return append(dst, '"')
}

// loneSurrogate returns the index of the first escape sequence in the document b
// that is half a surrogate pair without the other half, or -1. It needs no parser:
// a backslash outside a string is malformed anyway.
func loneSurrogate(b []byte) int {
	for i := 0; ; {
		next := bytes.IndexByte(b[i:], '\\')
		if next < 0 {
			return -1
		}
		i += next
		r, size := escapedRune(b[i:])
		if utf16.IsSurrogate(r) {
			return i
		}
		if i += max(size, 2); i >= len(b) {
			return -1
		}
	}
}
