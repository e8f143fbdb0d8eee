package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/admin"
)

// TestShowRecordTime: the time of a record is shown beside that of its first death where it is
// another one.
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
		if got := time.Time((letterOffice{}).letterJSONOf(l).RecordTimestamp); !got.Equal(last) {
			t.Errorf("as JSON it is %s, want %s", got, last)
		}
	}
}

// TestTimesOfLettersAsJSON is requirement G5: a time that no year of four digits has, as of a
// producer that counts in microseconds, is a number of milliseconds, and takes nothing away from
// what is beside it.
func TestTimesOfLettersAsJSON(t *testing.T) {
	sane := time.Date(2030, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	for ms, want := range map[int64]string{
		sane.UnixMilli():               `"2030-01-02T03:04:05.006Z"`,
		sane.UnixMicro():               fmt.Sprint(sane.UnixMicro()),
		math.MaxInt64:                  "9223372036854775807",
		math.MinInt64:                  "-9223372036854775808",
		time.Unix(1e11, 0).UnixMilli(): `"5138-11-16T09:46:40Z"`,
	} {
		var l admin.DeadLetter
		l.Origin.Timestamp, l.LastTimestamp = ms, sane.UnixMilli()
		at := time.UnixMilli(ms)
		l.Timestamp, l.FirstFailure, l.LastFailure, l.Redriven = at, at, at, at
		text, err := json.Marshal((letterOffice{}).letterJSONOf(l))
		if err != nil {
			t.Errorf("%d: %v", ms, err)
			continue
		}
		var got struct {
			Redriven        json.RawMessage
			First           json.RawMessage `json:"first_failure"`
			Last            json.RawMessage `json:"last_failure"`
			RecordTimestamp json.RawMessage `json:"record_timestamp"`
			Origin, Letter  struct{ Timestamp json.RawMessage }
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		for name, at := range map[string]json.RawMessage{
			"redriven": got.Redriven, "first": got.First, "last": got.Last, "origin": got.Origin.Timestamp, "letter": got.Letter.Timestamp,
		} {
			if string(at) != want {
				t.Errorf("%d: the time %s is %s, want %s", ms, name, at, want)
			}
		}
		if string(got.RecordTimestamp) != `"2030-01-02T03:04:05.006Z"` {
			t.Errorf("%d: the time of the record is %s", ms, got.RecordTimestamp)
		}
	}
}

// TestShowSource is requirement G3: of a dead letter from an internal topic it is shown which
// record of an input it is about, if it says so.
func TestShowSource(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		source             graph.DeadLetterSource
		text, json, letter string
	}{
		"none": {},
		"position": {
			graph.DeadLetterSource{Topic: "in", Partition: 3, Offset: 17},
			"of record    in[3] offset 17\n", `{"topic":"in","partition":3,"offset":17}`, ", of the record in[3]@17\n",
		},
		"with the broker's time": {
			graph.DeadLetterSource{Topic: "in", Partition: 3, Offset: 17, AppendTime: at.UnixMilli()},
			"of record    in[3] offset 17, appended 2030-01-02T03:04:05.000Z\n",
			`{"topic":"in","partition":3,"offset":17,"append_time":"2030-01-02T03:04:05Z"}`, ", of the record in[3]@17\n",
		},
	} {
		var l admin.DeadLetter
		l.Origin.Topic, l.Source = "app-x-repartition", test.source
		var text strings.Builder
		w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		writeLetter(w, l)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "\nof record ") != (test.text != "") || !strings.Contains(text.String(), test.text) {
			t.Errorf("%s: it is shown\n%s", name, &text)
		}
		var got struct {
			Source json.RawMessage `json:"source"`
		}
		b, err := json.Marshal((letterOffice{}).letterJSONOf(l))
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || string(got.Source) != test.json {
			t.Errorf("%s: as JSON it is %s, %v", name, got.Source, err)
		}
		x := explanation{Letters: []explainedDead{{Topic: l.Origin.Topic, Source: letterSourceOf(l.Source)}}}
		if explained := x.text("audit"); !strings.Contains(explained, "dead letter from app-x-repartition[0]@0"+test.letter) ||
			strings.Contains(explained, "of the record") != (test.letter != "") {
			t.Errorf("%s: it is explained as\n%s", name, explained)
		}
	}
}
