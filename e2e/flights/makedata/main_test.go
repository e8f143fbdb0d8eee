package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"io"
	"os"
	"strings"
	"testing"
)

const sourceHeader = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay," +
	"carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour\n"

// TestRows has a row of each kind: complete, without a plane and cancelled, diverted, after the clocks went
// forward, in the second of the two hours that have one name, and just before midnight.
func TestRows(t *testing.T) {
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

func TestRefuses(t *testing.T) {
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

// TestDataFile holds the committed file to what the command made of the source: these rows, compressed
// without a name and a time.
func TestDataFile(t *testing.T) {
	file, err := os.ReadFile("../testdata/flights.csv.gz")
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
		t.Errorf("the rows have the SHA-256 %s, not the %s of those that the command made", got, want)
	}
	if len(file) > 4<<20 {
		t.Errorf("the file has %d bytes, more than 4 MiB", len(file))
	}
}
