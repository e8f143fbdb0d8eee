package avro

import (
	"fmt"
	"math"
	"reflect"
	"slices"
)

// mismatch says which part of a record that the library has refused does not fit
// its shape, in terms of fields and types, since the library's own words quote
// values. It runs only after a failure.
func mismatch(s *shape, record map[string]any) string {
	path, reason := find(s, record)
	switch {
	case reason == "":
		return "record does not fit the schema"
	case path == "":
		return reason
	default:
		return "field " + path + ": " + reason
	}
}

// find returns the first part of v that does not fit s, as a dotted path of fields,
// and why; the reason is empty if there is none.
func find(s *shape, v any) (path, reason string) {
	if s.logical {
		return "", "" // its Go type is the library's business
	}
	switch s.kind {
	case kindRecord:
		return findInRecord(s, v)
	case kindUnion:
		return findInUnion(s, v)
	case kindArray:
		items, ok := v.([]any)
		if !ok {
			return "", "" // the library takes slices of other types
		}
		for _, item := range items {
			if path, reason = find(s.items, item); reason != "" {
				return path, reason
			}
		}
		return "", ""
	case kindMap:
		values, ok := v.(map[string]any)
		if !ok {
			return "", ""
		}
		for _, value := range values {
			if path, reason = find(s.items, value); reason != "" {
				return path, reason
			}
		}
		return "", ""
	default:
		return "", scalarFault(s, v)
	}
}

func findInRecord(s *shape, v any) (path, reason string) {
	record, ok := v.(map[string]any)
	if !ok {
		return "", wants(s, "map[string]any", v)
	}
	for _, f := range s.fields {
		value, ok := record[f.name]
		if !ok {
			return f.name, "missing"
		}
		if path, reason := find(f.typ, value); reason != "" {
			if path != "" {
				path = "." + path
			}
			return f.name + path, reason
		}
	}
	if len(record) > len(s.fields) {
		return "", fmt.Sprintf("map has keys that are not fields of record %s", s.name)
	}
	return "", ""
}

func findInUnion(s *shape, v any) (path, reason string) {
	var name string
	var content any
	switch v := v.(type) {
	case nil:
		name = kindNull.String()
	case map[string]any:
		if len(v) != 1 {
			return "", "union wants a map with one branch"
		}
		for name, content = range v {
		}
	default:
		return "", wants(s, "nil or a map with one branch", v)
	}
	for _, b := range s.branches {
		switch {
		case b.logical && b.name == "":
			return "", "" // its branch name is the library's business
		case b.name == name || b.name == "" && b.kind.String() == name:
			return find(b, content)
		}
	}
	return "", "union has no such branch"
}

// goTypes are the Go types of the kinds without parts.
var goTypes = map[kind]string{
	kindNull: "nil", kindBoolean: "bool", kindInt: "int32", kindLong: "int64", kindFloat: "float32",
	kindDouble: "float64", kindBytes: "[]byte", kindString: "string", kindEnum: "string", kindFixed: "[]byte",
}

// scalarFault returns why v does not fit s, which has no parts, or "" if it does.
// The library is more generous than goTypes: it takes any number for any other
// whose value it has, and strings and bytes for each other.
func scalarFault(s *shape, v any) string {
	fits := false
	switch v := v.(type) {
	case nil:
		fits = s.kind == kindNull
	case bool:
		fits = s.kind == kindBoolean
	case int, int32, int64, float32, float64:
		if (s.kind == kindInt || s.kind == kindLong) && !isInteger(v, s.kind) {
			return "number is out of range or not whole"
		}
		fits = kindInt <= s.kind && s.kind <= kindDouble
	case string:
		if s.kind == kindEnum && !slices.Contains(s.symbols, v) {
			return fmt.Sprintf("enum %s has no such symbol", s.name)
		}
		fits = s.kind == kindEnum || fitsBytes(s, len(v))
	case []byte:
		fits = fitsBytes(s, len(v))
	}
	switch {
	case fits:
		return ""
	case s.kind == kindFixed:
		return fmt.Sprintf("fixed %s wants a []byte of length %d", s.name, s.size)
	default:
		return wants(s, goTypes[s.kind], v)
	}
}

func fitsBytes(s *shape, n int) bool {
	return s.kind == kindBytes || s.kind == kindString || s.kind == kindFixed && n == s.size
}

// isInteger reports whether a number is one that an int or long can have.
func isInteger(number any, k kind) bool {
	bits := 64
	if k == kindInt {
		bits = 32
	}
	limit := math.Ldexp(1, bits-1)
	switch n := reflect.ValueOf(number); n.Kind() {
	case reflect.Float32, reflect.Float64:
		f := n.Float()
		return f == math.Trunc(f) && -limit <= f && f < limit
	default:
		return bits == 64 || n.Int() == int64(int32(n.Int()))
	}
}

func wants(s *shape, what string, v any) string {
	name := s.kind.String()
	if s.name != "" {
		name += " " + s.name
	}
	return fmt.Sprintf("%s wants %s, got %T", name, what, v)
}
