package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
)

func documentOf(text string) *document { return &document{raw: []byte(text)} }

func TestCodecsKeepTheContract(t *testing.T) {
	doc := documentOf(`{"a":{"b":[1,2.50,"` + codectest.Canary + `"]},"n":` + codectest.CanaryNumber + `}`)
	t.Run("document", func(t *testing.T) {
		codectest.Run(t, schemas.Codec[*document](documentCodec{}), doc,
			documentOf(` { "b" : 1 , "a" : null } `))
		codectest.Refuses(t, schemas.Codec[*document](documentCodec{}), nil,
			documentOf(`"`+strings.Repeat("x", schemas.MaxJSONBytes)+`"`))
	})
	t.Run("record", func(t *testing.T) {
		codectest.Run(t, schemas.Codec[value](recordCodec{}), topology.Some(doc), topology.Some(documentOf(`null`)))
		codectest.Refuses(t, schemas.Codec[value](recordCodec{}), value{})
	})
	t.Run("key", func(t *testing.T) {
		codectest.Run(t, schemas.Codec[key](keyCodec{}), topology.Some(""), topology.Some(codectest.Canary))
		codectest.Refuses(t, schemas.Codec[key](keyCodec{}), key{}, topology.Some("\xff"))
	})
	t.Run("skipped", func(t *testing.T) {
		codectest.Run(t, skippedCodec(),
			projection.Skipped[value]{
				Outcome: projection.Stale, Version: 1, Applied: 1<<53 + 1, Value: topology.Some(doc),
			},
			projection.Skipped[value]{Outcome: projection.Duplicate})
	})
	t.Run("gap", func(t *testing.T) {
		codectest.Run(t, gapCodec(),
			projection.Gap[value]{Expected: 1, Actual: 1<<53 + 1, Value: topology.Some(doc)},
			projection.Gap[value]{})
	})
	t.Run("balance", func(t *testing.T) {
		codectest.Run(t, balanceCodec([]string{"amount", "fee"}),
			ledger.Balance{Count: 1<<53 + 1, Amounts: []int64{-1 << 63, 1<<63 - 1}, Contribution: codectest.Canary})
	})
}

func TestMalformedDocuments(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `{"a":1,}`, `{"a":1}{}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
		"\"\xff\"", `"\ud800"`, `01`, `NaN`,
		strings.Repeat("[", schemas.MaxJSONDepth+1) + strings.Repeat("]", schemas.MaxJSONDepth+1),
	} {
		if _, err := (documentCodec{}).Decode([]byte(text)); err == nil {
			t.Errorf("%.40q is read", text)
		}
		var d document
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%.40q is unmarshaled", text)
		}
	}
}

// Should a document pass the check and not the parser, it must not look like a null.
func TestUnparsableDocument(t *testing.T) {
	r := recordOf(`{`)
	for _, source := range []string{`event == null`, `event.a == 1`} {
		_, err := compileFor(t, source, wantBool).Bool(&r)
		if schemas.ReasonOf(err) != "value: the document cannot be read" {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// The parser of expressions and the check of documents are two programs. They must accept the same
// documents.
func FuzzDecodeTree(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[1,2.5,1e400,-0]`, `{"a":{"b":null}}`, `"\u00e9\ud83d\ude00"`, `18446744073709551616`, ` true `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := documentCodec{}.Decode(b)
		if err != nil {
			return
		}
		if err, failed := d.Tree().(error); failed {
			t.Fatalf("%q is a document and has no tree: %v", b, err)
		}
		out, err := appendValue(nil, types.DefaultTypeAdapter.NativeToValue(d.Tree()), 0)
		if err != nil {
			t.Fatalf("%q cannot be written: %v", b, err)
		}
		want, err := schemas.CanonicalJSON(nil, b)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := schemas.CanonicalJSON(nil, out); err != nil || string(got) != string(want) {
			t.Fatalf("%q is written as %q, which is another document (%v)", b, out, err)
		}
	})
}
