package flights

import (
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/avro"
	"github.com/onceward/onceward/topology"
)

// The columns of a value of the source topic: the row's line in the data file, and the columns of
// that file.
const (
	columnLine = iota
	columnScheduled
	columnCarrier
	columnFlight
	columnOrigin
	columnDestination
	columnTail
	columnDeparted
	columnDelay
	columns
)

// What can be wrong with a row. None of it quotes the row.
const (
	errColumns   = schemas.Reason("the row does not have 9 columns")
	errLine      = schemas.Reason("the line is not a number between 1 and 999999")
	errScheduled = schemas.Reason("the scheduled departure is not a number of minutes since 1970")
	errCarrier   = schemas.Reason("the carrier is missing")
	errFlight    = schemas.Reason("the flight is not a number")
	errOrigin    = schemas.Reason("the origin is missing")
	errTail      = schemas.Reason("the tail number is not the key")
	errDeparted  = schemas.Reason("departed is neither 0 nor 1")
	errDelay     = schemas.Reason("the arrival delay is not a number of minutes")
	errArrived   = schemas.Reason("there is an arrival delay although the flight was cancelled")
)

// lineMax keeps versionOf unique.
const lineMax = 999_999

// scheduledMax, in the year 5138, keeps timestamps and versions far from overflow.
const scheduledMax = 100_000_000_000 / 60

// parse reads one row. A row that breaks a rule is of class Validation.
func parse(r topology.Record[topology.Option[string], string]) (avro.Flight, error) {
	f, err := parseRow(r.Value)
	if err == nil && f.Tail != r.Key.Or("") {
		err = errTail
	}
	if err != nil {
		return avro.Flight{}, topology.Fail(topology.Validation, err)
	}
	return f, nil
}

func parseRow(text string) (f avro.Flight, err error) {
	v := strings.Split(text, ",")
	if len(v) != columns {
		return f, errColumns
	}
	if f.Line, err = number(v[columnLine], 1, lineMax, errLine); err != nil {
		return f, err
	}
	if f.Scheduled, err = strconv.ParseInt(v[columnScheduled], 10, 64); err != nil ||
		f.Scheduled < 0 || f.Scheduled > scheduledMax {
		return f, errScheduled
	}
	if f.Number, err = number(v[columnFlight], 0, 99_999, errFlight); err != nil {
		return f, err
	}
	f.Carrier, f.Tail = v[columnCarrier], v[columnTail]
	f.Origin, f.Destination = v[columnOrigin], v[columnDestination]
	switch {
	case f.Carrier == "":
		return f, errCarrier
	case f.Origin == "":
		return f, errOrigin
	case v[columnDeparted] != "0" && v[columnDeparted] != "1":
		return f, errDeparted
	}
	f.Departed = v[columnDeparted] == "1"
	if v[columnDelay] == "" {
		return f, nil
	}
	if f.ArrivalDelay, err = number(v[columnDelay], -10_000, 10_000, errDelay); err != nil {
		return f, err
	}
	if f.HasArrivalDelay = true; !f.Departed {
		return f, errArrived
	}
	return f, nil
}

// number reads a decimal number in a range.
func number(text string, least, most int64, reason schemas.Reason) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < least || n > most {
		return 0, reason
	}
	return int32(n), nil
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
