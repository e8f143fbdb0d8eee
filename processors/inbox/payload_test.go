package inbox_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/avro"
	"github.com/onceward/onceward/topology"
)

// outcomes pipes values under one id into an inbox of values of type V, and returns what became of
// each: a for accepted, d for duplicate, c for conflict, x for a dead letter. The value "null" is a
// null.
func outcomes[V any](t *testing.T, codec schemas.Codec[V], values []string, opts ...inbox.Option) string {
	t.Helper()
	id := func(topology.Record[string, V]) (string, error) { return "id", nil }
	d := processortest.New(t, func(b *topology.Builder) {
		topic := topology.Topic("payments", schemas.String(), codec)
		in := inbox.Dedupe(topology.From(b, topic), "inbox", id, inbox.Kept(append([]inbox.Option{inbox.EmitConflicts()}, opts...)...)...)
		in.Accepted().Into(topology.Topic("a", schemas.String(), codec))
		in.Duplicates().Into(topology.Topic("d", schemas.String(), codec))
		in.Conflicts().Into(topology.Topic("c", schemas.String(), codec))
	})
	var got strings.Builder
	for _, value := range values {
		bytes := []byte(value)
		if value == "null" {
			bytes = nil
		}
		if err := d.PipeRaw("payments", []byte("k"), bytes); err != nil {
			t.Fatal(err)
		}
		for topic, outcome := range map[string]string{"a": "a", "d": "d", "c": "c", "dead": "x"} {
			got.WriteString(strings.Repeat(outcome, len(d.Take(topic))))
		}
	}
	return got.String()
}

// documents are spellings of one document, then one of another that differs only in a field that
// Payment does not have, then one that is no document (a key is there twice).
var documents = []string{
	`{"id":"a","amount":100,"x":1}`, `{"x":1,"amount":100,"id":"a"}`,
	` { "id" : "\u0061" , "amount" : 100 , "x" : 1 } `,
	`{"id":"a","amount":100,"x":2}`, `{"id":"a","amount":100,"x":1,"id":"a"}`,
}

// parted has fields that tell zero from nothing.
type parted struct {
	ID     string  `json:"id"`
	Amount *int64  `json:"amount"`
	Parts  []int64 `json:"parts"`
}

// whole is a Payment that keeps the document that it was read from, so that it is compared with all
// that it says.
type whole struct {
	Payment
	document json.RawMessage
}

func (w *whole) UnmarshalJSON(b []byte) error {
	w.document = slices.Clone(b)
	return json.Unmarshal(b, &w.Payment)
}

func (w whole) MarshalJSON() ([]byte, error) { return w.document, nil }

func TestPayloadForms(t *testing.T) {
	numbers := []string{`{"n":1.50}`, `{"n":15e-1}`, `{"n":1.5}`, `{"n":1.5000000000000000000000001}`}
	check := func(name, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: the outcomes are %s, want %s", name, got, want)
		}
	}
	check("struct", outcomes(t, schemas.JSON[Payment](), documents), "addd"+"d")
	check("struct, globally", outcomes(t, schemas.JSON[Payment](), documents,
		inbox.Globally(schemas.String(), schemas.JSON[Payment]())), "addd"+"d")
	check("struct that keeps its document", outcomes(t, schemas.JSON[whole](), documents), "addc"+"x")
	check("struct that keeps its document, globally", outcomes(t, schemas.JSON[whole](), documents,
		inbox.Globally(schemas.String(), schemas.JSON[whole]())), "addc"+"x")
	zeros := []string{`{"id":"a","amount":0}`, `{"id":"a"}`, `{"id":"a","amount":null}`, `{"ID":"a"}`}
	check("struct, zeros", outcomes(t, schemas.JSON[Payment](), zeros), "addd")
	optional := []string{`{"id":"a"}`, `{"id":"a","amount":null,"parts":null}`, `{"id":"a","amount":0}`, `{"id":"a","parts":[]}`}
	check("struct with a pointer and a slice, zeros", outcomes(t, schemas.JSON[parted](), optional), "adcc")
	check("struct that keeps its document, zeros", outcomes(t, schemas.JSON[whole](), zeros), "accc")
	check("document", outcomes(t, schemas.JSON[json.RawMessage](), documents), "addc"+"x")
	check("document, numbers", outcomes(t, schemas.JSON[json.RawMessage](), numbers), "addc")
	check("map, json.Number", outcomes(t, schemas.JSON[map[string]json.Number](), numbers), "addc")
	check("bytes", outcomes(t, schemas.Bytes(), []string{"x", "x", "x ", "", "null", "x"}), "adcccd")
	check("bytes, null first", outcomes(t, schemas.Bytes(), []string{"null", "null", ""}), "adc")
	check("string", outcomes(t, schemas.String(), []string{"x", "x", "X"}), "adc")
	check("integer", outcomes(t, schemas.Int64(), []string{"\x00\x00\x00\x00\x00\x00\x00\x01",
		"\x00\x00\x00\x00\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x00\x00\x02"}), "adc")
	nullable := topology.Nullable(schemas.JSON[Payment]())
	check("nullable", outcomes(t, nullable, append([]string{"null", "null"}, documents[:2]...),
		inbox.PayloadCodec(nullable)), "adcc")
	check("nullable, null later", outcomes(t, nullable, append(documents[:2:2], "null"),
		inbox.PayloadCodec(nullable)), "adc")
	check("codec that is not JSON", outcomes(t, schemas.JSON[json.RawMessage](), documents[:3],
		inbox.PayloadCodec(verbatim{})), "acc")
	amount := inbox.PayloadHash(func(r payment) ([32]byte, error) {
		return sha256.Sum256(fmt.Append(nil, r.Value.Amount)), nil
	})
	check("function", outcomes(t, schemas.JSON[Payment](), []string{
		`{"id":"a","amount":1}`, `{"id":"b","amount":1}`, `{"id":"a","amount":2}`}, amount), "adc")
	refuse := inbox.PayloadHash(func(payment) (h [32]byte, err error) { return h, schemas.Reason("no") })
	check("function that fails", outcomes(t, schemas.JSON[Payment](), documents[:1], refuse), "x")
}

// TestPayloadOfOtherSchema: a value of Avro that was written with one field more does not get to
// the inbox, and so is not taken for a duplicate. Of one schema every field is compared that the
// conversions of the codec keep.
func TestPayloadOfOtherSchema(t *testing.T) {
	const begin = `{"type": "record", "name": "Payment", "fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "long"}`
	codec, wider := avroPayments(t, begin+`]}`), avroPayments(t, begin+`, {"name": "fee", "type": "long"}]}`)
	value := func(codec schemas.Codec[map[string]any], fields map[string]any) string {
		b, err := codec.Append(nil, fields)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	one := value(codec, map[string]any{"id": "a", "amount": int64(1)})
	other := value(codec, map[string]any{"id": "a", "amount": int64(2)})
	values := []string{one, one, other, value(wider, map[string]any{"id": "a", "amount": int64(1), "fee": int64(5)})}
	if got := outcomes(t, codec, values, inbox.PayloadCodec(codec)); got != "adcx" {
		t.Errorf("the outcomes are %s", got)
	}
}

// avroPayments is the codec of payments with that schema, as maps.
func avroPayments(t *testing.T, schema string) schemas.Codec[map[string]any] {
	t.Helper()
	same := func(m map[string]any) (map[string]any, error) { return m, nil }
	codec, err := avro.New(schema, same, same)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

// message is what a codec keeps that passes on what it does not know, as Protocol Buffers do.
type message struct{ known, unknown string }

type messages struct{}

func (messages) Name() string { return "messages" }
func (messages) Append(dst []byte, m message) ([]byte, error) {
	return append(append(dst, m.known...), m.unknown...), nil
}
func (messages) Decode(b []byte) (message, error) {
	known, unknown, _ := strings.Cut(string(b), "+")
	return message{known, "+" + unknown}, nil
}

// TestPayloadWithUnknownFields: what a type keeps of fields that it does not know is compared by a
// codec that writes it, and refused by the default, which would not see it.
func TestPayloadWithUnknownFields(t *testing.T) {
	values := []string{"known+more", "known+more", "known+other"}
	if got := outcomes(t, messages{}, values, inbox.PayloadCodec(messages{})); got != "adc" {
		t.Errorf("the outcomes are %s", got)
	}
	refused(t, message{}, "inbox_test.message.known, which is not exported")
}

// verbatim is a codec of documents that keeps their spelling, unlike encoding/json.
type verbatim struct{}

func (verbatim) Name() string                                         { return "verbatim" }
func (verbatim) Append(dst []byte, v json.RawMessage) ([]byte, error) { return append(dst, v...), nil }
func (verbatim) Decode(b []byte) (json.RawMessage, error) {
	return append(json.RawMessage{}, b...), nil
}

// dashes is a codec in which "-" stands for null, as a user's codec may have it.
type dashes struct{ schemas.Codec[string] }

func (dashes) Null(v string) bool { return v == "-" }

func TestPayloadOfNullableCodec(t *testing.T) {
	codec := dashes{schemas.String()}
	var hash [32]byte
	d := processortest.New(t, func(b *topology.Builder) {
		id := func(topology.Record[string, string]) (string, error) { return "id", nil }
		s := topology.From(b, topology.Topic("payments", schemas.String(), schemas.String()))
		inbox.Dedupe(s, "inbox", id, inbox.Forever(), inbox.PayloadCodec(codec))
	})
	d.Pipe("payments", "k", "-")
	if row := d.Rows("inbox", 0)["id"]; !strings.HasSuffix(row, string(hash[:])) {
		t.Errorf("the row is %x, and does not end in zeros", row)
	}
}

// TestPayloadError: a payload without a hash is invalid, whether or not the id was seen.
func TestPayloadError(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		topic := topology.Topic("payments", schemas.String(), schemas.JSON[json.RawMessage]())
		id := func(topology.Record[string, json.RawMessage]) (string, error) { return "id", nil }
		inbox.Dedupe(topology.From(b, topic), "inbox", id, inbox.Forever())
	})
	d.Pipe("payments", "k", `{"a":1,"a":1}`)
	const message = "schemas: canonicalize canonical-json: byte 7: duplicate object key"
	d.WantDeadLetter("inbox", topology.Validation, message)
	if content := d.Rows("inbox", 0); len(content) != 0 {
		t.Errorf("the store has %x", content)
	}
}

// TestAddedField: a field that is added to the type keeps hashes of payloads without it if it is
// omitzero.
func TestAddedField(t *testing.T) {
	type next struct {
		Payment
		Fee int64 `json:"fee,omitzero"`
	}
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	d.Pipe("payments", "k", documents[0])
	old := d.Rows("inbox", 0)["a"]

	d = processortest.New(t, func(b *topology.Builder) {
		topic := topology.Topic("payments", schemas.String(), schemas.JSON[next]())
		id := func(r topology.Record[string, next]) (string, error) { return r.Value.ID, nil }
		inbox.Dedupe(topology.From(b, topic), "inbox", id, inbox.Forever())
	})
	d.Pipe("payments", "k", documents[0])
	if got := d.Rows("inbox", 0)["a"]; got != old {
		t.Errorf("the row is %x, it was %x", got, old)
	}
}

type (
	secret struct{ ID, note string } //nolint:unused // a field that JSON does not see is what the test is about
	tagged struct {
		Note string `json:"-"`
	}
	nested   struct{ List []map[string]*secret }
	channel  struct{ C chan int }
	embedded struct{ secret }
	inner    struct{ ID string }
	promoted struct {
		inner
		Next *promoted
		At   time.Time
		Raw  json.RawMessage
	}
	amounts struct {
		Of map[string][]float64
	}
	document struct{ Any any }
	twice    struct {
		ID  string
		Old string `json:"ID"`
	}
	shadowed struct {
		inner
		Other string `json:"ID,omitzero"`
	}
	left    struct{ inner }
	right   struct{ inner }
	diamond struct {
		left
		right
	}
	looped struct {
		*looped //nolint:unused // a field that JSON does not see is what the test is about
		ID      string
	}
)

// TestDefaultPayloadIsWhole: a type of which the JSON form hides something would hide conflicts.
func TestDefaultPayloadIsWhole(t *testing.T) {
	refused(t, secret{}, "inbox_test.secret.note, which is not exported")
	refused(t, tagged{}, `inbox_test.tagged.Note, which has the tag json:"-"`)
	refused(t, nested{}, "inbox_test.nested.List[].note, which is not exported")
	refused(t, channel{}, "inbox_test.channel.C, which is a chan")
	refused(t, embedded{}, "inbox_test.embedded.secret.note, which is not exported")
	refused(t, topology.Some(1), ".value, which is not exported")
	refused(t, 1.5, "float64, which is a float64")
	refused(t, amounts{}, "inbox_test.amounts.Of[], which is a float64")
	refused(t, document{}, "inbox_test.document.Any, which is an interface, whose numbers are of type float64")
	refused(t, map[string]any{}, "map[string]interface {}[], which is an interface, whose numbers are of type float64")
	refused(t, twice{}, "inbox_test.twice.Old, which has the JSON name of another field")
	refused(t, shadowed{}, "inbox_test.shadowed.Other, which has the JSON name of another field")
	refused(t, diamond{}, "inbox_test.diamond.right.inner.ID, which has the JSON name of another field")
	if got := outcomes(t, schemas.JSON[looped](), []string{`{"ID":"a"}`, `{"ID":"b"}`}); got != "ac" {
		t.Errorf("the outcomes are %s", got)
	}
	if got := outcomes(t, schemas.JSON[promoted](), []string{`{"ID":"a"}`, `{"ID":"b"}`}); got != "ac" {
		t.Errorf("the outcomes are %s", got)
	}
}

func refused[V any](t *testing.T, _ V, text string) {
	t.Helper()
	id := func(topology.Record[string, V]) (string, error) { return "id", nil }
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		inbox.Dedupe(topology.From(b, topology.Topic("in", schemas.String(), schemas.JSON[V]())), "inbox", id, inbox.Forever())
		return processortest.Above()
	}, text+"; declare how with PayloadCodec or PayloadHash")
}

// TestLargePayload: a payload beyond the buffer that is kept between records is hashed all the
// same.
func TestLargePayload(t *testing.T) {
	large := `"` + strings.Repeat("x", 100<<10) + `"`
	values := []string{large, large, `"x"`, large}
	codec := schemas.JSON[string]()
	if got := outcomes(t, codec, values, inbox.PayloadCodec(codec)); got != "adcd" {
		t.Errorf("the outcomes are %s", got)
	}
}
