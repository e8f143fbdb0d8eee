package avro

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"
)

// TestFingerprint uses vectors of the Avro project (share/test/data/schema-tests.txt).
func TestFingerprint(t *testing.T) {
	for canonical, want := range map[string]uint64{
		`"null"`:    7195948357588979594,
		`"int"`:     8247732601305521295,
		`"boolean"`: 0x9f42fc78a4d4f764,
		`"string"`:  0x8f014872634503c7,
	} {
		if got := fingerprint(canonical); got != want {
			t.Errorf("%s: %016x, want %016x", canonical, got, want)
		}
	}
}

func TestCanonicalForm(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{
			"stripped and ordered",
			` {"doc":"x","fields":[{"type":"int","doc":"y","name":"a","default":1,"order":"ignore","aliases":["b"]}],
			  "aliases":["S"],"type":"record","name":"R","other":1}`,
			`{"name":"R","type":"record","fields":[{"name":"a","type":"int"}]}`,
		},
		{
			"primitives and logical types",
			`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"int"}},
			  {"name":"b","type":{"type":"long","logicalType":"timestamp-millis"}},
			  {"name":"c","type":{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}}]}`,
			`{"name":"R","type":"record","fields":[{"name":"a","type":"int"},{"name":"b","type":"long"},` +
				`{"name":"c","type":"bytes"}]}`,
		},
		{
			"recursive in a namespace",
			`{"type":"record","name":"LongList","namespace":"ns","fields":[
			  {"name":"next","type":["null","LongList"]}]}`,
			`{"name":"ns.LongList","type":"record","fields":[{"name":"next","type":["null","ns.LongList"]}]}`,
		},
		{
			"namespaces",
			`{"type":"record","name":"a.R","namespace":"ignored","fields":[
			  {"name":"f","type":{"type":"fixed","name":"F","size":2}},
			  {"name":"e","type":{"type":"enum","name":"E","namespace":"b.c","symbols":["X","Y"]}},
			  {"name":"g","type":"F"},{"name":"h","type":{"type":"map","values":"b.c.E"}},
			  {"name":"i","type":{"type":"array","items":{"type":"a.F"}}}]}`,
			`{"name":"a.R","type":"record","fields":[{"name":"f","type":{"name":"a.F","type":"fixed","size":2}},` +
				`{"name":"e","type":{"name":"b.c.E","type":"enum","symbols":["X","Y"]}},{"name":"g","type":"a.F"},` +
				`{"name":"h","type":{"type":"map","values":"b.c.E"}},` +
				`{"name":"i","type":{"type":"array","items":"a.F"}}]}`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var c compiler
			root, _, err := c.compile(test.schema)
			if err != nil {
				t.Fatal(err)
			}
			if got := canonicalForm(root); got != test.want {
				t.Fatalf("canonical form is\n%s, want\n%s", got, test.want)
			}
			var again compiler
			root, _, err = again.compile(test.want)
			if err != nil || canonicalForm(root) != test.want {
				t.Errorf("the canonical form is not its own: %v", err)
			}
		})
	}
}

// TestCanonicalFormAgreesWithLibrary compares with goavro where goavro's form is
// right: one namespace, no recursion, no logical types.
func TestCanonicalFormAgreesWithLibrary(t *testing.T) {
	for _, schema := range []string{
		`{"type":"record","name":"R","fields":[]}`,
		`{"type":"record","name":"n.R","fields":[{"name":"a","type":["null",{"type":"array","items":"long"}]},
		  {"name":"b","type":{"type":"map","values":"double"}},
		  {"name":"c","type":"float"},{"name":"d","type":"bytes"}]}`,
	} {
		var c compiler
		root, _, err := c.compile(schema)
		if err != nil {
			t.Fatal(err)
		}
		library, err := goavro.NewCodec(schema)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := canonicalForm(root), library.CanonicalSchema(); got != want {
			t.Errorf("canonical form is\n%s, goavro's\n%s", got, want)
		}
		if fingerprint(canonicalForm(root)) != library.Rabin {
			t.Error("fingerprints differ")
		}
	}
}

// TestFingerprintIsStable guards against what goavro does with this schema, whose
// fingerprint it computes in one of two ways at random.
func TestFingerprintIsStable(t *testing.T) {
	const schema = `{"fields":[{"name":"next","type":["null","LongList"]}],
		"type":"record","namespace":"ns","name":"LongList"}`
	for range 50 {
		codec, err := New(schema, asIs, asIs)
		if err != nil {
			t.Fatal(err)
		}
		if got := codec.Name(); got != "avro:09aaa8d9a861d855" {
			t.Fatalf("name is %s", got)
		}
	}
}

func TestInvalidSchemas(t *testing.T) {
	recordOf := func(fields string) string { return `{"type":"record","name":"n.R","fields":[` + fields + `]}` }
	tests := []struct{ name, schema, want string }{
		{"nothing", ``, "end of the document"},
		{"not JSON", `{"type":}`, "byte 8"},
		{"key twice", `{"type":"record","type":"enum"}`, "duplicate object key"},
		{"not a schema", `1`, "a schema is"},
		{"not a record", `"int"`, "the top is a int"},
		{"union at the top", `["null"]`, "the top is a union"},
		{"no type", `{"name":"R"}`, `"type" is missing`},
		{"unknown type", recordOf(`{"name":"a","type":"integer"}`), `field a: type "n.integer" is not defined`},
		{"no name", `{"type":"record","fields":[]}`, `"name" is missing`},
		{"bad name", `{"type":"record","name":"a-b","fields":[]}`, "is not a name"},
		{"bad namespace", `{"type":"record","name":"R","namespace":"a..b","fields":[]}`, "is not a name"},
		{"primitive name", `{"type":"record","name":"int","fields":[]}`, "name of a primitive type"},
		{"no fields", `{"type":"record","name":"R"}`, `"fields" is missing`},
		{"field is no object", recordOf(`1`), "field 0 is not an object"},
		{"bad field name", recordOf(`{"name":"1a","type":"int"}`), "field 0 has no valid name"},
		{"field twice", recordOf(`{"name":"a","type":"int"},{"name":"a","type":"int"}`), "field a is defined"},
		{"no field type", recordOf(`{"name":"a"}`), "field a: a schema is"},
		{"empty union", recordOf(`{"name":"a","type":[]}`), "union without branches"},
		{"union in union", recordOf(`{"name":"a","type":["null",["int"]]}`), "union directly in a union"},
		{"same branch twice", recordOf(`{"name":"a","type":["int","int"]}`), "unique"},
		{"no items", recordOf(`{"name":"a","type":{"type":"array"}}`), `"items"`},
		{"no values", recordOf(`{"name":"a","type":{"type":"map"}}`), `"values"`},
		{"no symbols", recordOf(`{"name":"a","type":{"type":"enum","name":"E","symbols":[]}}`), `"symbols"`},
		{"bad symbol", recordOf(`{"name":"a","type":{"type":"enum","name":"E","symbols":["x y"]}}`), "symbol 0"},
		{"bad size", recordOf(`{"name":"a","type":{"type":"fixed","name":"F","size":1.5}}`), `"size"`},
		{"huge size", recordOf(`{"name":"a","type":{"type":"fixed","name":"F","size":1e18}}`), `"size"`},
		{"type twice", recordOf(`{"name":"a","type":{"type":"record","name":"R","fields":[]}}`), "defined twice"},
		{
			"empty namespace",
			recordOf(`{"name":"a","type":{"type":"fixed","name":"F","namespace":"","size":1}}`), "namespace",
		},
		{"wrong default", recordOf(`{"name":"a","type":"int","default":"x"}`), "default"},
		{
			"wrong precision",
			recordOf(`{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":"x"}}`), "precision",
		},
		{
			"ambiguous name",
			`{"type":"record","name":"R","fields":[{"name":"a","type":{"type":"record","name":"n.X","fields":[
			  {"name":"b","type":{"type":"fixed","name":"n.R","size":1}},{"name":"c","type":"R"}]}}]}`,
			"use full names",
		},
		{"too deep", strings.Repeat(`{"type":"array","items":`, 600), "deeper"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.schema, asIs, asIs)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "avro: ") {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
	if _, err := New[record](`{"type":"record","name":"R","fields":[]}`, nil, asIs); err == nil {
		t.Error("New without toNative succeeded")
	}
}

// TestHeader compares the whole encoding with the library's.
func TestHeader(t *testing.T) {
	const schema = `{"type":"record","name":"R","fields":[{"name":"a","type":"long"}]}`
	codec, err := New(schema, asIs, asIs)
	if err != nil {
		t.Fatal(err)
	}
	library, err := goavro.NewCodec(schema)
	if err != nil {
		t.Fatal(err)
	}
	value := record{"a": int64(-77)}
	want, err := library.SingleFromNative(nil, value)
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec.Append(nil, value)
	if err != nil || string(got) != string(want) {
		t.Errorf("encoding is %x, %v, the library's %x", got, err, want)
	}
	if sum := binary.LittleEndian.Uint64(got[2:]); sum != library.Rabin {
		t.Errorf("fingerprint is %x", sum)
	}
}
