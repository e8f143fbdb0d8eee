package schemas

import "strconv"

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// number reads the number that begins at the current byte and writes its canonical form. The value
// is (digits of the integer and the fraction) times ten to the (exponent minus length of the
// fraction). Zeros at both ends of the digits are dropped; those at the right end are moved into
// the exponent.
func (c *canonicalizer) number() bool {
	negative := c.src[c.pos] == '-'
	if negative {
		c.pos++
	}
	integer, ok := c.digits()
	if !ok {
		return false
	}
	if integer[0] == '0' && len(integer) > 1 {
		return c.fail(c.pos-len(integer)+1, reasonNumber) // a leading zero
	}
	var fraction []byte
	if c.take('.') {
		if fraction, ok = c.digits(); !ok {
			return false
		}
	}
	var exponent []byte
	negativeExponent := false
	if c.take('e') || c.take('E') {
		if !c.take('+') {
			negativeExponent = c.take('-')
		}
		if exponent, ok = c.digits(); !ok {
			return false
		}
	}

	shift := -len(fraction)
	integer, fraction, zeros := significant(integer, fraction)
	if len(integer)+len(fraction) == 0 {
		c.out = append(c.out, '0') // also for -0 and for 0e9
		return true
	}
	if negative {
		c.out = append(c.out, '-')
	}
	c.out = append(c.out, integer...)
	c.out = append(c.out, fraction...)
	c.out = appendExponent(c.out, negativeExponent, exponent, shift+zeros)
	return true
}

// take consumes b if it is the current byte, and reports whether it was.
func (c *canonicalizer) take(b byte) bool {
	if c.pos < len(c.src) && c.src[c.pos] == b {
		c.pos++
		return true
	}
	return false
}

// digits consumes one or more decimal digits.
func (c *canonicalizer) digits() ([]byte, bool) {
	start := c.pos
	for c.pos < len(c.src) && isDigit(c.src[c.pos]) {
		c.pos++
	}
	if c.pos == start {
		return nil, c.unexpected(reasonNumber)
	}
	return c.src[start:c.pos], true
}

// significant drops the zeros at both ends of the digits of a number. The digits are those of its
// integer part followed by those of its fraction. It returns how many zeros it dropped at the right
// end.
func significant(integer, fraction []byte) (i, f []byte, zeros int) {
	i = trimZeros(integer)
	f = fraction
	if len(i) == 0 {
		f = trimZeros(f)
	}
	for len(f) > 0 && f[len(f)-1] == '0' {
		f = f[:len(f)-1]
		zeros++
	}
	if len(f) > 0 {
		return i, f, zeros
	}
	for len(i) > 0 && i[len(i)-1] == '0' {
		i = i[:len(i)-1]
		zeros++
	}
	return i, f, zeros
}

// trimZeros drops zeros at the left end.
func trimZeros(digits []byte) []byte {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits
}

// smallExponentDigits is how many digits an exponent can have so that it and its
// sum with the length of any input fit an int64.
const smallExponentDigits = 18

// appendExponent appends the exponent (digits, negated if negative) + shift in
// canonical form: nothing if it is zero. |shift| is at most the size of the
// document. Exponents have no limit, and their time is linear in their digits:
// math/big, the obvious tool, parses decimals in quadratic time.
func appendExponent(dst []byte, negative bool, digits []byte, shift int) []byte {
	digits = trimZeros(digits)
	if len(digits) <= smallExponentDigits {
		var e int64
		for _, b := range digits {
			e = e*10 + int64(b-'0')
		}
		if negative {
			e = -e
		}
		if e += int64(shift); e == 0 {
			return dst
		}
		return strconv.AppendInt(append(dst, 'e'), e, 10)
	}
	// The exponent is so far from zero that shift cannot change its sign, and its
	// magnitude changes by shift or by -shift.
	dst = append(dst, 'e')
	if negative {
		dst = append(dst, '-')
		shift = -shift
	}
	start := len(dst)
	dst = append(dst, '0') // for the carry
	dst = append(dst, digits...)
	for i := len(dst) - 1; shift != 0; i-- {
		sum := int(dst[i]-'0') + shift
		digit := (sum%10 + 10) % 10
		dst[i] = byte('0' + digit)
		shift = (sum - digit) / 10
	}
	magnitude := trimZeros(dst[start:])
	return append(dst[:start], magnitude...)
}
