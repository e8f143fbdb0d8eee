package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"cel.dev/cel-go/common/types"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The types of every stream of a pipeline. An absent key or value is a null.
type (
	key    = topology.Option[string]
	value  = topology.Option[*document]
	record = topology.Record[key, value]
	stream = topology.Stream[key, value]
)

// document is a JSON document that keeps its spelling: what no expression has looked into leaves a
// pipeline byte for byte as it came, and the numbers of what one has looked into are as exact as
// they were written. It belongs to one task, as the record does.
type document struct {
	// raw is valid JSON without duplicate keys.
	raw []byte
	// tree is raw in the types of decodeTree, once an expression has asked for it.
	tree   any
	parsed bool
}

// Tree returns the document as a value for expressions.
func (d *document) Tree() any {
	if !d.parsed {
		d.tree, d.parsed = decodeTree(d.raw), true
	}
	return d.tree
}

// MarshalJSON returns the document. encoding/json takes white space out of it and nothing else.
func (d *document) MarshalJSON() ([]byte, error) {
	if d == nil {
		return nil, schemas.Reason("there is no document")
	}
	return d.raw, nil
}

// UnmarshalJSON reads a document.
func (d *document) UnmarshalJSON(b []byte) error {
	if _, err := schemas.HashJSON(b); err != nil {
		return err
	}
	*d = document{raw: bytes.Clone(b)}
	return nil
}

// documentCodec is JSON as schemas.JSON has it, except that duplicate keys and nesting beyond
// schemas.MaxJSONDepth are errors: two readers could take such a document for different ones.
type documentCodec struct{}

func (documentCodec) Name() string { return schemas.JSON[struct{}]().Name() }

func (c documentCodec) Append(dst []byte, d *document) ([]byte, error) {
	if d == nil {
		return dst, c.fail(schemas.OpAppend, -1, "there is no document")
	}
	if len(d.raw) > schemas.MaxJSONBytes {
		return dst, c.fail(schemas.OpAppend, -1, tooLarge())
	}
	return append(dst, d.raw...), nil
}

func (c documentCodec) Decode(b []byte) (*document, error) {
	if len(b) > schemas.MaxJSONBytes {
		return nil, c.fail(schemas.OpDecode, schemas.MaxJSONBytes, tooLarge())
	}
	if _, err := schemas.HashJSON(b); err != nil {
		offset, reason := int64(-1), schemas.ReasonOf(err)
		if e, ok := errors.AsType[*schemas.Error](err); ok {
			offset = e.Offset
		}
		return nil, c.fail(schemas.OpDecode, offset, reason)
	}
	return &document{raw: bytes.Clone(b)}, nil
}

func (c documentCodec) fail(op string, offset int64, reason string) error {
	return &schemas.Error{Codec: c.Name(), Op: op, Offset: offset, Reason: reason}
}

func tooLarge() string { return fmt.Sprintf("larger than the limit of %d bytes", schemas.MaxJSONBytes) }

// keyCodec is the codec of keys in stores, where no key is null: the processors refuse null keys
// before.
type keyCodec struct{}

func (keyCodec) Name() string { return schemas.String().Name() }

func (c keyCodec) Append(dst []byte, k key) ([]byte, error) {
	text, ok := k.Get()
	if !ok {
		return dst, &schemas.Error{
			Codec: c.Name(), Op: schemas.OpAppend, Offset: -1, Reason: "a null key has no place in a store",
		}
	}
	return schemas.String().Append(dst, text)
}

func (keyCodec) Decode(b []byte) (key, error) {
	text, err := schemas.String().Decode(b)
	if err != nil {
		return topology.None[string](), err
	}
	return topology.Some(text), nil
}

// payloadHash is how an inbox compares: by the canonical form of the document, so that no
// difference is lost and no difference of spelling counts. A null is a payload of its own.
func payloadHash(r record) ([32]byte, error) {
	d, ok := r.Value.Get()
	if !ok {
		return [32]byte{}, nil
	}
	return schemas.HashJSON(d.raw)
}

// topicOf is a topic of documents with string keys, in both of which nulls are allowed.
func topicOf(name string) topology.TopicOf[key, value] {
	return topology.Topic(name, nullableKeys(), nullableValues())
}

func nullableKeys() schemas.Codec[key] { return topology.Nullable(schemas.String()) }

func nullableValues() schemas.Codec[value] {
	return topology.Nullable(schemas.Codec[*document](documentCodec{}))
}

// throughCodec is the JSON of W for values of V.
type throughCodec[V, W any] struct {
	schemas.Codec[W]
	there func(V) W
	back  func(W) V
}

func through[V, W any](there func(V) W, back func(W) V) schemas.Codec[V] {
	return throughCodec[V, W]{schemas.JSON[W](), there, back}
}

func (c throughCodec[V, W]) Append(dst []byte, v V) ([]byte, error) {
	return c.Codec.Append(dst, c.there(v))
}

func (c throughCodec[V, W]) Decode(b []byte) (V, error) {
	w, err := c.Codec.Decode(b)
	if err != nil {
		var zero V
		return zero, err
	}
	return c.back(w), nil
}

// decodeTree returns a valid document in types that CEL takes without a conversion: nil, bool,
// string, []any, map[string]any, int64, uint64, float64 and exactNumber. CEL's own reading of
// json.Number rounds.
func decodeTree(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		// HashJSON has accepted the document. If the two ever disagree, every expression that looks
		// at it fails.
		return types.WrapErr(schemas.Reason("the document cannot be read"))
	}
	return exact(tree)
}

// exact replaces the numbers of a tree, in place where it can.
func exact(tree any) any {
	switch t := tree.(type) {
	case json.Number:
		return numberOf(string(t))
	case []any:
		for i := range t {
			t[i] = exact(t[i])
		}
	case map[string]any:
		for k := range t {
			t[k] = exact(t[k])
		}
	}
	return tree
}
