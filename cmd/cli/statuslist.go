package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/onceward/onceward/txn/admin"
)

// statusList writes rows that have a status: a table for people, lines of JSON for programs. Above
// the rows of a partition, or for people below all of them, it says what they are of, and at the
// end how many there are of each status.
type statusList struct {
	store string
	// only are the statuses whose rows are shown; none is all. limit is how many rows are, 0 is no
	// limit.
	only  []string
	limit int64

	out *bufio.Writer
	// enc is nil for people, who get table and places.
	enc    *json.Encoder
	table  *tabwriter.Writer
	places []string

	shown  int64
	counts map[string]int64
	more   bool
}

// statusListEnd ends a list as JSON. Its fields are for programs and stay.
type statusListEnd struct {
	Type  string `json:"type"` // end
	Shown int64  `json:"shown"`
	// More says that the limit has ended the list: then Statuses counts what was read up to there.
	More     bool             `json:"more"`
	Statuses map[string]int64 `json:"statuses"`
}

// newStatusList begins a list whose table has these columns.
func newStatusList(out io.Writer, output, store string, only []string, limit int64, columns ...string) *statusList {
	l := &statusList{store: store, only: only, limit: limit, out: bufio.NewWriter(out), counts: map[string]int64{}}
	if output == "json" {
		l.enc = json.NewEncoder(l.out)
		l.enc.SetEscapeHTML(false)
		return l
	}
	l.table = tabwriter.NewWriter(l.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(l.table, strings.Join(columns, "\t"))
	return l
}

// partition says what the next rows are of.
func (l *statusList) partition(at admin.At) error {
	if l.enc != nil {
		return l.enc.Encode(partitionLine{"partition", l.store, stateAtOf(at)})
	}
	l.places = append(l.places, fmt.Sprintf("# %s[%d]: %s", l.store, at.Task.Partition, atText(at)))
	return nil
}

// row writes a row if it is one of those to show. It fails with errLimit for one more than the
// limit.
func (l *statusList) row(status string, line any, cells ...string) error {
	wanted := len(l.only) == 0 || slices.Contains(l.only, status)
	if wanted && l.limit > 0 && l.shown == l.limit {
		l.more = true
		return errLimit
	}
	l.counts[status]++
	if !wanted {
		return nil
	}
	l.shown++
	if l.enc != nil {
		return l.enc.Encode(line)
	}
	for i, cell := range cells {
		cells[i] = oneLine(cell)
	}
	_, err := fmt.Fprintln(l.table, strings.Join(cells, "\t"))
	return err
}

// end ends the list, and returns why it is not whole, if err is another reason for that than the
// limit.
func (l *statusList) end(err error) error {
	whole := err == nil || errors.Is(err, errLimit)
	switch {
	case l.enc != nil && whole:
		err = l.enc.Encode(statusListEnd{"end", l.shown, l.more, l.counts})
	case l.enc == nil:
		if flushErr := l.table.Flush(); whole {
			err = flushErr
		}
		for _, place := range l.places {
			fmt.Fprintln(l.out, place)
		}
		if whole {
			fmt.Fprintln(l.out, l.summary())
		}
	}
	return errors.Join(err, l.out.Flush())
}

// summary says for people how many rows there are.
func (l *statusList) summary() string {
	text := fmt.Sprintf("# %s: %d shown; ", l.store, l.shown)
	if l.more {
		return text + "more follow, --limit shows them"
	}
	var counts []string
	for _, status := range slices.Sorted(maps.Keys(l.counts)) {
		counts = append(counts, fmt.Sprint(l.counts[status], " ", status))
	}
	return text + "there are " + orNone(strings.Join(counts, ", "))
}

// statusesOf returns the words of --status once each of them is one of those that there are.
func statusesOf(given, all []string) ([]string, error) {
	for _, word := range given {
		if !slices.Contains(all, word) {
			return nil, usage("--status: %q is no status; the statuses are %s", word, strings.Join(all, ", "))
		}
	}
	return given, nil
}
