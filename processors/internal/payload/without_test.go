package payload

import (
	"crypto/sha256"
	"encoding/json"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// hashWithout is the hash of a document without some members as it follows from what it means. It
// is stored in rows.
func hashWithout(document []byte, without []string) ([32]byte, error) {
	form, err := schemas.CanonicalJSON(nil, document)
	if err != nil {
		return [32]byte{}, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(form, &members); err != nil || members == nil {
		return [32]byte{}, errNoObject
	}
	for _, name := range without {
		delete(members, name)
	}
	rest, err := json.Marshal(members)
	if err != nil {
		return [32]byte{}, err
	}
	return schemas.HashJSON(rest)
}

// documentsWithout are documents of which members are left out, and texts that are none.
var documentsWithout = []string{
	`{}`, `{"id":1}`, `{"id":1,"a":2}`, `{"a":2,"id":1}`, `{"a":2,"id":1,"z":3}`, `{"a":1,"b":2}`, `{"at":1,"id":2}`, `{"":1,"id":2}`,
	`{"id":{"id":[1,{"at":"},]"}]},"x":[{"id":1},[]],"at":"\",\"a\":1"}`, `{"a":"\\","id":"\\\"","b":"\u0001\u2028<>&"}`,
	`{"i\u0064":1,"q\"":2,"\n":3,"<é>":4,"\ufffd":5}`, ` { "x" : 1.50 , "id" : -0 , "at":null,"t":true , "n":1e400} `,
	`null`, `[]`, `[{"id":1}]`, `"id"`, `1`, `true`, `{"id":1,"id":2}`, `{`, ``,
}

// FuzzPayloadWithout compares the hash with what it means.
func FuzzPayloadWithout(f *testing.F) {
	for _, document := range documentsWithout {
		for _, name := range []string{"id", "at", "", `q"`, "\n", "<é>", "\xff", "missing"} {
			f.Add([]byte(document), name)
		}
	}
	f.Fuzz(func(t *testing.T, document []byte, name string) {
		without := Without{name, "id"}
		want, wantErr := hashWithout(document, without)
		names, err := without.canonical()
		if err != nil {
			t.Fatal(err)
		}
		hash := hasherWithout[string](verbatimJSON{}, names)
		for range 2 { // the second one in the memory of the first
			got, err := hash(topology.Record[string, json.RawMessage]{Value: document})
			if got != want || (err == nil) != (wantErr == nil) {
				t.Fatalf("the hash is %x, %v, want %x, %v", got, err, want, wantErr)
			}
		}
	})
}

// verbatimJSON is a codec that keeps the spelling of documents.
type verbatimJSON struct{}

func (verbatimJSON) Name() string { return "json" }
func (verbatimJSON) Append(dst []byte, v json.RawMessage) ([]byte, error) {
	return append(dst, v...), nil
}
func (verbatimJSON) Decode(b []byte) (json.RawMessage, error) { return b, nil }

// TestPayloadWithoutGolden: the hashes are in stores. They never change.
func TestPayloadWithoutGolden(t *testing.T) {
	names, err := Without{"id", "at"}.canonical()
	if err != nil {
		t.Fatal(err)
	}
	hash := hasherWithout[string](verbatimJSON{}, names)
	got, err := hash(topology.Record[string, json.RawMessage]{Value: json.RawMessage(`{"z":[1.50,"x"],"at":7,"id":"e","a":{"id":1}}`)})
	if want := sha256.Sum256([]byte(`{"a":{"id":1},"z":[15e-1,"x"]}`)); got != want || err != nil {
		t.Errorf("the hash is %x, %v, want %x", got, err, want)
	}
}
