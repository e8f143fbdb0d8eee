package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/onceward/onceward/schemas"
)

// A kind is one of Avro's types.
type kind uint8

const (
	kindNull kind = iota
	kindBoolean
	kindInt
	kindLong
	kindFloat
	kindDouble
	kindBytes
	kindString
	kindRecord
	kindEnum
	kindFixed
	kindArray
	kindMap
	kindUnion
)

// kindNames are the names of kinds in schemas; unions have none there.
var kindNames = [...]string{
	kindNull: "null", kindBoolean: "boolean", kindInt: "int", kindLong: "long", kindFloat: "float",
	kindDouble: "double", kindBytes: "bytes", kindString: "string", kindRecord: "record", kindEnum: "enum",
	kindFixed: "fixed", kindArray: "array", kindMap: "map", kindUnion: "union",
}

func (k kind) String() string { return kindNames[k] }

// primitives are the shapes without parts. Shapes are immutable once compiled, so
// all schemas share these.
var primitives = func() map[string]*shape {
	m := make(map[string]*shape)
	for k := kindNull; k <= kindString; k++ {
		m[k.String()] = &shape{kind: k}
	}
	return m
}()

// A shape is a schema as far as the layout of binary values goes, with references
// by name resolved: recursive types are cycles.
type shape struct {
	kind     kind
	name     string   // full name of a record, enum or fixed
	fields   []field  // record
	items    *shape   // array, and values of a map
	branches []*shape // union
	symbols  []string // enum
	size     int      // fixed
	logical  bool     // has a logical type, which changes the Go type but not the layout
}

type field struct {
	name string
	typ  *shape
}

// A compiler reads one schema.
type compiler struct {
	named map[string]*shape // by full name
	// The types that the schema contains somewhere.
	hasBytes, hasMaps bool
}

// compile reads a schema in Avro's JSON form. It returns the shape of the record at its top, and
// the same schema without default values, which the library uses to encode. Defaults are for
// readers of older values. If they were applied when writing, a field that a conversion function
// omits or misspells would be lost silently.
func (c *compiler) compile(schema string) (root *shape, withoutDefaults string, err error) {
	// HashJSON is the strictest reader at hand: a key that stands twice would
	// let two readers see two schemas. It also bounds the depth of the recursion.
	if _, err := schemas.HashJSON([]byte(schema)); err != nil {
		return nil, "", err
	}
	var tree any
	if err := json.Unmarshal([]byte(schema), &tree); err != nil {
		return nil, "", err
	}
	c.named = make(map[string]*shape)
	if root, err = c.schema(tree, ""); err != nil {
		return nil, "", err
	}
	if root.kind != kindRecord {
		return nil, "", fmt.Errorf("the top is a %s, want a record", root.kind)
	}
	stripped, err := json.Marshal(tree)
	if err != nil {
		return nil, "", err
	}
	return root, string(stripped), nil
}

// schema compiles a schema in the namespace that encloses it, and takes the
// defaults of fields out of the tree.
func (c *compiler) schema(tree any, namespace string) (*shape, error) {
	switch tree := tree.(type) {
	case string:
		return c.reference(tree, namespace)
	case []any:
		return c.union(tree, namespace)
	case map[string]any:
		return c.object(tree, namespace)
	default:
		return nil, fmt.Errorf("a schema is a JSON string, array or object, not a Go %T", tree)
	}
}

// reference returns the shape of a primitive type or of a named type defined
// before.
func (c *compiler) reference(name, namespace string) (*shape, error) {
	if s, ok := primitives[name]; ok {
		c.hasBytes = c.hasBytes || s.kind == kindBytes
		return s, nil
	}
	full := qualify(name, namespace)
	s, ok := c.named[full]
	if !ok {
		return nil, fmt.Errorf("type %q is not defined before it is used", full)
	}
	if _, ok := c.named[name]; ok && full != name {
		// The library would take the other one.
		return nil, fmt.Errorf("%q could be the type in namespace %q or the one in none; use full names",
			name, namespace)
	}
	return s, nil
}

func (c *compiler) union(tree []any, namespace string) (*shape, error) {
	if len(tree) == 0 {
		return nil, errors.New("union without branches")
	}
	s := &shape{kind: kindUnion}
	for _, branch := range tree {
		b, err := c.schema(branch, namespace)
		if err != nil {
			return nil, err
		}
		if b.kind == kindUnion {
			return nil, errors.New("union directly in a union")
		}
		s.branches = append(s.branches, b)
	}
	return s, nil
}

func (c *compiler) object(tree map[string]any, namespace string) (*shape, error) {
	name, ok := tree["type"].(string)
	if !ok {
		return nil, errors.New(`"type" is missing or not a string`)
	}
	logical := tree["logicalType"] != nil
	switch name {
	case "array":
		items, err := c.part(tree, "items", namespace)
		return &shape{kind: kindArray, items: items}, err
	case "map":
		c.hasMaps = true
		values, err := c.part(tree, "values", namespace)
		return &shape{kind: kindMap, items: values}, err
	case "record":
		return c.define(&shape{kind: kindRecord}, tree, namespace, c.record)
	case "enum":
		return c.define(&shape{kind: kindEnum}, tree, namespace, c.enum)
	case "fixed":
		c.hasBytes = true
		return c.define(&shape{kind: kindFixed, logical: logical}, tree, namespace, c.fixed)
	default:
		s, err := c.reference(name, namespace)
		if err == nil && logical && s.name == "" {
			s = &shape{kind: s.kind, logical: true}
		}
		return s, err
	}
}

// part compiles the schema of the items of an array or the values of a map.
func (c *compiler) part(tree map[string]any, key, namespace string) (*shape, error) {
	s, err := c.schema(tree[key], namespace)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", key, err)
	}
	return s, nil
}

// define gives s, a record, enum or fixed, its full name, by which it can be
// referred to from here on, and has its parts compiled.
func (c *compiler) define(s *shape, tree map[string]any, namespace string,
	parts func(s *shape, tree map[string]any, namespace string) error,
) (*shape, error) {
	name, ok := tree["name"].(string)
	if !ok {
		return nil, fmt.Errorf(`%s: "name" is missing or not a string`, s.kind)
	}
	if own, ok := tree["namespace"]; ok {
		ns, ok := own.(string)
		if !ok || ns == "" && namespace != "" {
			// The library reads an empty namespace as none given, Avro as none.
			return nil, fmt.Errorf(`%s %q: "namespace" is empty or not a string`, s.kind, name)
		}
		namespace = ns
	}
	s.name = qualify(name, namespace)
	for part := range strings.SplitSeq(s.name, ".") {
		if !isName(part) {
			return nil, fmt.Errorf("%s: %q is not a name", s.kind, s.name)
		}
	}
	if _, ok := primitives[s.name]; ok {
		return nil, fmt.Errorf("%s: %q is the name of a primitive type", s.kind, s.name)
	}
	if _, ok := c.named[s.name]; ok {
		return nil, fmt.Errorf("type %q is defined twice", s.name)
	}
	c.named[s.name] = s
	if err := parts(s, tree, s.name[:max(strings.LastIndexByte(s.name, '.'), 0)]); err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.kind, s.name, err)
	}
	return s, nil
}

func (c *compiler) record(s *shape, tree map[string]any, namespace string) error {
	fields, ok := tree["fields"].([]any)
	if !ok {
		return errors.New(`"fields" is missing or not an array`)
	}
	seen := make(map[string]struct{}, len(fields))
	for i, f := range fields {
		definition, ok := f.(map[string]any)
		if !ok {
			return fmt.Errorf("field %d is not an object", i)
		}
		name, ok := definition["name"].(string)
		if !ok || !isName(name) {
			return fmt.Errorf("field %d has no valid name", i)
		}
		if _, ok := seen[name]; ok {
			return fmt.Errorf("field %s is defined twice", name)
		}
		seen[name] = struct{}{}
		t, err := c.schema(definition["type"], namespace)
		if err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
		delete(definition, "default")
		s.fields = append(s.fields, field{name: name, typ: t})
	}
	return nil
}

func (c *compiler) enum(s *shape, tree map[string]any, _ string) error {
	symbols, ok := tree["symbols"].([]any)
	if !ok || len(symbols) == 0 {
		return errors.New(`"symbols" is missing, empty or not an array`)
	}
	for i, symbol := range symbols {
		name, ok := symbol.(string)
		if !ok || !isName(name) {
			return fmt.Errorf("symbol %d is not a name", i)
		}
		s.symbols = append(s.symbols, name)
	}
	return nil
}

func (c *compiler) fixed(s *shape, tree map[string]any, _ string) error {
	size, ok := tree["size"].(float64)
	if !ok || size < 1 || size > MaxBytes || size != float64(int(size)) {
		return fmt.Errorf(`"size" is not an integer from 1 to %d`, MaxBytes)
	}
	s.size = int(size)
	return nil
}

// qualify returns the full name of name in a namespace; a name with a dot is
// one already.
func qualify(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

// isName reports whether s is a name by Avro's rules: A-Z, a-z, digits and underscores, no digit
// first.
func isName(s string) bool {
	for i, b := range []byte(s) {
		letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || b == '_'
		if !letter && (i == 0 || b < '0' || b > '9') {
			return false
		}
	}
	return s != ""
}
