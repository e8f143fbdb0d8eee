//go:build unix

package processing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn"
	"github.com/onceward/onceward/txn/admin"
)

// TestRedriveKeepsTheTimeOfTheRecord: the dead-letter topic has the broker's time. Payments that
// are redriven from it keep their own time, and so do their outputs. That holds also for dead
// letters of an older build, which do not have the time of the record at its last failure.
// Requirement G5.
func TestRedriveKeepsTheTimeOfTheRecord(t *testing.T) {
	t.Parallel()
	c := cluster.Kafka(t) // the embedded broker does not give records its own time
	const payments = 6
	s := newLetterScene(t, c, topology.DeadLetter)
	older := c.Name(t, "older")
	appendTime := graph.LogAppendTime.String()
	s.Dead = c.Name(t, "appended")
	for _, topic := range []string{s.Dead, older} {
		err := c.CreateTopic(t.Context(), topic, paymentPartitions, map[string]*string{"message.timestamp.type": &appendTime})
		if err != nil {
			t.Fatal(err)
		}
	}

	s.closeAccounts()
	app := s.start()
	began := time.Now().Truncate(time.Millisecond)
	times := map[string]time.Time{}
	for i := range payments {
		r := &kgo.Record{
			Topic: s.In, Key: fmt.Appendf(nil, "closed-%d", i%2), Value: fmt.Appendf(nil, "%d 1", i),
			Timestamp: began.Add(time.Duration(i)*time.Minute - time.Hour),
		}
		times[string(r.Value)] = r.Timestamp
		if err := s.producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	app.Until("the dead letters", func(now txn.Status) bool { return now.Totals.DeadLetters == payments })
	for _, r := range s.Records(t, s.Dead) {
		if r.Attrs.TimestampType() != int8(graph.LogAppendTime) || r.Timestamp.Before(began) {
			t.Errorf("the control: the letter of %s has the timestamp %s, which is not the broker's", r.Value, r.Timestamp)
		}
		r.Topic, r.Timestamp = older, time.Time{}
		r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == graph.HeaderLastTimestamp })
		if err := s.producer.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}

	s.openAccounts()
	client := connect(t, c)
	for _, topic := range []string{s.Dead, older} {
		before := len(s.Records(t, s.In))
		report, err := client.DeadLetters(topic).Redrive(t.Context(), admin.RedriveOptions{})
		if err != nil || report.Outcomes[admin.Redriven] != payments {
			t.Fatalf("%+v, %v", report, err)
		}
		// Of all of them the last ones of each partition are new; the others have the right time in
		// any case.
		redriven := s.Records(t, s.In)
		if len(redriven) != before+payments {
			t.Errorf("%d records are redriven from %s, want %d", len(redriven)-before, topic, payments)
		}
		for _, r := range redriven {
			if want := times[string(r.Value)]; !r.Timestamp.Equal(want) {
				t.Errorf("redriven from %s: payment %s at [%d]@%d has the time %s, want %s",
					topic, r.Value, r.Partition, r.Offset, r.Timestamp, want)
			}
		}
	}
	// The payments of the older dead letters are those of the others, once more.
	s.until(app, map[string]int64{"closed-0": payments / 2, "closed-1": payments / 2}, false)
	app.Until("the duplicates", func(now txn.Status) bool { return now.Totals.Records == 3*payments })
	for _, r := range s.Records(t, s.Out) {
		id, _, _ := strings.Cut(string(r.Value), " ")
		if want := times[id+" 1"]; !r.Timestamp.Equal(want) {
			t.Errorf("what is made of payment %s has the time %s, want %s", id, r.Timestamp, want)
		}
	}
	if err := app.Stop(); err != nil {
		t.Fatal(err)
	}
}
