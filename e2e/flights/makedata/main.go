// Command makedata makes testdata/flights.csv.gz of the flights scenario from flights.csv.gz of the data set
// nycflights13 (CC0), which holds every flight that departed from New York City in 2013:
//
//	go run ./e2e/flights/makedata path/to/nycflights13/flights.csv.gz e2e/flights/testdata/flights.csv.gz
//
// The result has the rows of the source in their order, with a header in line 1, and these columns:
//
//	scheduled      scheduled departure, UTC minutes since 1970-01-01T00:00Z
//	carrier        two-letter code of the airline
//	flight         flight number
//	origin         airport of departure
//	destination    airport of arrival
//	tail           tail number of the plane, empty if it is not known
//	departed       1, or 0 for a flight that was cancelled
//	arrival_delay  minutes late, negative if early, empty if cancelled or diverted
//
// It is compressed without a name and a time, so the same source gives the same bytes as long as Go's
// compressor does not change; the rows are the same in any case, and a test holds them to their known sums.
//
// The source's time_hour is the hour of the scheduled departure in UTC, its sched_dep_time is hour and
// minute in New York. Both are in every row, so the command checks each against the other: a row that does
// not agree with itself, around midnight or a change of the clocks, is an error, and so is a second row
// with the carrier, flight number, origin and hour of an earlier one, because those four identify a row in
// the scenario.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // the check needs New York's clock on every machine
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: makedata SOURCE RESULT (both .csv.gz)")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "makedata:", err)
		os.Exit(1)
	}
}

func run(source, result string) (err error) {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(result)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := convert(in, out); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

// convert writes the compressed result for the compressed source.
func convert(in io.Reader, out io.Writer) error {
	unzipped, err := gzip.NewReader(in)
	if err != nil {
		return err
	}
	zipped, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(zipped)
	if err := convertRows(csv.NewReader(unzipped), w); err != nil {
		return err
	}
	return errors.Join(w.Flush(), zipped.Close())
}

func convertRows(r *csv.Reader, w io.Writer) error {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		return err
	}
	c := converter{newYork: newYork, seen: map[id]int{}}
	header, err := r.Read()
	if err != nil {
		return err
	}
	if err := c.readHeader(header); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "scheduled,carrier,flight,origin,destination,tail,departed,arrival_delay")
	for line := 2; err == nil; line++ {
		var row []string
		if row, err = r.Read(); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.convert(w, line, row)
		}
	}
	return err
}

// missing stands for a value that the source does not have.
const missing = "NA"

// columns of the source that are read, in the order of row's fields.
var columns = []string{
	"year", "month", "day", "sched_dep_time", "time_hour",
	"carrier", "flight", "origin", "dest", "tailnum", "dep_time", "arr_delay",
}

type row struct {
	year, month, day, scheduled, hour                           string
	carrier, flight, origin, destination, tail, departed, delay string
}

// id identifies a row in the scenario.
type id struct{ carrier, flight, origin, hour string }

type converter struct {
	newYork *time.Location
	at      []int      // where columns stand in the source
	seen    map[id]int // line of each id
}

func (c *converter) readHeader(header []string) error {
	for _, name := range columns {
		i := slices.Index(header, name)
		if i < 0 {
			return fmt.Errorf("there is no column %s", name)
		}
		c.at = append(c.at, i)
	}
	return nil
}

func (c *converter) convert(w io.Writer, line int, fields []string) error {
	v := make([]string, len(columns))
	for i, at := range c.at {
		v[i] = fields[at]
	}
	r := row{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]}
	minutes, err := c.minutes(r)
	if err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	key := id{r.carrier, r.flight, r.origin, r.hour}
	if first, ok := c.seen[key]; ok {
		return fmt.Errorf("line %d: carrier, flight, origin and hour are those of line %d", line, first)
	}
	c.seen[key] = line
	departed := "1"
	if r.departed == missing {
		departed = "0"
	}
	if r.tail == missing {
		r.tail = ""
	}
	if r.delay == missing {
		r.delay = ""
	}
	if departed == "0" && r.delay != "" {
		return fmt.Errorf("line %d: the flight arrived and did not depart", line)
	}
	_, err = fmt.Fprintf(w, "%d,%s,%s,%s,%s,%s,%s,%s\n",
		minutes, r.carrier, r.flight, r.origin, r.destination, r.tail, departed, r.delay)
	return err
}

// minutes returns the scheduled departure in UTC minutes since the epoch.
func (c *converter) minutes(r row) (int64, error) {
	hour, err := time.Parse(time.RFC3339, r.hour)
	if err != nil {
		return 0, err
	}
	clock, err := strconv.Atoi(r.scheduled)
	if err != nil {
		return 0, err
	}
	scheduled := hour.Add(time.Duration(clock%100) * time.Minute)
	local := scheduled.In(c.newYork)
	date := fmt.Sprintf("%d-%d-%d", local.Year(), local.Month(), local.Day())
	if want := r.year + "-" + r.month + "-" + r.day; date != want || local.Hour()*100+local.Minute() != clock {
		return 0, fmt.Errorf("time_hour and the minute say %s in New York, date and sched_dep_time say %s %04d",
			local.Format("2006-01-02 1504"), want, clock)
	}
	return scheduled.Unix() / 60, nil
}
