package virtual_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// finding is a place where a test outside of a bubble depends on the wall clock.
type finding struct {
	file string
	line int
	what string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.what) }

// shortest is the shortest deadline that a test may have on the wall clock. A longer one only
// decides how long a failure takes to show.
const shortest = 30 * time.Second

// directory is what the search knows of the test files of one directory. It looks at names alone,
// without types, so that functions and methods of one name are one. Where that is not enough, it
// takes code for being outside of a bubble.
type directory struct {
	fset  *token.FileSet
	files []*ast.File
	// constants are those of all files of the directory.
	constants map[string]ast.Expr
	// starters run a function literal that they are given in a bubble, and nowhere else.
	starters map[string]bool
	// bubbled are called in bubbles and nowhere else.
	bubbled map[string]bool
}

// wallClock returns the findings of a directory's test files, named as dir names them: calls of
// time.Sleep, and deadlines, timers and upper bounds of elapsed times that are shorter than
// shortest, outside of the function literals and functions that only bubbles run.
//
// It judges constants of the directory and no variables, so that a short timeout that is a
// parameter is not seen. Neither are tickers, nor what a method does that tests call in bubbles
// alone and the product elsewhere.
func wallClock(dir string) ([]finding, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	d := &directory{
		fset: token.NewFileSet(), constants: map[string]ast.Expr{},
		starters: map[string]bool{"virtual.Test": true, "synctest.Test": true, "cluster.OnVirtual": true}, bubbled: map[string]bool{},
	}
	for _, name := range names {
		f, err := parser.ParseFile(d.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		d.declare(f)
		if strings.HasSuffix(name, "_test.go") {
			d.files = append(d.files, f)
		}
	}
	d.findStarters()
	d.findBubbled()
	var found []finding
	for _, f := range d.files {
		d.outside(f, func(n ast.Node) {
			if what := d.offence(n); what != "" {
				at := d.fset.Position(n.Pos())
				found = append(found, finding{filepath.ToSlash(at.Filename), at.Line, what})
			}
		})
		d.eachFunc(f, func(fn *ast.FuncDecl) { found = append(found, d.bounds(fn)...) })
	}
	slices.SortFunc(found, func(a, b finding) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	return found, nil
}

// declare remembers the constants of a file.
func (d *directory) declare(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.CONST {
			for _, spec := range decl.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) {
						d.constants[name.Name] = v.Values[i]
					}
				}
			}
		}
		return true
	})
}

func (d *directory) eachFunc(f *ast.File, do func(*ast.FuncDecl)) {
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			do(fn)
		}
	}
}

// outside visits every node that is in no bubble, without the function literals and names that are
// handed to starters.
func (d *directory) outside(root ast.Node, visit func(ast.Node)) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case nil:
			return false
		case *ast.FuncDecl:
			if d.bubbled[n.Name.Name] {
				return false
			}
		case *ast.CallExpr:
			if d.starters[nameOf(n.Fun)] {
				visit(n)
				d.outside(n.Fun, visit)
				for _, arg := range n.Args {
					switch arg.(type) {
					case *ast.FuncLit, *ast.Ident, *ast.SelectorExpr:
					default:
						d.outside(arg, visit)
					}
				}
				return false
			}
		}
		visit(n)
		return true
	})
}

// findStarters finds the functions that use a function parameter in bubbles alone, until there are
// no more.
func (d *directory) findStarters() {
	for more := true; more; {
		more = false
		for _, f := range d.files {
			d.eachFunc(f, func(fn *ast.FuncDecl) {
				if d.starters[fn.Name.Name] || fn.Recv != nil {
					return
				}
				for _, param := range fn.Type.Params.List {
					if _, ok := param.Type.(*ast.FuncType); !ok || len(param.Names) != 1 {
						continue
					}
					name := param.Names[0].Name
					if used(fn.Body, name) && !d.usedOutside(fn.Body, name) {
						d.starters[fn.Name.Name], more = true, true
					}
				}
			})
		}
	}
}

func used(root ast.Node, name string) (yes bool) {
	ast.Inspect(root, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			yes = true
		}
		return !yes
	})
	return yes
}

func (d *directory) usedOutside(root ast.Node, name string) (yes bool) {
	d.outside(root, func(n ast.Node) {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			yes = true
		}
	})
	return yes
}

// findBubbled takes every function that something refers to for bubbled, and then takes out those
// that are referred to outside of bubbles, until there are no more.
func (d *directory) findBubbled() {
	declared, references := map[string]int{}, map[string]int{}
	for _, f := range d.files {
		d.eachFunc(f, func(fn *ast.FuncDecl) { declared[fn.Name.Name]++ })
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				references[id.Name]++
			}
			return true
		})
	}
	for name, n := range declared {
		entry := name == "init" || name == "TestMain" || slices.ContainsFunc([]string{"Test", "Benchmark", "Fuzz", "Example"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		d.bubbled[name] = !entry && references[name] > n
	}
	for more := true; more; {
		more = false
		for _, f := range d.files {
			d.outside(f, func(n ast.Node) {
				id, ok := n.(*ast.Ident)
				if ok && d.bubbled[id.Name] {
					d.bubbled[id.Name], more = false, true
				}
			})
		}
	}
}

// offence says how a node depends on the wall clock, "" if it does not.
func (d *directory) offence(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		switch name := nameOf(n.Fun); name {
		case "time.Sleep":
			return name
		case "time.After", "time.NewTimer", "time.AfterFunc", "time.Tick":
			return d.short(name, n.Args[0])
		case "context.WithTimeout", "context.WithTimeoutCause":
			return d.short(name, n.Args[1])
		default:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasSuffix(sel.Sel.Name, "Deadline") {
				for _, arg := range n.Args {
					if after, ok := fromNow(arg); ok {
						return d.short(sel.Sel.Name, after)
					}
				}
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if id, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && strings.Contains(strings.ToLower(id.Name), "deadline") {
				if after, ok := fromNow(n.Rhs[i]); ok {
					return d.short(id.Name, after)
				}
			}
		}
	}
	return ""
}

// bounds finds comparisons that want a duration of the wall clock to be short.
func (d *directory) bounds(fn *ast.FuncDecl) (found []finding) {
	elapsed := map[string]bool{}
	isElapsed := func(e ast.Expr) bool {
		call, ok := e.(*ast.CallExpr)
		if ok {
			return nameOf(call.Fun) == "time.Since"
		}
		return elapsed[nameOf(e)]
	}
	d.outside(fn, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) && isElapsed(n.Rhs[i]) {
					elapsed[nameOf(left)] = true
				}
			}
		case *ast.BinaryExpr:
			small, large := n.X, n.Y // small < large
			switch n.Op {
			case token.GTR, token.GEQ:
				small, large = n.Y, n.X
			case token.LSS, token.LEQ:
			default:
				return
			}
			if what := d.short("an upper bound", small); what != "" && isElapsed(large) {
				at := d.fset.Position(n.Pos())
				found = append(found, finding{filepath.ToSlash(at.Filename), at.Line, what})
			}
		}
	})
	return found
}

// short says that a duration is shorter than allowed. One that is no constant of the directory is
// not judged.
func (d *directory) short(what string, e ast.Expr) string {
	if v, ok := d.eval(e, 0); ok && v < float64(shortest) {
		return fmt.Sprintf("%s of %s", what, time.Duration(math.Round(v)))
	}
	return ""
}

var units = map[string]time.Duration{
	"time.Nanosecond": time.Nanosecond, "time.Microsecond": time.Microsecond, "time.Millisecond": time.Millisecond,
	"time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
}

// eval computes a constant expression. What refers to itself has no value.
func (d *directory) eval(e ast.Expr, depth int) (float64, bool) {
	if depth > 20 {
		return 0, false
	}
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.ParseFloat(strings.ReplaceAll(e.Value, "_", ""), 64)
		return v, err == nil
	case *ast.ParenExpr:
		return d.eval(e.X, depth+1)
	case *ast.SelectorExpr:
		unit, ok := units[nameOf(e)]
		return float64(unit), ok
	case *ast.Ident:
		if value, ok := d.constants[e.Name]; ok {
			return d.eval(value, depth+1)
		}
	case *ast.CallExpr:
		if nameOf(e.Fun) == "time.Duration" {
			return d.eval(e.Args[0], depth+1)
		}
	case *ast.BinaryExpr:
		x, okX := d.eval(e.X, depth+1)
		y, okY := d.eval(e.Y, depth+1)
		if !okX || !okY {
			return 0, false
		}
		switch e.Op {
		case token.ADD:
			return x + y, true
		case token.SUB:
			return x - y, true
		case token.MUL:
			return x * y, true
		case token.QUO:
			return x / y, y != 0
		}
	}
	return 0, false
}

// fromNow returns d of time.Now().Add(d).
func fromNow(e ast.Expr) (ast.Expr, bool) {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return nil, false
	}
	add, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || add.Sel.Name != "Add" {
		return nil, false
	}
	now, ok := add.X.(*ast.CallExpr)
	return call.Args[0], ok && nameOf(now.Fun) == "time.Now"
}

// nameOf returns x or p.x, "" for everything else.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if p, ok := e.X.(*ast.Ident); ok {
			return p.Name + "." + e.Sel.Name
		}
	}
	return ""
}

// testDirectories returns the directories below root that have test files.
func testDirectories(root string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil:
			return err
		case e.IsDir() && path != root && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")):
			return filepath.SkipDir
		case !e.IsDir() && strings.HasSuffix(name, "_test.go"):
			found[filepath.Dir(path)] = true
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}
