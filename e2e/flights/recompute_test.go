package flights

import (
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestKnownFigures holds data file and computation to figures that were counted apart from this
// code, with another language, in the source of the data.
func TestKnownFigures(t *testing.T) {
	rows := readRows(t)
	inputs, err := inputsOfRows(rows, nil, 6)
	if err != nil {
		t.Fatal(err)
	}
	e := recompute(inputs, 6)
	withoutPlane, withoutDeparture, withoutDelay := 0, 0, 0
	var all carrierTotals
	for i := range rows {
		r := &rows[i]
		all = all.plus(r)
		if r.Tail == "" {
			withoutPlane++
		}
		if !r.Departed {
			withoutDeparture++
		}
		if !r.Arrived {
			withoutDelay++
		}
		if r.Cancelled() && r.Arrived {
			t.Errorf("line %d was cancelled and arrived", r.Line)
		}
	}
	for what, figure := range map[string][2]int{
		"rows":                     {len(rows), 336_776},
		"carriers":                 {len(e.Carriers), 16},
		"planes":                   {len(e.Planes), 4_043},
		"rows without a plane":     {withoutPlane, 2_512},
		"rows without a departure": {withoutDeparture, 8_255},
		"rows without a delay":     {withoutDelay, 9_430},
		"rows that became latest":  {countAll(e.Latest), 118_115},
		"stale rows":               {countAll(e.Stale), 216_149},
		"contributions":            {len(e.Contributions), 336_776},
		"dead letters without any": {countAll(e.Dead), 0},
		"line of the first row":    {rows[0].Line, 2},
		"line of the last row":     {rows[len(rows)-1].Line, 336_777},
		"minute of the first row":  {int(rows[0].Scheduled), 22_617_255},
		"minute of the last row":   {int(rows[len(rows)-1].Scheduled), 23_009_080},
	} {
		if figure[0] != figure[1] {
			t.Errorf("%s: %d, want %d", what, figure[0], figure[1])
		}
	}
	if want := (carrierTotals{Flights: 336_776, Minutes: 2_257_174, Cancelled: 8_255, Diverted: 1_175}); all != want {
		t.Errorf("all carriers: %+v, want %+v", all, want)
	}
	for carrier, want := range map[string]carrierTotals{
		"UA": {58_665, 205_589, 686, 197}, "EV": {54_173, 807_324, 2_817, 248},
		"AS": {714, -7_041, 2, 3}, "OO": {32, 346, 3, 0},
	} {
		if got := e.Carriers[carrier]; got != want {
			t.Errorf("carrier %s: %+v, want %+v", carrier, got, want)
		}
	}
}

// TestPartitionOf compares with the hashes that Kafka's own tests have.
func TestPartitionOf(t *testing.T) {
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got, want := partitionOf(key, math.MaxInt32), hash&math.MaxInt32; got != want {
			t.Errorf("%s: %d, want %d", key, got, want)
		}
	}
}

// TestRecomputationIsIndependent: the files of the recomputation refer to no other file of the
// package, and import the standard library and the client's records alone. A file that uses the
// pipeline does both.
func TestRecomputationIsIndependent(t *testing.T) {
	files, err := filepath.Glob("recompute_*_test.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files are the recomputation's, %v", len(files), err)
	}
	imports, references := dependencies(t, files)
	if len(imports) > 0 || len(references) > 0 {
		t.Errorf("the recomputation imports %q and refers to other files: %v", imports, references)
	}
	imports, references = dependencies(t, append(files, "driver_test.go"))
	if !slices.Contains(imports, "github.com/onceward/onceward/topology/topologytest") ||
		!slices.ContainsFunc(references, func(err error) bool { return strings.Contains(err.Error(), "newPipeline") }) {
		t.Errorf("a file that uses the pipeline seems to import %q and to refer to %v", imports, references)
	}
}

// dependencies returns what files import beyond what the recomputation may, and errors for what
// they refer to in other files of the package.
func dependencies(t *testing.T, files []string) (imports []string, references []error) {
	t.Helper()
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			host, _, _ := strings.Cut(path, "/")
			if strings.Contains(host, ".") && path != "github.com/twmb/franz-go/pkg/kgo" {
				imports = append(imports, path)
			}
		}
	}
	check := types.Config{Importer: noImports{}, Error: func(err error) {
		if !strings.Contains(err.Error(), errNotImported.Error()) {
			references = append(references, err)
		}
	}}
	_, _ = check.Check("flights", set, parsed, nil) // its error is the first of those above
	return imports, references
}

// noImports has the type checker look at these files alone: it takes for granted whatever is
// selected from a package that is not imported.
type noImports struct{}

var errNotImported = errors.New("not imported")

// Import implements [types.Importer].
func (noImports) Import(string) (*types.Package, error) { return nil, errNotImported }

// TestDecodeFlight reads bytes that were put together by hand from Avro's specification.
func TestDecodeFlight(t *testing.T) {
	const head = "c3019d6156b42ab8bf69"
	for text, want := range map[string]dataRow{
		head + "040455419218020c4e31343232380645575206494148cef2c815010216": {
			Line: 2, Carrier: "UA", Flight: 1545, Tail: "N14228", Origin: "EWR", Destination: "IAH",
			Scheduled: 22617255, Departed: true, Delay: 11, Arrived: true,
		},
		head + "8e0d0441418a0200064a464b064c4158cef2c8150000": {
			Line: 839, Carrier: "AA", Flight: 133, Origin: "JFK", Destination: "LAX", Scheduled: 22617255,
		},
	} {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeFlight(b); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		for n := range b {
			if got, err := decodeFlight(b[:n]); err == nil {
				t.Errorf("the first %d bytes are read as %+v", n, got)
			}
		}
		if got, err := decodeFlight(append(b, 0)); err == nil {
			t.Errorf("with a byte more it is read as %+v", got)
		}
	}
}

// TestInputs looks at the order and the places of the source topic's records.
func TestInputs(t *testing.T) {
	rows := []dataRow{
		{Line: 2, Text: "a", Tail: "N14228"}, {Line: 3, Text: "b"}, {Line: 4, Text: "c"},
		{Line: 5, Text: "d", Tail: "N14228"},
	}
	home := partitionOf("N14228", 2)
	inputs, err := inputsOfRows(rows, []malformedRecord{
		{After: 3, Value: []byte("bad 1")}, {After: 5, Value: []byte("bad 2")}, {After: 3, Value: []byte("bad 3")},
	}, 2)
	if err != nil {
		t.Fatal(err)
	}
	next := []int64{0, 0}
	want := []struct {
		value     string
		partition int32
		malformed bool
	}{
		{"2,a", home, false}, {"3,b", 0, false}, {"bad 1", 1, true}, {"bad 3", 0, true}, {"4,c", 1, false},
		{"5,d", home, false}, {"bad 2", home, true},
	}
	if len(inputs) != len(want) {
		t.Fatalf("%d inputs, want %d", len(inputs), len(want))
	}
	for i, w := range want {
		in := inputs[i]
		if string(in.Value) != w.value || in.Partition != w.partition || (in.Malformed != nil) != w.malformed ||
			in.Offset != next[in.Partition] || (in.Key == nil) != (in.Row.Tail == "") {
			t.Errorf("input %d: %+v, want %+v at offset %d", i, in, w, next[in.Partition])
		}
		next[in.Partition]++
	}
	if _, err := inputsOfRows(rows, []malformedRecord{{After: 9}}, 2); err == nil {
		t.Error("a malformed record behind no row is not refused")
	}
}

func TestReadRowsRefuses(t *testing.T) {
	for _, text := range []string{
		"22617255,UA,1545,EWR,IAH,N14228,1", "x,UA,1545,EWR,IAH,N14228,1,11", "22617255,UA,x,EWR,IAH,N14228,1,11",
		"22617255,UA,1545,EWR,IAH,N14228,x,11", "22617255,UA,1545,EWR,IAH,N14228,1,x",
	} {
		if row, err := readRow(2, text); err == nil {
			t.Errorf("%s is read as %+v", text, row)
		}
	}
	if _, err := readDataFile(strings.NewReader("not compressed")); err == nil {
		t.Error("a file that is not compressed is read")
	}
}
