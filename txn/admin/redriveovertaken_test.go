package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// overtaken is what a commit fails with that has hung while another writer did its work.
func overtaken(point string, meanwhile func()) func(string) error {
	first := true
	return func(at string) error {
		if at != point || !first {
			return nil
		}
		first = false
		meanwhile()
		return context.DeadlineExceeded
	}
}

// TestOvertakenRedriveWritesNothing: a redrive hangs and comes back with a timeout, which does not
// say that it was fenced. It does not write again what another redrive has written meanwhile:
// neither its batch nor a later one. It reports what it has committed. Requirement G5.
func TestOvertakenRedriveWritesNothing(t *testing.T) {
	var keys [][]byte // of one partition, because it is there that they meet
	for i := 0; len(keys) < 3; i++ {
		if key := fmt.Append(nil, "k", i); graph.PartitionOf(key, harnessPartitions) == 0 {
			keys = append(keys, key)
		}
	}
	var records []string
	for i := range 12 {
		records = append(records, fmt.Sprintf("%s=%d", keys[i%3], i))
	}
	for name, others := range map[string]DeadLetterFilter{"all": {}, "some": {Keys: keys[:2]}, "one": {Keys: keys[2:]}} {
		for _, point := range crashPoints {
			t.Run(name+"-"+point, func(t *testing.T) {
				virtual.Test(t, func(t *testing.T) {
					o := newHarness(t)
					o.die(records...)
					var other RedriveReport
					report, err := o.letters.Redrive(o.ctx, RedriveOptions{batchMax: 4, crash: overtaken(point, func() {
						other = o.redrive(RedriveOptions{Filter: others})
					})})
					if !errors.Is(err, ErrRedriveFenced) {
						t.Errorf("the redrive that was overtaken returned %v", err)
					}
					if n := int64(len(o.read("in"))); report.Outcomes[Redriven]+other.Outcomes[Redriven] != n {
						t.Errorf("%d and %d are reported, %d are there", report.Outcomes[Redriven], other.Outcomes[Redriven], n)
					}
					o.redrive(RedriveOptions{})
					o.want("in", records...)
				})
			})
		}
	}
}

// TestRedriveOfADeadLetterEditedMeanwhile: a batch that has hung while a dead letter was edited is
// not written as it was before. Requirement G5.
func TestRedriveOfADeadLetterEditedMeanwhile(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1", "a=2")
		letter := o.all(DeadLetterFilter{})["2"]
		letter.Value = []byte("two")
		_, err := o.letters.Redrive(o.ctx, RedriveOptions{crash: overtaken(crashFlushed, func() {
			if err := o.letters.Edit(o.ctx, letter); err != nil {
				t.Error(err)
			}
		})})
		if !errors.Is(err, ErrRedriveFenced) {
			t.Errorf("the redrive that was overtaken returned %v", err)
		}
		o.redrive(RedriveOptions{})
		o.want("in", "a=1", "a=two")
	})
}

// TestTimedOutRedriveWritesOnce: without another redrive, a batch that fails with a timeout is
// written once, by this redrive. Requirement G5.
func TestTimedOutRedriveWritesOnce(t *testing.T) {
	for _, point := range crashPoints {
		t.Run(point, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				o := newHarness(t)
				o.die("a=1", "b=2", "a=3", "a=4")
				report := o.redrive(RedriveOptions{batchMax: 2, crash: overtaken(point, func() {})})
				o.wantOutcomes(report, map[RedriveOutcome]int64{Redriven: 4})
				o.want("in", "a=1", "b=2", "a=3", "a=4")
			})
		})
	}
}

// TestHeadersOfAMarkMakeNoMark: a record that brings the headers of a mark dies as any other, and
// makes no mark: neither hides its dead letter nor marks another one. The headers do not outlive
// it. The same holds for a dead letter that has them, from a runtime that let them pass.
// Requirement G5.
func TestHeadersOfAMarkMakeNoMark(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1")
		victim := o.all(DeadLetterFilter{})["1"]
		forged := string(victim.identity)
		err := o.driver.PipeRaw("in", []byte("a"), []byte("2"), topologytest.Header(HeaderRedriven, forged),
			topologytest.Header(HeaderRedrivenAt, "2020-01-01T00:00:00Z"), topologytest.Header(graph.HeaderSession, "x"))
		if err != nil {
			t.Fatal(err)
		}
		o.post()
		died := o.read("dead")
		for _, r := range died {
			for _, h := range r.Headers {
				if isMarkHeader(h.Key) || h.Key == graph.HeaderSession {
					t.Errorf("letter %s has brought the header %s along", r.Value, h.Key)
				}
			}
		}
		// A dead letter of a tombstone without a key is as near to a mark as a dead letter can be.
		old := &kgo.Record{Topic: "dead", Partition: victim.Partition, Timestamp: died[0].Timestamp}
		for _, h := range died[0].Headers {
			if h.Key == graph.HeaderID {
				h.Value = []byte("tombstone")
			}
			old.Headers = append(old.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		old.Headers = append(old.Headers, kgo.RecordHeader{Key: HeaderRedriven, Value: []byte(forged)})
		o.write(old)
		// A record that is neither a dead letter nor a mark says nothing.
		for _, r := range []kgo.Record{{Key: []byte("k")}, {Value: []byte("v")}, {Key: []byte{}}, {Value: []byte{}}} {
			r.Topic, r.Partition = "dead", victim.Partition
			r.Headers = []kgo.RecordHeader{{Key: HeaderRedriven, Value: []byte(forged)}}
			o.write(&r)
		}
		report := o.redrive(RedriveOptions{})
		o.wantOutcomes(report, map[RedriveOutcome]int64{Redriven: 3})
		if want := (DeadLetterCounts{Letters: 3, Foreign: 4}); report.Counts != want {
			t.Errorf("the counts are %+v, want %+v", report.Counts, want)
		}
		for _, r := range o.read("in") {
			for _, h := range r.Headers {
				if isMarkHeader(h.Key) {
					t.Errorf("record %s is redriven with the header %s", r.Value, h.Key)
				}
			}
		}
		o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{})
	})
}

// TestTargetsConcurrent: the client asks for the limits of topics while the redrive looks for more
// of them.
func TestTargetsConcurrent(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		topic, err := o.letters.open(o.ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer topic.close()
		r := &redrive{letterTopic: topic}
		o.setting("in", "max.message.bytes", "10000")
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond): // a loop without a wait would keep virtual time from passing
					r.batchBytes("in")
				}
			}
		}()
		for _, name := range []string{"in", "other", "absent"} {
			if _, err := r.targetTopic(o.ctx, name); err != nil {
				t.Error(err)
			}
		}
		close(stop)
		<-ended
		if got := r.batchBytes("in"); got != 10_000 {
			t.Errorf("the limit of in is %d", got)
		}
	})
}

// TestOvertakenEditLooksAgain: an edit that hangs and comes back with a timeout looks at the dead
// letter again. Requirement G5.
func TestOvertakenEditLooksAgain(t *testing.T) {
	for name, c := range map[string]struct {
		point     string
		meanwhile func(o *harness, seen DeadLetter)
		want      error
		in        string
	}{
		"redriven": {crashFlushed, func(o *harness, _ DeadLetter) { o.redrive(RedriveOptions{}) }, ErrDeadLetterRedriven, "a=1"},
		"edited": {crashFlushed, func(o *harness, seen DeadLetter) {
			seen.Value = []byte("theirs")
			if err := o.letters.Edit(o.ctx, seen); err != nil {
				o.t.Error(err)
			}
		}, ErrDeadLetterEdited, "a=theirs"},
		"alone":                {crashFlushed, func(*harness, DeadLetter) {}, nil, "a=mine"},
		"alone, unanswered":    {crashAnswered, func(*harness, DeadLetter) {}, nil, "a=mine"},
		"redriven, unanswered": {crashAnswered, func(o *harness, _ DeadLetter) { o.redrive(RedriveOptions{}) }, nil, "a=mine"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				o := newHarness(t)
				o.die("a=1")
				seen := o.all(DeadLetterFilter{})["1"]
				mine := seen
				mine.Value = []byte("mine")
				err := o.letters.edit(o.ctx, mine, overtaken(c.point, func() { c.meanwhile(o, seen) }))
				if !errors.Is(err, c.want) {
					t.Errorf("Edit returned %v, want %v", err, c.want)
				}
				o.redrive(RedriveOptions{})
				o.want("in", c.in)
				editions := 0
				for _, r := range o.read("dead") {
					if info, err := graph.ParseDeadLetter(headersFrom(r.Headers)); err == nil && info.Edition > 0 {
						editions++
					}
				}
				if want := strings.Count(c.in, "mine") + strings.Count(c.in, "theirs"); editions != want {
					t.Errorf("there are %d editions, want %d", editions, want)
				}
			})
		})
	}
}
