package flights

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// dataHeader is line 1 of the data file.
const dataHeader = "scheduled,carrier,flight,origin,destination,tail,departed,arrival_delay"

// dataRow is one scheduled departure. Rows are comparable.
type dataRow struct {
	// Line is the number of the row's line in the data file, whose first line is the header.
	Line int
	// Text is the line as it stands there, without its end.
	Text string
	// Scheduled is the scheduled departure in minutes since 1970-01-01T00:00Z.
	Scheduled int64
	Carrier   string
	Flight    int
	Origin    string
	// Destination is an airport code like Origin.
	Destination string
	// Tail is empty if the plane is not known.
	Tail string
	// Departed is false for a flight that was cancelled.
	Departed bool
	// Delay is how many minutes late the flight arrived, negative if early; Arrived says whether it
	// did. A flight that departed and did not arrive was diverted.
	Delay   int
	Arrived bool
}

// Cancelled reports whether the flight did not take place.
func (r *dataRow) Cancelled() bool { return !r.Departed }

// Diverted reports whether the flight departed and did not arrive where it should.
func (r *dataRow) Diverted() bool { return r.Departed && !r.Arrived }

// Contribution identifies the row in the ledger: carrier, flight number, origin and scheduled hour.
func (r *dataRow) Contribution() string {
	return fmt.Sprintf("%s|%d|%s|%d", r.Carrier, r.Flight, r.Origin, r.Scheduled/60)
}

// Timestamp is the event time of the row's record, in milliseconds since the epoch.
func (r *dataRow) Timestamp() int64 { return r.Scheduled * 60_000 }

// readDataFile reads the compressed data file.
func readDataFile(file io.Reader) ([]dataRow, error) {
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("data file: %w", err)
	}
	lines := bufio.NewScanner(unzipped)
	if lines.Scan() && lines.Text() != dataHeader {
		return nil, fmt.Errorf("data file: line 1 is not the header %s", dataHeader)
	}
	var rows []dataRow
	for n := 2; lines.Scan(); n++ {
		row, err := readRow(n, lines.Text())
		if err != nil {
			return nil, fmt.Errorf("data file: line %d: %w", n, err)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("data file: %w", err)
	}
	return rows, nil
}

func readRow(line int, text string) (dataRow, error) {
	v := strings.Split(text, ",")
	if len(v) != 8 {
		return dataRow{}, fmt.Errorf("%d columns, not 8", len(v))
	}
	r := dataRow{Line: line, Text: text, Carrier: v[1], Origin: v[3], Destination: v[4], Tail: v[5]}
	var err error
	if r.Scheduled, err = strconv.ParseInt(v[0], 10, 64); err != nil {
		return dataRow{}, err
	}
	if r.Flight, err = strconv.Atoi(v[2]); err != nil {
		return dataRow{}, err
	}
	if r.Departed, err = strconv.ParseBool(v[6]); err != nil {
		return dataRow{}, err
	}
	if v[7] != "" {
		r.Arrived = true
		if r.Delay, err = strconv.Atoi(v[7]); err != nil {
			return dataRow{}, err
		}
	}
	return r, nil
}
