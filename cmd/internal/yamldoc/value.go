package yamldoc

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Value is a value of a file, or the place where one is missing. A missing value, and one that is
// not of the kind that is asked for, gives zero results; only the second is a mistake.
type Value struct {
	file *File
	// node is nil if the value is missing.
	node ast.Node
	// path names the value in mistakes, such as steps[2].dedupe.name; empty for the document.
	path string
	// at is where the value is, or where its mapping begins if it is missing.
	at Position
}

// Present reports whether the value is there.
func (v Value) Present() bool { return v.node != nil }

// Position returns where the value is, or where its mapping begins if it is missing.
func (v Value) Position() Position { return v.at }

// Path names the value by the keys that lead to it, such as steps[2].dedupe.name. It is empty for
// the document.
func (v Value) Path() string { return v.path }

// Key is the last part of the path.
func (v Value) Key() string { return v.path[strings.LastIndexByte(v.path, '.')+1:] }

// Mistake notes that something is wrong with the value.
func (v Value) Mistake(format string, args ...any) { v.mistakeAt(v.at, format, args...) }

func (v Value) mistakeAt(at Position, format string, args ...any) {
	if v.path != "" {
		format = "%s: " + format
		args = append([]any{v.path}, args...)
	}
	v.file.Mistake(at, format, args...)
}

func (v Value) child(node ast.Node, path string) Value {
	return Value{file: v.file, node: node, path: path, at: v.file.position(node)}
}

func (f *File) position(node ast.Node) Position {
	at := Position{File: f.name, Line: 1, Column: 1}
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		// The token of a block mapping is the colon behind its first key.
		node = m.Values[0].Key
	}
	if t := node.GetToken(); t != nil && t.Position != nil {
		at.Line, at.Column = t.Position.Line, t.Position.Column
	}
	return at
}

// Text returns the value as a text. It is a mistake if the value is empty or anything else than
// text, so that no topic is called 0x10 or null by accident.
func (v Value) Text() string {
	switch n := v.node.(type) {
	case nil:
		return ""
	case *ast.StringNode:
		return v.filled(n.Value)
	case *ast.LiteralNode:
		return v.filled(n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		v.Mistake("must be text and is %s; put it in quotes", kindOf(v.node))
	default:
		v.wrongKind("text")
	}
	return ""
}

// Source returns the value as a piece of another language: any scalar, as it is written.
func (v Value) Source() string {
	switch n := v.node.(type) {
	case nil:
		return ""
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value
	case *ast.MappingNode, *ast.SequenceNode:
		v.Mistake("must be an expression and is %s of YAML; put the expression in quotes", kindOf(v.node))
		return ""
	default:
		return v.Text()
	}
}

// Word returns a scalar as it is written, whatever its type. It is for values that another parser
// checks.
func (v Value) Word() string {
	switch n := v.node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value
	default:
		return v.Text()
	}
}

// Bool returns the value as a bool.
func (v Value) Bool() bool {
	switch n := v.node.(type) {
	case nil:
		return false
	case *ast.BoolNode:
		return n.Value
	default:
		v.wrongKind("true or false")
		return false
	}
}

// Choice returns the value if it is one of the allowed ones, and the first of them if it is missing
// or wrong.
func (v Value) Choice(allowed ...string) string {
	if v.node == nil {
		return allowed[0]
	}
	text := v.Word()
	if text == "" || slices.Contains(allowed, text) {
		return text
	}
	v.Mistake("%q is not known; %s", text, suggestion(text, allowed))
	return allowed[0]
}

// List returns the elements of the value.
func (v Value) List() []Value {
	switch n := v.node.(type) {
	case nil:
		return nil
	case *ast.SequenceNode:
		if len(n.Values) == 0 {
			v.Mistake("is empty")
		}
		out := make([]Value, len(n.Values))
		for i, element := range n.Values {
			out[i] = v.child(element, v.path+"["+strconv.Itoa(i)+"]")
		}
		return out
	default:
		v.wrongKind("a list")
		return nil
	}
}

// IsList reports whether the value is a list.
func (v Value) IsList() bool {
	_, ok := v.node.(*ast.SequenceNode)
	return ok
}

// IsMapping reports whether the value is a mapping.
func (v Value) IsMapping() bool {
	_, ok := v.node.(*ast.MappingNode)
	return ok
}

// IsEmptyMapping reports whether the value is a mapping without keys.
func (v Value) IsEmptyMapping() bool {
	n, ok := v.node.(*ast.MappingNode)
	return ok && len(n.Values) == 0
}

// IsEmptyList reports whether the value is a list without elements.
func (v Value) IsEmptyList() bool {
	n, ok := v.node.(*ast.SequenceNode)
	return ok && len(n.Values) == 0
}

// In returns the place of a character of the text: its line, from 1, and its column, from 0, within
// the text. Where the writing of the text hides the place, it is that of the text as a whole.
func (v Value) In(line, column int) Position {
	at := v.at
	switch n := v.node.(type) {
	case *ast.StringNode:
		skip := 0
		if n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType {
			skip = 1
		}
		if line == 1 && strings.HasPrefix(v.file.from(at.Line, at.Column+skip), n.Value) {
			at.Column += skip + column
		}
	case *ast.LiteralNode:
		text := strings.Split(n.Value.Value, "\n")
		if n.Start.Type != token.LiteralType || line < 1 || line > len(text) {
			break
		}
		written := v.file.from(at.Line+line, 1)
		if indent := strings.Index(written, text[line-1]); indent >= 0 {
			at.Line, at.Column = at.Line+line, indent+column+1
		}
	}
	return at
}

// from returns the rest of a line of the file from a column on.
func (f *File) from(line, column int) string {
	if line < 1 || line > len(f.lines) {
		return ""
	}
	text := []rune(f.lines[line-1])
	return string(text[min(column-1, len(text)):])
}

func (v Value) filled(text string) string {
	if strings.TrimSpace(text) == "" {
		v.Mistake("is empty")
		return ""
	}
	return text
}

func (v Value) wrongKind(want string) {
	switch v.node.(type) {
	case *ast.NullNode:
		v.Mistake("is empty; it must be %s", want)
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		v.Mistake("%s are not supported; write the value out", kindOf(v.node))
	default:
		v.Mistake("must be %s and is %s", want, kindOf(v.node))
	}
}

func kindOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.NullNode:
		return "null"
	case *ast.AnchorNode, *ast.AliasNode:
		return "anchors and aliases"
	case *ast.TagNode:
		return "tags"
	case *ast.MergeKeyNode:
		return "merge keys"
	}
	return "a value that cannot be read"
}
