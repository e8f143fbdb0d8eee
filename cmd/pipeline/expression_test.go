package pipeline

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/cmd/internal/yamldoc"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

func compileFor(t testing.TB, source string, w want) *expression {
	t.Helper()
	f := yamldoc.Parse("test.yaml", []byte("value: |-\n  "+strings.ReplaceAll(source, "\n", "\n  ")))
	r, err := newReader(f)
	if err != nil {
		t.Fatal(err)
	}
	e := r.compile(f.Root().Mapping("value").Required("value"), "value", w)
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	return e
}

func recordOf(event string) record {
	return record{
		Key: topology.Some("k"), Value: topology.Some(documentOf(event)), Timestamp: 1_700_000_000_123,
		Headers: []topology.Header{
			{Key: "trace", Value: []byte("first")}, {Key: "trace", Value: []byte("last")},
			{Key: "binary", Value: []byte{0xff}},
		},
	}
}

func TestObjects(t *testing.T) {
	for _, c := range []struct{ name, source, event, want string }{
		{"2^53+1 survives", `{"a": event.a}`, `{"a": 9007199254740993}`, `{"a":9007199254740993}`},
		{"2^53+1 can be computed with", `{"a": event.a + 1}`, `{"a": 9007199254740993}`, `{"a":9007199254740994}`},
		{"the smallest int", `{"a": event.a}`, `{"a": -9223372036854775808}`, `{"a":-9223372036854775808}`},
		{"the largest uint", `{"a": event.a}`, `{"a": 18446744073709551615}`, `{"a":18446744073709551615}`},
		{"beyond uint", `{"a": event.a}`, `{"a": 18446744073709551616}`, `{"a":18446744073709551616}`},
		{"a long decimal", `{"a": event.a}`, `{"a": 1234567890123456.789}`, `{"a":1234567890123456.789}`},
		{"beyond double", `{"a": event.a}`, `{"a": 1e400}`, `{"a":1e400}`},
		{"a part is passed on", `{"a": event.a}`, `{"a": {"z": 1e400, "b": [0.10, 2.0, -0]}}`,
			`{"a":{"b":[0.1,2.0,0],"z":1e400}}`},
		{"a double stays a double", `{"a": event.a * 2.0}`, `{"a": 2.5}`, `{"a":5.0}`},
		{"tiny and huge doubles", `{"a": event.a, "b": event.b}`, `{"a": 1e-9, "b": 1e30}`,
			`{"a":1e-09,"b":1e+30}`},
		{"equal numbers", `{"a": event.a == event.b}`,
			`{"a": 10000000000000000000000.5, "b": 1.00000000000000000000005e22}`, `{"a":true}`},
		{"no equality by rounding", `{"a": event.a == event.b}`,
			`{"a": 18446744073709551616, "b": 18446744073709551617}`, `{"a":false}`},
		{"keys are sorted", `{"b": 1, "a": 2}`, `{}`, `{"a":2,"b":1}`},
		{"texts", `{"a": event.a + "\n<&>"}`, `{"a": "é\u2028"}`, `{"a":"é\u2028\n<&>"}`},
		{"null and bool", `{"a": event.a, "b": !event.b}`, `{"a": null, "b": true}`, `{"a":null,"b":false}`},
		{"bytes", `{"a": b"\xff\x00"}`, `{}`, `{"a":"/wA="}`},
		{"a timestamp", `{"a": timestamp}`, `{}`, `{"a":"2023-11-14T22:13:20.123Z"}`},
		{"durations", `{"a": duration("-1.5s"), "b": duration("90m")}`, `{}`, `{"a":"-1.5s","b":"5400s"}`},
		{"key and headers", `{"a": key, "b": headers.trace, "c": "binary" in headers}`, `{}`,
			`{"a":"k","b":"last","c":false}`},
		{"lists", `{"a": event.a.map(x, x * x)}`, `{"a": [3, -2]}`, `{"a":[9,4]}`},
		{"the event itself", `event`, ` {"b" : 1.50, "a": 1} `, ` {"b" : 1.50, "a": 1} `},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := recordOf(c.event)
			d, err := compileFor(t, c.source, wantObject).Object(&r)
			if err != nil {
				t.Fatal(err)
			}
			if string(d.raw) != c.want {
				t.Errorf("got  %s\nwant %s", d.raw, c.want)
			}
			if _, err := schemas.HashJSON(d.raw); err != nil {
				t.Errorf("the result is no document: %v", err)
			}
		})
	}
}

func TestInts(t *testing.T) {
	e := compileFor(t, "event.v", wantInt)
	for event, want := range map[string]int64{
		`{"v": 9007199254740993}`:     1<<53 + 1,
		`{"v": -9223372036854775808}`: -1 << 63,
		`{"v": 9223372036854775807}`:  1<<63 - 1,
		`{"v": -0}`:                   0,
	} {
		r := recordOf(event)
		if got, err := e.Int(&r); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", event, got, err, want)
		}
	}
}

// Failures are of class Validation, and say what they can without a word of the record.
func TestFailures(t *testing.T) {
	const secret = "kanarienvogel"
	for _, c := range []struct {
		name, source string
		want         want
		event, text  string
	}{
		{"missing field", `event.a.b`, wantString, `{"a": {"` + secret + `": 1}}`, "value: the field b is missing"},
		{"missing by a value", `{"x": 1}[event.a]`, wantInt, `{"a": "` + secret + `"}`,
			"value: a field is missing"},
		{"no object", `event.a.b`, wantString, `{"a": "` + secret + `"}`, "value: the field b is missing"},
		{"null event", `event.a`, wantString, `null`, "value: the field a is missing"},
		{"index", `event.a[1]`, wantString, `{"a": ["` + secret + `"]}`, "value: an index is out of bounds"},
		{"wrong type", `event.a`, wantString, `{"a": 5}`, "value: the result must be a string and is an int"},
		{"a double is no int", `event.a`, wantInt, `{"a": 100.0}`,
			"value: the result must be an int and is a double"},
		{"nor is a text", `event.a`, wantInt, `{"a": "100"}`, "value: the result must be an int and is a string"},
		{"too large for an int", `event.a`, wantInt, `{"a": 9223372036854775808}`,
			"value: the result is larger than an int can be"},
		{"too large for anything", `event.a`, wantInt, `{"a": 314159265358979323846264}`,
			"value: the result must be an int and is a number"},
		{"exact numbers are not computed with", `event.a + 1`, wantInt, `{"a": 314159265358979323846264}`,
			"value: an operator or function does not take the types of these values"},
		{"nor converted", `int(event.a)`, wantInt, `{"a": 314159265358979323846264}`,
			"value: an operator or function does not take the types of these values"},
		{"overflow", `event.a + 1`, wantInt, `{"a": 9223372036854775807}`, "value: integer overflow"},
		{"division", `1 / event.a`, wantInt, `{"a": 0}`, "value: division by zero"},
		{"conversion", `int(event.a)`, wantInt, `{"a": "` + secret + `"}`,
			"value: the expression cannot be evaluated for this record"},
		{"pattern", `event.a.matches(event.b)`, wantBool, `{"a": "x", "b": "(` + secret + `"}`,
			"value: the expression cannot be evaluated for this record"},
		{"no JSON", `{"a": double("NaN")}`, wantObject, `{}`,
			"value: the result has a number that is infinite or not a number, and JSON has neither"},
		{"no text as key", `{event.a: 1}`, wantObject, `{"a": 7}`,
			"value: the result has a map with keys that are no texts"},
		{"no object as result", `event.a`, wantObject, `{"a": ["` + secret + `"]}`,
			"value: the result must be an object and is a list"},
		{"a type in the result", `{"a": type(event)}`, wantObject, `{}`,
			"value: the result has a part of type type, which JSON does not have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, r := compileFor(t, c.source, c.want), recordOf(c.event)
			err := evaluate(e, &r)
			if err == nil {
				t.Fatal("no error")
			}
			if got := schemas.ReasonOf(err); got != c.text {
				t.Errorf("got  %s\nwant %s", got, c.text)
			}
			if class := topology.ClassOf(err); class != topology.Validation {
				t.Errorf("class %s, want validation", class)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes the record: %v", err)
			}
		})
	}
}

// evaluate calls the method for the type that the expression must have.
func evaluate(e *expression, r *record) error {
	var err error
	switch e.want.what {
	case wantBool.what:
		_, err = e.Bool(r)
	case wantInt.what:
		_, err = e.Int(r)
	case wantObject.what:
		_, err = e.Object(r)
	case wantStringOrNull.what:
		_, err = e.TextOrNull(r)
	default:
		_, err = e.Text(r)
	}
	return err
}

// An expression that would run for minutes is stopped by its cost, which is the same in every run.
// The reason tells that it was, and no stopwatch could tell it better.
func TestCostLimit(t *testing.T) {
	e := compileFor(t, `event.a.all(x, event.a.all(y, event.a.all(z, x + y + z >= 0)))`, wantBool)
	r := recordOf(`{"a": [` + strings.Repeat("1,", 999) + `1]}`)
	_, err := e.Bool(&r)
	const want = "value: the expression costs more than 1000000 units for this record"
	if got := schemas.ReasonOf(err); got != want {
		t.Errorf("got %s", got)
	}
	small := recordOf(`{"a": [1, 2]}`)
	if ok, err := e.Bool(&small); !ok || err != nil {
		t.Errorf("a small record is %t, %v", ok, err)
	}
}

func TestCorrectsTakesNull(t *testing.T) {
	e := compileFor(t, `event.a`, wantStringOrNull)
	for event, want := range map[string]string{`{"a": null}`: "", `{"a": ""}`: "", `{"a": "x"}`: "x"} {
		r := recordOf(event)
		if got, err := e.TextOrNull(&r); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", event, got, err, want)
		}
	}
	r := recordOf(`{"a": 5}`)
	_, err := e.TextOrNull(&r)
	if schemas.ReasonOf(err) != "value: the result must be a string or null and is an int" {
		t.Errorf("got %v", err)
	}
}

func BenchmarkFilter(b *testing.B) {
	e := compileFor(b, `event.type in ["capture", "reversal"] && event.amount > 10`, wantBool)
	const event = `{"message_id":"m1","type":"capture","version":1,"status":"open","merchant":"s1","amount":50}`
	b.ReportAllocs()
	for b.Loop() {
		r := recordOf(event)
		if ok, err := e.Bool(&r); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
