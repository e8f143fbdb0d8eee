package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// A page is Markdown that Vale checks. lines[i] is the line in the source file of line i+1 of the
// text; it is nil if the two are the same.
type page struct {
	text  string
	lines []int
}

func (p *page) source(line int) int {
	if p.lines == nil || line < 1 || line > len(p.lines) {
		return line
	}
	return p.lines[line-1]
}

// A pageWriter builds the page of a Go file, in blocks that are separated by blank lines.
type pageWriter struct {
	text  strings.Builder
	lines []int
}

func (w *pageWriter) line(text string, source int) {
	w.text.WriteString(text)
	w.text.WriteByte('\n')
	w.lines = append(w.lines, source)
}

func (w *pageWriter) end(source int) { w.line("", source) }

// extract returns the page of a Go file: its comments, and its messages if messages is set. A
// generated file has an empty page.
func extract(name string, src []byte, messages bool) (*page, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	w := &pageWriter{lines: []int{}}
	if !ast.IsGenerated(file) {
		for _, group := range file.Comments {
			w.comment(fset, group)
		}
		if messages {
			ast.Inspect(file, func(n ast.Node) bool { return w.messages(fset, n) })
		}
	}
	return &page{text: w.text.String(), lines: w.lines}, nil
}

// extractMake returns the page of a Makefile: its comments and the help of its targets, whose parts
// are separated by semicolons.
func extractMake(src []byte) *page {
	w := &pageWriter{lines: []int{}}
	for i, line := range strings.Split(string(src), "\n") {
		_, help, _ := strings.Cut(line, " ## ")
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			w.line(unmarked.Replace(comment), i+1)
		} else {
			w.end(i + 1)
			for part := range strings.SplitSeq(help, "; ") {
				w.message(part, i+1)
			}
		}
	}
	return &page{text: w.text.String(), lines: w.lines}
}

var (
	directive = regexp.MustCompile(`^//([a-z0-9]+:|nolint|export )`)
	output    = regexp.MustCompile(`(?i)^\s*(unordered )?output:`)
	ruler     = regexp.MustCompile(`^\s*[-=]+\s*$`)
	// A comment is not Markdown: these characters have no meaning in it.
	unmarked = strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`)
)

// comment writes a group of comments. Directives and the expected output of an example are left
// out.
func (w *pageWriter) comment(fset *token.FileSet, group *ast.CommentGroup) {
	last := 0
	for _, c := range group.List {
		at := fset.Position(c.Pos()).Line
		if directive.MatchString(c.Text) {
			continue
		}
		text, isLine := strings.CutPrefix(c.Text, "//")
		if !isLine {
			text = strings.TrimSuffix(strings.TrimPrefix(text, "/*"), "*/")
		}
		for i, line := range strings.Split(text, "\n") {
			if isLine {
				line = strings.TrimPrefix(line, " ")
			} else if i == 0 {
				line = strings.TrimSpace(line)
			}
			if output.MatchString(line) {
				w.end(at)
				return
			}
			if ruler.MatchString(line) {
				line = ""
			}
			last = at + i
			w.line(unmarked.Replace(line), last)
		}
	}
	w.end(last)
}

// messages writes the strings of a node that are sentences. It reports whether the children of
// the node have to be looked at.
func (w *pageWriter) messages(fset *token.FileSet, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.Field:
		if n.Tag != nil {
			tag, err := strconv.Unquote(n.Tag.Value)
			if err == nil {
				w.message(reflect.StructTag(tag).Get("help"), fset.Position(n.Tag.Pos()).Line)
			}
			ast.Inspect(n.Type, func(n ast.Node) bool { return w.messages(fset, n) })
			return false
		}
	case *ast.BinaryExpr:
		if n.Op != token.ADD {
			return true
		}
		var text strings.Builder
		w.join(fset, n, &text)
		w.message(text.String(), fset.Position(n.Pos()).Line)
		return false
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			if text, err := strconv.Unquote(n.Value); err == nil {
				w.message(text, fset.Position(n.Pos()).Line)
			}
		}
	}
	return true
}

// join appends the text of a sum of strings. An operand that is not a literal becomes one word.
func (w *pageWriter) join(fset *token.FileSet, n ast.Expr, text *strings.Builder) {
	if sum, ok := n.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		w.join(fset, sum.X, text)
		w.join(fset, sum.Y, text)
		return
	}
	if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if part, err := strconv.Unquote(lit.Value); err == nil {
			text.WriteString(part)
		}
		return
	}
	text.WriteString("X")
	ast.Inspect(n, func(n ast.Node) bool { return w.messages(fset, n) })
}

var (
	word = regexp.MustCompile(`^[("'` + "`" + `]?[A-Za-z][a-z'-]*[)"'` + "`" + `]?[,.;:?]?$`)
	sql  = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|WITH|LOCK|MERGE|COPY|SET|TRUNCATE|AND|FROM|WHERE)\b`)
)

// message writes each line of a string that is a sentence: at least four words, and not code.
func (w *pageWriter) message(text string, source int) {
	for _, line := range strings.Split(text, "\n") {
		fields, words := strings.Fields(line), 0
		for _, f := range fields {
			if word.MatchString(f) {
				words++
			}
		}
		if words < 4 || words*10 < len(fields)*6 || sql.MatchString(line) {
			continue
		}
		w.line(unmarked.Replace(strings.TrimSpace(line)), source)
		w.end(source)
	}
}
