package flights

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/avro"
	"github.com/onceward/onceward/topology"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew")

// TestDescribe compares the description with testdata/flights.describe.txt; -rewrite writes the file anew.
func TestDescribe(t *testing.T) {
	p, err := New("")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/flights.describe.txt"
	got := p.Topology.Describe()
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the description is\n%s\nand %s has\n%s", got, golden, want)
	}
}

// TestPrefix looks for a name that a prefix does not reach, which two pipelines would share.
func TestPrefix(t *testing.T) {
	p, err := New("my.")
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range p.Topology.Topics() {
		if !strings.HasPrefix(topic, "my.") {
			t.Errorf("topic %s", topic)
		}
	}
}

func TestParse(t *testing.T) {
	flight := func(change func(f *avro.Flight)) avro.Flight {
		f := avro.Flight{
			Line: 2, Scheduled: 22617255, Carrier: "UA", Number: 1545, Tail: "N14228", Origin: "EWR",
			Destination: "IAH", Departed: true, ArrivalDelay: 11, HasArrivalDelay: true,
		}
		change(&f)
		return f
	}
	for text, want := range map[string]avro.Flight{
		"2,22617255,UA,1545,EWR,IAH,N14228,1,11":  flight(func(*avro.Flight) {}),
		"2,22617255,UA,1545,EWR,IAH,N14228,1,-11": flight(func(f *avro.Flight) { f.ArrivalDelay = -11 }),
		"2,22617255,UA,1545,EWR,IAH,,1,11":        flight(func(f *avro.Flight) { f.Tail = "" }),
		"2,22617255,UA,1545,EWR,IAH,N14228,1,": flight(func(f *avro.Flight) {
			f.ArrivalDelay, f.HasArrivalDelay = 0, false
		}),
		"2,22617255,UA,1545,EWR,IAH,N14228,0,": flight(func(f *avro.Flight) {
			f.ArrivalDelay, f.HasArrivalDelay, f.Departed = 0, false, false
		}),
	} {
		key := topology.Some("N14228")
		if want.Tail == "" {
			key = topology.None[string]()
		}
		got, err := parse(topology.Record[topology.Option[string], string]{Key: key, Value: text})
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]schemas.Reason{
		"":                                    errColumns,
		"2":                                   errColumns,
		"2,22617255,UA,1545,EWR,IAH,N14228,1": errColumns,
		"2,22617255,UA,1545,EWR,IAH,N14228,1,11,":                     errColumns,
		"x,22617255,UA,1545,EWR,IAH,N14228,1,11":                      errLine,
		"0,22617255,UA,1545,EWR,IAH,N14228,1,11":                      errLine,
		"1000000,22617255,UA,1545,EWR,IAH,N14228,1,11":                errLine,
		"2,,UA,1545,EWR,IAH,N14228,1,11":                              errScheduled,
		"2,-1,UA,1545,EWR,IAH,N14228,1,11":                            errScheduled,
		"2,2013-07-04T12:00:00Z,UA,1545,EWR,IAH,N14228,1,11":          errScheduled,
		"2,1372939200000,UA,1545,EWR,IAH,N14228,1,11":                 errScheduled,
		"2,22617255,,1545,EWR,IAH,N14228,1,11":                        errCarrier,
		"2,22617255,UA,x,EWR,IAH,N14228,1,11":                         errFlight,
		"2,22617255,UA,-1,EWR,IAH,N14228,1,11":                        errFlight,
		"2,22617255,UA,1545,,IAH,N14228,1,11":                         errOrigin,
		"2,22617255,UA,1545,EWR,IAH,N14228,2,11":                      errDeparted,
		"2,22617255,UA,1545,EWR,IAH,N14228,1,late":                    errDelay,
		"2,22617255,UA,1545,EWR,IAH,N14228,1,99999":                   errDelay,
		"2,22617255,UA,1545,EWR,IAH,N14228,0,11":                      errArrived,
		"2,22617255,UA,1545,EWR,IAH,N14229,1,11":                      errTail,
		"2,22617255,UA,1545,EWR,IAH,,1,11":                            errTail,
		"2,22617255,UA,1545,EWR,IAH,N14228,1,99999999999999999999999": errDelay,
	} {
		_, err := parse(topology.Record[topology.Option[string], string]{Key: topology.Some("N14228"), Value: text})
		if topology.ClassOf(err) != topology.Validation || schemas.ReasonOf(err) != string(want) {
			t.Errorf("%q: %v of class %s, want %s", text, err, topology.ClassOf(err), want)
		}
	}
}
