package admin

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology/graph"
)

// appendTime gives the records of a topic the broker's time, which the embedded broker does not do
// by itself. Their timestamps do not say that they are the broker's, as real ones do
// (e2e/processing).
func (o *harness) appendTime(topic string) {
	o.t.Helper()
	id := o.broker.TopicInfo(topic).TopicID
	const crcAt, crcOf, firstAt, maxAt = 17, 21, 27, 35 // of a batch in format 2
	o.broker.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		o.broker.KeepControl()
		produce := req.(*kmsg.ProduceRequest)
		for _, t := range produce.Topics {
			if t.Topic != topic && t.TopicID != id {
				continue
			}
			for _, p := range t.Partitions {
				now := uint64(time.Now().UnixMilli())
				binary.BigEndian.PutUint64(p.Records[firstAt:], now)
				binary.BigEndian.PutUint64(p.Records[maxAt:], now)
				binary.BigEndian.PutUint32(p.Records[crcAt:], crc32.Checksum(p.Records[crcOf:], crc32.MakeTable(crc32.Castagnoli)))
			}
		}
		return nil, nil, false
	})
}

// TestRedriveKeepsTheTimeOfTheRecord: a record keeps its time if the dead-letter topic has the
// broker's time. Requirement G5. The cases are:
//   - the record failed for the first time,
//   - an operator has edited it,
//   - it fails again with a time that a redrive has given it,
//   - an older build has written its dead letter, which does not say the time.
func TestRedriveKeepsTheTimeOfTheRecord(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.appendTime("dead")
		began := time.Now()
		o.die("a=1", "a=2", "a=3")
		died := map[string]time.Time{}
		for value, l := range o.all(DeadLetterFilter{}) {
			if l.Timestamp.Before(began.Truncate(time.Millisecond)) {
				t.Fatalf("the control: the letter of %s has the timestamp %s, which is not the broker's", value, l.Timestamp)
			}
			died[value] = time.UnixMilli(l.Origin.Timestamp)
		}
		edited := o.all(DeadLetterFilter{})["2"]
		edited.Value = []byte("two")
		if err := o.letters.Edit(o.ctx, edited); err != nil {
			t.Fatal(err)
		}
		died["two"] = died["2"]

		o.redrive(RedriveOptions{Filter: DeadLetterFilter{IDs: []string{edited.ID, o.all(DeadLetterFilter{})["1"].ID}}})
		o.redrive(RedriveOptions{TimestampNow: true})
		again := o.read("in")
		if len(again) != 3 {
			t.Fatalf("%d records are redriven", len(again))
		}
		for _, r := range again {
			if value := string(r.Value); value == "3" {
				died[value] = r.Timestamp // the operator's choice is the record's time from here on
			} else if !r.Timestamp.Equal(died[value]) {
				t.Errorf("%s is redriven with %s, it had %s", value, r.Timestamp, died[value])
			}
		}
		o.dieAgain(again...)
		o.redrive(RedriveOptions{})
		twice := o.read("in")[len(again):]
		if len(twice) != 3 {
			t.Fatalf("%d records are redriven again", len(twice))
		}
		for _, r := range twice {
			if !r.Timestamp.Equal(died[string(r.Value)]) {
				t.Errorf("%s is redriven again with %s, it had %s", r.Value, r.Timestamp, died[string(r.Value)])
			}
		}
	})
}

// TestRedriveOfOlderDeadLetters: the dead letters of older builds do not say which time the record
// had when it died last. It is the dead letter's then, unless that is the time of the failure.
// Requirement G5.
func TestRedriveOfOlderDeadLetters(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.dieOlder("a=1")
		o.redrive(RedriveOptions{})
		first := o.read("in")
		o.want("in", "a=1")
		if want := time.UnixMilli(o.all(DeadLetterFilter{Redriven: true})["1"].Origin.Timestamp); !first[0].Timestamp.Equal(want) {
			t.Errorf("the record is redriven with %s, it had %s", first[0].Timestamp, want)
		}
	})
}

// dieOlder is die in an older build.
func (o *harness) dieOlder(record string) {
	o.t.Helper()
	key, value, _ := strings.Cut(record, "=")
	if err := o.driver.PipeRaw("in", []byte(key), []byte(value)); err != nil {
		o.t.Fatal(err)
	}
	letters, err := o.driver.DeadLetters()
	if err != nil {
		o.t.Fatal(err)
	}
	for _, l := range letters {
		r := kafkaRecord(l)
		r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == graph.HeaderLastTimestamp })
		o.write(r)
	}
}
