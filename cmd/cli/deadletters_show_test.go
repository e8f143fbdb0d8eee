package cli

import (
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/txn/admin"
)

// TestShowRecordTime: the time of a record is shown beside that of its first death where it is another one.
func TestShowRecordTime(t *testing.T) {
	first := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for last, want := range map[time.Time]string{
		first:                "",
		first.Add(time.Hour): "time         2030-01-02T04:04:05.000Z when it died last, which a redrive keeps\n",
	} {
		var l admin.DeadLetter
		l.Origin.Timestamp, l.LastTimestamp = first.UnixMilli(), last.UnixMilli()
		var text strings.Builder
		w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		writeLetter(w, l)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "\ntime ") != (want != "") || !strings.Contains(text.String(), want) {
			t.Errorf("of a record with %s it is shown\n%s", last, &text)
		}
		if got := (letterOffice{}).letterJSONOf(l).RecordTimestamp; !got.Equal(last) {
			t.Errorf("as JSON it is %s, want %s", got, last)
		}
	}
}
