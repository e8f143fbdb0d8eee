package ledger

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/onceward/onceward/schemas"
)

// Decimal is an exact decimal number: Units, divided by 10 to the power of Scale, which is the
// number of places behind the point. The zero Decimal is 0. Numbers that are equal can have several
// forms, such as 1.5 and 1.50; [Decimal.In] makes one form of them.
type Decimal struct {
	Units int64
	Scale uint8
}

// ScaleMax is the largest number of places behind the point.
const ScaleMax = 18

// The reasons for which a text, or a number in some scale, is no Decimal. They quote nothing of it.
const (
	errDecimal       = schemas.Reason("not a decimal number")
	errDecimalPlaces = schemas.Reason("the number has more places behind the point than there are")
	errDecimalRange  = schemas.Reason("the number is outside the range of 64 bits")
)

// ParseDecimal reads a number as JSON writes it: digits, with a minus before them, a point between
// them or an exponent behind them. Nothing is rounded: what does not fit is an error, of type
// schemas.Reason.
func ParseDecimal(text string) (Decimal, error) {
	mantissa, exponent := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		n, err := strconv.Atoi(text[i+1:]) // takes a sign, as JSON does
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return Decimal{}, errDecimal
		}
		// One that is larger still is as bad as this, and must not overflow in what follows.
		exponent = min(max(n, -math.MaxInt32), math.MaxInt32)
	}
	digits, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, point := strings.Cut(digits, ".")
	switch {
	case whole == "" || point && fraction == "" || !allDigits(whole) || !allDigits(fraction):
		return Decimal{}, errDecimal
	case len(whole) > 1 && whole[0] == '0': // 007 is no number to JSON, and octal to others
		return Decimal{}, errDecimal
	}
	digits = strings.TrimLeft(whole+fraction, "0")
	places := len(fraction) - exponent
	if places > ScaleMax { // only zeros can be left out
		kept := max(len(digits)-(places-ScaleMax), 0)
		if strings.Trim(digits[kept:], "0") != "" {
			return Decimal{}, errDecimalPlaces
		}
		digits, places = digits[:kept], ScaleMax
	}
	if digits == "" {
		return Decimal{Scale: uint8(max(places, 0))}, nil
	}
	if places < 0 {
		if -places > ScaleMax {
			return Decimal{}, errDecimalRange
		}
		digits, places = digits+strings.Repeat("0", -places), 0
	}
	if negative {
		digits = "-" + digits
	}
	units, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return Decimal{}, errDecimalRange
	}
	return Decimal{Units: units, Scale: uint8(places)}, nil
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// In returns the number in units of that scale: 1.5 is 150 in a scale of 2. It is an error, of type
// schemas.Reason, if the number has more places than that or leaves the range of 64 bits. It never
// rounds.
func (d Decimal) In(scale uint8) (units int64, err error) {
	if d.Scale > ScaleMax || scale > ScaleMax {
		return 0, errDecimalPlaces
	}
	units = d.Units
	for s := d.Scale; s > scale; s-- {
		if units%10 != 0 {
			return 0, errDecimalPlaces
		}
		units /= 10
	}
	for s := d.Scale; s < scale; s++ {
		if units > math.MaxInt64/10 || units < math.MinInt64/10 {
			return 0, errDecimalRange
		}
		units *= 10
	}
	return units, nil
}

// String returns the number with as many places behind the point as its scale: -0.05, or 12.30.
func (d Decimal) String() string {
	text := strconv.FormatInt(d.Units, 10)
	if d.Scale == 0 {
		return text
	}
	digits, negative := strings.CutPrefix(text, "-")
	if zeros := int(d.Scale) + 1 - len(digits); zeros > 0 {
		digits = strings.Repeat("0", zeros) + digits
	}
	point := len(digits) - int(d.Scale)
	text = digits[:point] + "." + digits[point:]
	if negative {
		text = "-" + text
	}
	return text
}

// MarshalJSON returns the number as a JSON string, so that no reader puts it through a float64.
func (d Decimal) MarshalJSON() ([]byte, error) { return []byte(`"` + d.String() + `"`), nil }

// UnmarshalJSON reads a JSON string or a JSON number, by its digits. Null is an error, other than
// encoding/json has it: an amount that nobody knows must not be posted as 0. Where it may be
// missing, the field is a *Decimal.
func (d *Decimal) UnmarshalJSON(b []byte) error {
	text := string(b)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(b, &text); err != nil {
			return errDecimal
		}
	}
	read, err := ParseDecimal(text)
	if err == nil {
		*d = read
	}
	return err
}
