package pipeline

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/onceward/onceward/schemas"
)

// appendValue appends the result of an expression as JSON: the mapping of CEL's specification,
// except that integers are numbers whatever their size, since that mapping would make texts of
// large ones, and that keys of maps must be texts. Keys are sorted, so that equal results give
// equal bytes.
func appendValue(dst []byte, v ref.Val, depth int) ([]byte, error) {
	if depth > schemas.MaxJSONDepth {
		return dst, schemas.Reason("the result is nested too deeply")
	}
	switch v := v.(type) {
	case types.Null:
		return append(dst, "null"...), nil
	case types.Bool:
		return strconv.AppendBool(dst, bool(v)), nil
	case types.Int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case types.Uint:
		return strconv.AppendUint(dst, uint64(v), 10), nil
	case types.Double:
		if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return append(dst, floatText(f)...), nil
		}
		return dst, schemas.Reason("the result has a number that is infinite or not a number, and JSON has neither")
	case exactNumber:
		return append(dst, v...), nil
	case types.String:
		return appendText(dst, string(v))
	case types.Bytes:
		return appendText(dst, base64.StdEncoding.EncodeToString(v))
	case types.Timestamp:
		return appendText(dst, v.UTC().Format(time.RFC3339Nano))
	case types.Duration:
		return appendText(dst, durationText(v.Duration))
	case traits.Mapper:
		return appendMap(dst, v, depth)
	case traits.Lister:
		return appendList(dst, v, depth)
	}
	return dst, schemas.Reason(
		"the result has a part of type " + v.Type().TypeName() + ", which JSON does not have")
}

func appendMap(dst []byte, m traits.Mapper, depth int) ([]byte, error) {
	var keys []string
	for it := m.Iterator(); it.HasNext() == types.True; {
		key, ok := it.Next().(types.String)
		if !ok {
			return dst, schemas.Reason("the result has a map with keys that are no texts")
		}
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendText(dst, key); err != nil {
			return dst, err
		}
		dst = append(dst, ':')
		if dst, err = appendValue(dst, m.Get(types.String(key)), depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendList(dst []byte, l traits.Lister, depth int) ([]byte, error) {
	dst = append(dst, '[')
	for i, it := 0, l.Iterator(); it.HasNext() == types.True; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, it.Next(), depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

// durationText spells a duration in seconds, exactly; the duration's own seconds would be a
// float64.
func durationText(d time.Duration) string {
	sign, whole, nanos := "", d/time.Second, d%time.Second
	if d < 0 {
		sign, whole, nanos = "-", -whole, -nanos
	}
	fraction := strings.TrimRight(fmt.Sprintf(".%09d", int64(nanos)), "0")
	return fmt.Sprintf("%s%d%ss", sign, int64(whole), strings.TrimSuffix(fraction, "."))
}

// texts spells texts as the JSON codec does; it refuses what is not UTF-8, because encoding/json
// would replace it.
var texts = schemas.JSON[string]()

func appendText(dst []byte, s string) ([]byte, error) {
	if _, err := schemas.String().Append(nil, s); err != nil {
		return dst, err
	}
	return texts.Append(dst, s)
}
