package admin

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology/graph"
)

// olderMark writes the mark of a dead letter as builds did that told dead letters by their id and
// their deaths alone, the last of them with a session.
func (o *harness) olderMark(l DeadLetter, session string) (at time.Time) {
	o.t.Helper()
	at = time.Now().UTC().Truncate(time.Millisecond)
	r := &kgo.Record{Topic: "dead", Partition: l.Partition, Timestamp: at, Headers: []kgo.RecordHeader{
		{Key: "onceward.redriven", Value: []byte(l.ID + "/" + strconv.Itoa(l.Deaths))},
		{Key: "onceward.redriven.at", Value: []byte(at.Format("2006-01-02T15:04:05.000Z07:00"))},
		{Key: "onceward.redriven.to", Value: []byte("in-0")},
	}}
	if session != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: graph.HeaderSession, Value: []byte(session)})
	}
	o.write(r)
	return at
}

// TestMarkOfAnOlderBuildCounts: what an older build has redriven is neither redriven nor edited
// again. Requirement G5.
func TestMarkOfAnOlderBuildCounts(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		for _, session := range []string{"", "session"} {
			o := newHarness(t)
			o.die("a=1", "b=2", "a=3")
			letter := o.all(DeadLetterFilter{})["1"]
			at := o.olderMark(letter, session)
			o.wantOutcomes(o.redrive(RedriveOptions{DryRun: true}), map[RedriveOutcome]int64{Redriven: 2})
			report := o.redrive(RedriveOptions{})
			o.wantOutcomes(report, map[RedriveOutcome]int64{Redriven: 2})
			if want := (DeadLetterCounts{Letters: 3, Redriven: 1}); report.Counts != want {
				t.Errorf("the counts are %+v, want %+v", report.Counts, want)
			}
			o.want("in", "b=2", "a=3")
			if marked := o.all(DeadLetterFilter{Redriven: true})["1"]; !marked.Redriven.Equal(at) {
				t.Errorf("it was redriven at %s, want %s", marked.Redriven, at)
			}
			if err := o.letters.Edit(o.ctx, letter); !errors.Is(err, ErrDeadLetterRedriven) {
				t.Errorf("editing what was redriven returned %v", err)
			}
		}
	})
}

// TestMarkOfAnOlderBuildCountsForOne: of several dead letters that an older build took for one it
// has redriven the first, and the others wait. Requirement G5.
func TestMarkOfAnOlderBuildCountsForOne(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1")
		o.redrive(RedriveOptions{})
		copied := o.read("in")[0]
		for _, value := range []string{"2", "3"} {
			copied.Value = []byte(value)
			o.dieAgain(copied)
		}
		o.olderMark(o.all(DeadLetterFilter{})["2"], "")
		o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{Redriven: 1})
		o.want("in", "a=1", "a=3")
	})
}
