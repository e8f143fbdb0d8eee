package workload

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
)

// The columns of the data file that are read, and the number of all; the first line names them.
const (
	flightCarrier = 1
	flightTail    = 5
	flightDelay   = 7
	flightColumns = 8
)

var errNoFlights = errors.New("the file with the flights is not given; it is e2e/flights/testdata/flights.csv.gz of the project")

// flights are the flights that departed from New York City in 2013, in the order of the file: the
// skew of real keys. 16 carriers share them unequally; rows without a plane have an account of
// zeros, as such rows meet in one key in life, too.
type flights []flight

type flight struct {
	tail, carrier Account
	delay         int64
}

func readFlights(path string) (flights, error) {
	if path == "" {
		return nil, errNoFlights
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the file with the flights: %w", err)
	}
	defer f.Close()
	rows, err := parseFlights(f)
	if err != nil {
		return nil, fmt.Errorf("the file with the flights, %s: %w", path, err)
	}
	return rows, nil
}

func parseFlights(compressed io.Reader) (rows flights, err error) {
	text, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, err
	}
	lines := csv.NewReader(text)
	lines.FieldsPerRecord, lines.ReuseRecord = flightColumns, true
	if _, err := lines.Read(); err != nil {
		return nil, err
	}
	for {
		line, err := lines.Read()
		if errors.Is(err, io.EOF) && len(rows) > 0 {
			return rows, nil
		}
		if err != nil {
			return nil, err
		}
		row := flight{tail: padded(line[flightTail]), carrier: padded(line[flightCarrier])}
		if delay := line[flightDelay]; delay != "" { // there is none of a flight that did not arrive
			if row.delay, err = strconv.ParseInt(delay, 10, 64); err != nil {
				return nil, fmt.Errorf("row %d: the delay is no number", len(rows)+1)
			}
		}
		rows = append(rows, row)
	}
}

// padded is text as an account.
func padded(text string) (a Account) {
	copy(a[:], text)
	return a
}

// event makes a record's event of a flight. Behind the last flight the year begins anew, with other
// ids.
func (rows flights) event(n uint64, rng *rand.Rand) Event {
	row := rows[n%uint64(len(rows))]
	return Event{
		Account: row.tail, Counterparty: row.carrier, ID: EventID(n), Amount: row.delay, Padding: rng.Uint64(),
	}
}
