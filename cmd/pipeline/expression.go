package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// costMax bounds the evaluation of one expression for one record, in units of CEL's cost model, of
// which an access to a field is one and a step of a comprehension a few. It is far above what a
// pipeline needs, and a record that exceeds it has cost milliseconds.
const costMax = 1_000_000

// The variables of expressions. The package documentation describes them.
const (
	varEvent     = "event"
	varKey       = "key"
	varTimestamp = "timestamp"
	varHeaders   = "headers"
	varOther     = "other"
	varSofar     = "sofar"
)

// variables are all variables with their types.
var variables = map[string]*cel.Type{
	varEvent:     cel.DynType,
	varKey:       cel.NullableType(cel.StringType),
	varTimestamp: cel.TimestampType,
	varHeaders:   cel.MapType(cel.StringType, cel.StringType),
	varOther:     cel.DynType,
	varSofar:     cel.DynType,
}

// language is what expressions at one place are written in.
type language struct {
	env *cel.Env
	// vars are the variables.
	vars []string
}

// The variables at the places where expressions are.
var (
	ofRecords    = []string{varEvent, varKey, varTimestamp, varHeaders}
	ofRows       = []string{varEvent, varKey}
	ofJoins      = []string{varEvent, varOther, varKey}
	ofAggregates = append([]string{varSofar}, ofRecords...)
	ofGroups     = append([]string{varSofar}, ofRows...)
	ofMerges     = []string{varSofar, varOther, varKey}
	ofNothing    = []string{}
)

// learn makes the languages of expressions.
func (r *reader) learn() error {
	base, err := cel.NewEnv(
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.EagerlyValidateDeclarations(true),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateTimestampLiterals(),
			cel.ValidateDurationLiterals()),
	)
	if err != nil {
		return err
	}
	for _, vars := range [][]string{ofRecords, ofRows, ofJoins, ofAggregates, ofGroups, ofMerges, ofNothing} {
		var opts []cel.EnvOption
		for _, name := range vars {
			opts = append(opts, cel.Variable(name, variables[name]))
		}
		env, err := base.Extend(opts...)
		if err != nil {
			return err
		}
		r.languages[strings.Join(vars, ",")] = &language{env: env, vars: vars}
	}
	return nil
}

// ofInput are the variables of an expression about what the current step reads.
func (r *reader) ofInput() []string {
	if r.input().shape == aTable {
		return ofRows
	}
	return ofRecords
}

// want is the type that an expression must have.
type want struct {
	// what is the type in words.
	what  string
	kinds []types.Kind
}

var (
	wantBool   = want{"a bool", []types.Kind{types.BoolKind}}
	wantString = want{"a string", []types.Kind{types.StringKind}}
	wantInt    = want{"an int", []types.Kind{types.IntKind, types.UintKind}}
	wantObject = want{"an object", []types.Kind{types.MapKind}}

	wantStringOrNull = want{"a string or null", []types.Kind{types.StringKind, types.NullTypeKind}}
	wantObjectOrNull = want{"an object or null", []types.Kind{types.MapKind, types.NullTypeKind}}
)

func (w want) allows(t *types.Type) bool {
	if t.Kind() == types.DynKind {
		return true
	}
	for _, k := range w.kinds {
		if t.Kind() == k {
			return true
		}
	}
	return false
}

// expression is a CEL expression at one place of a pipeline. It is safe for concurrent use.
type expression struct {
	// name is the key of the expression in its step, such as where, for the reasons of dead
	// letters.
	name string
	want want
	// event says that the expression is the event itself.
	event   bool
	program cel.Program
	// words are the names and texts of the expression. A reason may quote them: they are not the
	// record's.
	words map[string]bool
}

// compile checks the expression at v, which is about a record. The result is nil if v is missing or
// wrong.
func (r *reader) compile(v yamldoc.Value, name string, w want) *expression {
	return r.compileIn(ofRecords, v, name, w)
}

// compileIn is compile for an expression with other variables.
func (r *reader) compileIn(vars []string, v yamldoc.Value, name string, w want) *expression {
	source, in := v.Source(), r.languages[strings.Join(vars, ",")]
	if source == "" {
		return nil
	}
	checked, issues := in.env.Compile(source)
	if issues != nil && issues.Err() != nil {
		for _, e := range issues.Errors() {
			r.file.Mistake(v.In(e.Location.Line(), e.Location.Column()), "%s: %s", v.Path(), advised(e.Message, in.vars))
		}
		return nil
	}
	if out := checked.OutputType(); !w.allows(out) {
		v.Mistake("the expression must be %s and is %s", w.what, article(cel.FormatCELType(out)))
		return nil
	}
	program, err := in.env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(costMax))
	if err != nil {
		// Constant parts are evaluated here, such as a division by zero.
		v.Mistake("the expression cannot be evaluated: %s", oneLine(err.Error()))
		return nil
	}
	return &expression{
		name: name, want: w, program: program, words: words(checked.NativeRep().Expr()),
		event: strings.TrimSpace(source) == varEvent,
	}
}

// advised makes a message of the checker a line that says what to do. vars are the variables that
// there are.
func advised(message string, vars []string) string {
	message, _, _ = strings.Cut(oneLine(message), " (in container")
	message, _, _ = strings.Cut(message, " expecting ")
	message = strings.Replace(message, "mismatched input '<EOF>'", "unexpected end of the expression", 1)
	switch {
	case strings.HasPrefix(message, "undeclared reference") && len(vars) == 0:
		return message + "; there are no variables here"
	case strings.HasPrefix(message, "undeclared reference") && !strings.Contains(message, "did you mean"):
		return message + "; there are " + strings.Join(vars, ", ")
	case strings.Contains(message, "'_?_:_'") && strings.Contains(message, "null"):
		return message + "; write dyn(null) in place of null"
	case message == "invalid matches argument":
		return "the regular expression of matches is malformed; the syntax is that of RE2"
	}
	return message
}

func oneLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// words returns the names of fields and the texts in an expression.
func words(e ast.Expr) map[string]bool {
	found := map[string]bool{}
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.SelectKind:
			found[e.AsSelect().FieldName()] = true
		case ast.LiteralKind:
			if s, ok := e.AsLiteral().(types.String); ok {
				found[string(s)] = true
			}
		default: // has no word of its own
		}
	}))
	return found
}

// binding is a variable beside those of the record.
type binding struct {
	name  string
	value value
}

// scope is the variables of one record.
type scope struct {
	record   *record
	bindings []binding
}

func (s scope) ResolveName(name string) (any, bool) {
	for _, b := range s.bindings {
		if b.name == name {
			return treeOf(b.value), true
		}
	}
	switch name {
	case varEvent:
		return treeOf(s.record.Value), true
	case varKey:
		if text, ok := s.record.Key.Get(); ok {
			return types.String(text), true
		}
		return types.NullValue, true
	case varTimestamp:
		return types.Timestamp{Time: time.UnixMilli(s.record.Timestamp).UTC()}, true
	case varHeaders:
		return textHeaders(s.record.Headers), true
	}
	return nil, false
}

func (scope) Parent() cel.Activation { return nil }

// treeOf returns a value for expressions.
func treeOf(v value) any {
	if d, ok := v.Get(); ok {
		return d.Tree()
	}
	return types.NullValue
}

// textHeaders returns the headers that are text. The last of several headers with one key counts,
// as in Record.Header.
func textHeaders(headers []topology.Header) map[string]string {
	m := make(map[string]string, len(headers))
	for _, h := range headers {
		if utf8.Valid(h.Value) && utf8.ValidString(h.Key) {
			m[h.Key] = string(h.Value)
		} else {
			delete(m, h.Key)
		}
	}
	return m
}

func (e *expression) eval(r *record, more []binding) (ref.Val, error) {
	out, _, err := e.program.Eval(scope{r, more})
	if err != nil {
		return nil, e.fail(e.reason(err))
	}
	return out, nil
}

// fail makes a failure of the record. The reason must not quote the record: dead letters carry it.
func (e *expression) fail(reason string) error {
	return topology.Fail(topology.Validation, schemas.Reason(e.name+": "+reason))
}

func (e *expression) wrongType(v ref.Val) error {
	is := article(v.Type().TypeName())
	if v == types.NullValue {
		is = "null"
	}
	return e.fail("the result must be " + e.want.what + " and is " + is)
}

// safeReasons maps the beginnings of CEL's errors to reasons. The rest of such an error may quote
// the record.
var safeReasons = []struct{ prefix, reason string }{
	{"no such overload", "an operator or function does not take the types of these values"},
	{"index out of bounds", "an index is out of bounds"},
	{"division by zero", "division by zero"},
	{"modulus by zero", "modulus by zero"},
	{"integer overflow", "integer overflow"},
	{"unsigned integer overflow", "integer overflow"},
	{"duration overflow", "duration overflow"},
	{"timestamp overflow", "timestamp overflow"},
}

// reason says why an evaluation failed, without quoting the record, which CEL's own texts do.
func (e *expression) reason(err error) string {
	if reason, ok := errors.AsType[schemas.Reason](err); ok {
		return string(reason)
	}
	text := err.Error()
	if field, ok := strings.CutPrefix(text, "no such key: "); ok {
		if e.words[field] {
			return "the field " + field + " is missing"
		}
		return "a field is missing"
	}
	for _, safe := range safeReasons {
		if strings.HasPrefix(text, safe.prefix) {
			return safe.reason
		}
	}
	if cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err); ok &&
		cancelled.Cause == interpreter.CostLimitExceeded {
		return fmt.Sprintf("the expression costs more than %d units for this record", costMax)
	}
	return "the expression cannot be evaluated for this record"
}

// Bool evaluates the expression for a record, and more variables than those of the record. A result
// of another type is a Validation failure, here and in the methods below, as every error of the
// evaluation is.
func (e *expression) Bool(r *record, more ...binding) (bool, error) {
	v, err := e.eval(r, more)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, e.wrongType(v)
	}
	return bool(b), nil
}

// Text evaluates the expression to a string.
func (e *expression) Text(r *record, more ...binding) (string, error) {
	v, err := e.eval(r, more)
	if err != nil {
		return "", err
	}
	s, ok := v.(types.String)
	if !ok {
		return "", e.wrongType(v)
	}
	return string(s), nil
}

// TextOrNull is Text, with "" for null.
func (e *expression) TextOrNull(r *record, more ...binding) (string, error) {
	v, err := e.eval(r, more)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Null:
		return "", nil
	}
	return "", e.wrongType(v)
}

// Key evaluates the expression to a string or null.
func (e *expression) Key(r *record, more ...binding) (key, error) {
	v, err := e.eval(r, more)
	if err != nil {
		return key{}, err
	}
	switch v := v.(type) {
	case types.String:
		return topology.Some(string(v)), nil
	case types.Null:
		return key{}, nil
	}
	return key{}, e.wrongType(v)
}

// Int evaluates the expression to a 64-bit integer. A double is none, even if it has no fraction:
// the author says int(...) where that is meant.
func (e *expression) Int(r *record, more ...binding) (int64, error) {
	v, err := e.eval(r, more)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if int64(v) >= 0 {
			return int64(v), nil
		}
		return 0, e.fail("the result is larger than an int can be")
	}
	return 0, e.wrongType(v)
}

// Object evaluates the expression to a new document, or to the event itself if that is the
// expression. It is nil for a null where the expression may be one.
func (e *expression) Object(r *record, more ...binding) (*document, error) {
	if d, ok := r.Value.Get(); ok && e.event {
		return d, nil
	}
	v, err := e.eval(r, more)
	if err != nil {
		return nil, err
	}
	switch {
	case v == types.NullValue && e.want.allows(types.NullType):
		return nil, nil
	case v.Type() != types.MapType:
		return nil, e.wrongType(v)
	}
	raw, err := appendValue(nil, v, 0)
	if err != nil {
		return nil, e.fail(schemas.ReasonOf(err))
	}
	return &document{raw: raw}, nil
}
