package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxBytes is the size of the largest file. The files are written by hand; what is larger is
// another file.
const MaxBytes = 1 << 20

// depthMax is how deep the brackets of a file may be nested. The parser is recursive, and a stack
// that overflows cannot be recovered.
const depthMax = 100

// File is one file that is being read, with what was found wrong in it.
type File struct {
	name     string
	lines    []string
	body     ast.Node
	mistakes []*Mistake
}

// Parse reads src. The name is for mistakes only. It never fails: see [File.Err].
func Parse(name string, src []byte) *File {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	f := &File{name: name, lines: strings.Split(string(src), "\n")}
	if problem := unreadable(src); problem != "" {
		f.Mistake(Position{File: name}, "%s", problem)
		return f
	}
	tree, err := parse(src)
	if err != nil {
		f.syntax(err)
		return f
	}
	if len(tree.Docs) > 1 {
		at := Position{File: name, Line: 1, Column: 1}
		if start := tree.Docs[1].Start; start != nil {
			at.Line, at.Column = start.Position.Line, start.Position.Column
		}
		f.Mistake(at, "the file has several documents; keep one")
		return f
	}
	if len(tree.Docs) == 0 || empty(tree.Docs[0].Body) {
		f.Mistake(Position{File: name}, "the file is empty")
		return f
	}
	f.body = tree.Docs[0].Body
	return f
}

// ReadFile reads a file for [Parse]: no more of it than Parse needs to see that it is too large.
func ReadFile(name string) (src []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return ReadAll(f)
}

// ReadAll is [ReadFile] for a stream.
func ReadAll(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxBytes+1)) }

// Root returns the value that is the whole document.
func (f *File) Root() Value {
	return Value{file: f, node: f.body, at: Position{File: f.name, Line: 1, Column: 1}}
}

// empty reports whether a document has nothing but comments.
func empty(body ast.Node) bool {
	if body == nil {
		return true
	}
	_, comment := body.(*ast.CommentGroupNode)
	return comment
}

// unreadable says why the parser must not see src; it is empty if it may.
func unreadable(src []byte) string {
	switch {
	case len(src) > MaxBytes:
		return fmt.Sprintf("the file has more than %d bytes; is it the right file?", MaxBytes)
	case !utf8.Valid(src):
		return "the file is not UTF-8 text; is it the right file?"
	case nesting(src) > depthMax:
		return fmt.Sprintf("brackets or indentation are nested deeper than %d; is it the right file?", depthMax)
	}
	return ""
}

// nesting returns an upper bound of how deep the values of src are nested: every bracket that is
// open, even in a text, every "- " and "? " at the beginning of a line, and every step of the
// indentation.
func nesting(src []byte) int {
	open, deepest, levels := 0, 0, 0
	for line := range bytes.Lines(src) {
		indent := len(line) - len(bytes.TrimLeft(line, " "))
		entries := 0
		rest := line[indent:]
		for len(rest) > 1 && (rest[0] == '-' || rest[0] == '?' || rest[0] == ':') && rest[1] == ' ' {
			entries++
			rest = bytes.TrimLeft(rest[1:], " ")
		}
		levels = max(levels, entries+indent/2)
		for _, c := range line {
			switch c {
			case '[', '{':
				open++
				deepest = max(deepest, open)
			case ']', '}':
				open--
			}
		}
	}
	return deepest + levels
}

// parse is the parser of the library, without its panics: it is large, and a file that it trips
// over is a wrong file.
func parse(src []byte) (tree *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the file is no YAML that can be read")
		}
	}()
	return parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
}

// advice adds what to do to the messages of the parser that people meet most.
var advice = map[string]string{
	"mapping value is not allowed in this context": `": " begins a value; put a text that has one in quotes, ` +
		"and check the indentation",
	`found character '\t' that cannot start any token`: "indent with spaces, not with tabs",
}

func (f *File) syntax(err error) {
	syntax, ok := errors.AsType[yaml.Error](err)
	if !ok || syntax.GetToken() == nil || syntax.GetToken().Position == nil {
		f.Mistake(Position{File: f.name}, "%s", oneLine(err.Error()))
		return
	}
	at := syntax.GetToken().Position
	text := strings.ReplaceAll(oneLine(syntax.GetMessage()), "\t", `\t`)
	if hint := advice[text]; hint != "" {
		text += ": " + hint
	}
	f.Mistake(Position{File: f.name, Line: at.Line, Column: at.Column}, "%s", text)
}

// oneLine returns the first line of s.
func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
