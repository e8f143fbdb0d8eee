package pipeline

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/onceward/onceward/schemas"
)

// numberOf returns a JSON number as the type of CEL that holds it exactly: a number that is written
// as an integer as int64, or as uint64 if it is too large for that; any other as float64 if the
// float64 is the same number; and else as exactNumber. It never rounds.
func numberOf(text string) any {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(text, 10, 64); err == nil {
			return u
		}
		return exactNumber(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !same(text, f) {
		return exactNumber(text)
	}
	return f
}

// digitsMax is how many decimal digits every float64 that is not tiny or huge gives back as they
// were.
const digitsMax = 15

// same reports whether f is the number that text spells, in the sense that its shortest spelling
// is.
func same(text string, f float64) bool {
	if len(text) <= digitsMax && !strings.ContainsAny(text, "eE") {
		return true
	}
	return canonical(text) == canonical(floatText(f))
}

func canonical(number string) string {
	b, err := schemas.CanonicalJSON(nil, []byte(number))
	if err != nil {
		return ""
	}
	return string(b)
}

// floatText spells f shortly, and so that it is read as a float64 again. It must be finite.
func floatText(f float64) string {
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	text := strconv.FormatFloat(f, format, -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// exactNumber is a JSON number that no number type of CEL holds exactly, such as a decimal of 20
// digits. An expression can pass it on and compare it for equality, and nothing else: rounding it
// in silence is what must not happen.
type exactNumber string

var exactNumberType = types.NewOpaqueType("number")

// ConvertToNative is never needed: documents are written by appendValue.
func (n exactNumber) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("an exact number is no %s", t)
}

// ConvertToType knows the type of the number alone.
func (n exactNumber) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return exactNumberType
	}
	return types.NewErr("the number has more digits than int, uint or double can hold")
}

// Equal compares the numbers and not their spelling. A number of another type is never equal, since
// it would not have been exact.
func (n exactNumber) Equal(other ref.Val) ref.Val {
	o, ok := other.(exactNumber)
	return types.Bool(ok && bytes.Equal([]byte(canonical(string(n))), []byte(canonical(string(o)))))
}

// Type returns the opaque type number.
func (exactNumber) Type() ref.Type { return exactNumberType }

// Value returns the spelling.
func (n exactNumber) Value() any { return string(n) }
