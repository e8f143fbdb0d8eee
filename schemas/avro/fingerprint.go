package avro

import (
	"fmt"
	"strconv"
	"strings"
)

// canonicalForm returns the Parsing Canonical Form of the schema (Avro 1.12,
// "Parsing Canonical Form for Schemas"): equal for schemas that differ in nothing
// that matters for reading. Names are plain ASCII, so nothing needs an escape.
func canonicalForm(root *shape) string {
	var out strings.Builder
	writeCanonical(&out, root, make(map[string]struct{}))
	return out.String()
}

// writeCanonical writes s, in full where a named type comes up for the first time
// and by name afterwards.
func writeCanonical(out *strings.Builder, s *shape, defined map[string]struct{}) {
	if s.name != "" {
		if _, ok := defined[s.name]; ok {
			out.WriteString(`"` + s.name + `"`)
			return
		}
		defined[s.name] = struct{}{}
		out.WriteString(`{"name":"` + s.name + `","type":"` + s.kind.String() + `"`)
	}
	switch s.kind {
	case kindRecord:
		out.WriteString(`,"fields":[`)
		for i, f := range s.fields {
			separate(out, i)
			out.WriteString(`{"name":"` + f.name + `","type":`)
			writeCanonical(out, f.typ, defined)
			out.WriteString("}")
		}
		out.WriteString("]}")
	case kindEnum:
		out.WriteString(`,"symbols":["` + strings.Join(s.symbols, `","`) + `"]}`)
	case kindFixed:
		out.WriteString(`,"size":` + strconv.Itoa(s.size) + "}")
	case kindArray:
		out.WriteString(`{"type":"array","items":`)
		writeCanonical(out, s.items, defined)
		out.WriteString("}")
	case kindMap:
		out.WriteString(`{"type":"map","values":`)
		writeCanonical(out, s.items, defined)
		out.WriteString("}")
	case kindUnion:
		out.WriteString("[")
		for i, b := range s.branches {
			separate(out, i)
			writeCanonical(out, b, defined)
		}
		out.WriteString("]")
	default:
		out.WriteString(`"` + s.kind.String() + `"`)
	}
}

func separate(out *strings.Builder, i int) {
	if i > 0 {
		out.WriteString(",")
	}
}

// fingerprint returns the CRC-64-AVRO checksum of a canonical form (Avro 1.12,
// "Schema Fingerprints"). It runs once per schema, so it does without the
// usual table.
func fingerprint(canonical string) uint64 {
	const empty = 0xc15d213aa4d7a795
	sum := uint64(empty)
	for _, b := range []byte(canonical) {
		sum ^= uint64(b)
		for range 8 {
			sum = sum>>1 ^ empty&-(sum&1)
		}
	}
	return sum
}

// A FingerprintError says that a value was written with another schema than the codec's. It is for
// callers that know more schemas; get it with errors.As. Got is the only content of a value in an
// error. It is eight bytes of its header, or of the bytes behind C3 01 in a value that is not Avro.
type FingerprintError struct {
	// Want is the CRC-64-AVRO fingerprint of the codec's schema.
	Want uint64
	// Got is the fingerprint that the value carries.
	Got uint64
}

// Error names both fingerprints in hexadecimal, as codec names do.
func (e *FingerprintError) Error() string {
	return fmt.Sprintf("its schema has fingerprint %016x, this codec's has %016x", e.Got, e.Want)
}
