package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
	"github.com/onceward/onceward/txn/internal/broker"
)

// TestRedriveWritesEachRecordOnce: what is redriven is the record as it was, once; the marks keep
// it from being redriven again. Requirement G5.
func TestRedriveWritesEachRecordOnce(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1", "b=2", "a=3", "c=poison")
		o.write(&kgo.Record{Topic: "dead", Value: []byte("of another program")})
		o.write(&kgo.Record{Topic: "dead", Headers: []kgo.RecordHeader{{Key: graph.HeaderID, Value: []byte("x")}}})
		dry := o.redrive(RedriveOptions{DryRun: true})
		o.wantOutcomes(dry, map[RedriveOutcome]int64{Redriven: 4})
		o.want("in")
		report := o.redrive(RedriveOptions{})
		o.wantOutcomes(report, map[RedriveOutcome]int64{Redriven: 4})
		if want := (DeadLetterCounts{Letters: 4, Foreign: 1, Malformed: 1}); report.Counts != want {
			t.Errorf("the counts are %+v, want %+v", report.Counts, want)
		}
		o.want("in", "a=1", "b=2", "a=3", "c=poison")
		o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{})
		o.want("in", "a=1", "b=2", "a=3", "c=poison")

		for _, r := range o.read("in") {
			info, err := graph.ParseDeadLetter(headersFrom(r.Headers))
			if err != nil || info.Deaths != 1 || info.Origin.Partition != r.Partition ||
				info.Origin.Timestamp != r.Timestamp.UnixMilli() {
				t.Errorf("%s=%s in partition %d of %s: %+v, %v", r.Key, r.Value, r.Partition, r.Timestamp, info, err)
			}
			var own []string
			for _, h := range r.Headers {
				if !graph.IsDeadLetterHeader(h.Key) {
					own = append(own, h.Key+"="+string(h.Value))
				}
				if strings.HasPrefix(h.Key, streamsHeaders) {
					t.Errorf("the header %s goes along", h.Key)
				}
			}
			if want := []string{"trace=" + string(r.Value), "trace=2"}; !slices.Equal(own, want) {
				t.Errorf("its own headers are %q, want %q", own, want)
			}
		}
		var redriven int
		counts, err := o.letters.Each(o.ctx, DeadLetterFilter{Redriven: true}, func(l DeadLetter) error {
			if redriven++; time.Since(l.Redriven) > time.Minute {
				t.Errorf("%s was redriven %s", l.ID, l.Redriven)
			}
			return nil
		})
		if err != nil || redriven != 4 || counts.Redriven != 4 {
			t.Errorf("%d letters were redriven, %+v, %v", redriven, counts, err)
		}
	})
}

func headersFrom(hs []Header) (out []topology.Header) {
	for _, h := range hs {
		out = append(out, topology.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

// TestFilterOfDeadLetters chooses by everything that a dead letter can be chosen by. Requirement
// G5.
func TestFilterOfDeadLetters(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1", "b=poison", "a=3")
		all := o.all(DeadLetterFilter{})
		first := all["1"]
		for name, f := range map[string]DeadLetterFilter{
			"id":          {IDs: []string{first.ID}},
			"key":         {Keys: [][]byte{[]byte("a")}, Until: first.LastFailure.Add(time.Nanosecond)},
			"class":       {Classes: []topology.Class{topology.Validation}, IDs: []string{first.ID}},
			"node":        {Nodes: []string{"judge"}, IDs: []string{first.ID}},
			"application": {Applications: []string{"app"}, Topics: []string{"in"}, IDs: []string{first.ID}},
			"until": {
				Until: first.LastFailure.Add(time.Nanosecond), Classes: []topology.Class{topology.Validation},
				Keys: [][]byte{[]byte("a")}, IDs: []string{first.ID},
			},
		} {
			got := o.all(f)
			for value := range got {
				if value != "1" && name != "key" {
					t.Errorf("%s chooses %s", name, value)
				}
			}
			if _, ok := got["1"]; !ok {
				t.Errorf("%s does not choose the letter", name)
			}
		}
		for name, f := range map[string]DeadLetterFilter{
			"id": {IDs: []string{"x"}}, "key": {Keys: [][]byte{nil}}, "class": {Classes: []topology.Class{topology.Conflict}},
			"node": {Nodes: []string{"x"}}, "application": {Applications: []string{"x"}}, "topic": {Topics: []string{"x"}},
			"since": {Since: time.Now()}, "until": {Until: first.LastFailure.Add(-time.Hour)},
		} {
			if got := o.all(f); len(got) > 0 {
				t.Errorf("%s chooses %d letters", name, len(got))
			}
		}
		o.wantOutcomes(o.redrive(RedriveOptions{Filter: DeadLetterFilter{Classes: []topology.Class{topology.Poison}}}),
			map[RedriveOutcome]int64{Redriven: 1})
		o.want("in", "b=poison")
		o.redrive(RedriveOptions{Filter: DeadLetterFilter{Keys: [][]byte{[]byte("a")}}, To: "other"})
		o.want("other", "a=1", "a=3")
		for _, r := range o.read("other") {
			if want := graph.PartitionOf(r.Key, harnessPartitions); r.Partition != want {
				t.Errorf("another topic has key %s in partition %d, want %d", r.Key, r.Partition, want)
			}
		}
	})
}

// all returns the dead letters by their values.
func (o *harness) all(f DeadLetterFilter) map[string]DeadLetter {
	o.t.Helper()
	out := map[string]DeadLetter{}
	_, err := o.letters.Each(o.ctx, f, func(l DeadLetter) error {
		out[string(l.Value)] = l
		return nil
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return out
}

// crashPoints are all points of a batch.
var crashPoints = []string{crashBegun, crashRecords, crashFlushed, crashAnswered}

// TestKilledRedriveWritesEachRecordOnce: killed at any point of any batch and done again, a redrive
// has written every record once. The control is a reader that does not tell what is committed: it
// sees what the killed ones have left. Requirement G5.
func TestKilledRedriveWritesEachRecordOnce(t *testing.T) {
	for _, point := range crashPoints {
		for batch := range 3 {
			t.Run(fmt.Sprintf("%s-%d", point, batch), func(t *testing.T) {
				virtual.Test(t, func(t *testing.T) {
					o := newHarness(t)
					var records []string
					for i := range 10 {
						records = append(records, fmt.Sprintf("k%d=%d", i%3, i))
					}
					o.die(records...)
					n := 0
					_, err := o.letters.Redrive(o.ctx, RedriveOptions{batchMax: 2, crash: func(at string) error {
						if at != point {
							return nil
						}
						if n++; n <= batch {
							return nil
						}
						return errCrash
					}})
					if !errors.Is(err, errCrash) {
						t.Fatalf("Redrive returned %v", err)
					}
					o.redrive(RedriveOptions{batchMax: 3})
					o.want("in", records...)
					o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{})
					left := 0
					if point == crashRecords || point == crashFlushed {
						left = 2
					}
					if dirty := o.uncommitted("in"); dirty != len(records)+left {
						t.Errorf("the control: a reader of everything sees %d records, want %d more than %d", dirty, left, len(records))
					}
				})
			})
		}
	}
}

// uncommitted counts what a reader of everything sees.
func (o *harness) uncommitted(topic string) (n int) {
	o.t.Helper()
	ends, err := kadm.NewClient(o.cl).ListEndOffsets(o.ctx, topic)
	if err != nil {
		o.t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(e kadm.ListedOffset) {
		if e.Offset > 0 {
			left[e.Partition] = e.Offset
		}
	})
	cl := o.broker.Client(o.t, "dirty reader", kgo.ConsumeTopics(topic), kgo.KeepControlRecords())
	for len(left) > 0 {
		fetches := cl.PollFetches(o.ctx)
		if err := fetches.Err0(); err != nil {
			o.t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				n++
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return n
}

// TestMarksBehindAnOpenTransactionCount: a mark counts that is committed behind an open transaction
// of another producer. The control is a reader up to the last stable offset, which does not see the
// mark. Requirement G5.
func TestMarksBehindAnOpenTransactionCount(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1")
		p := graph.PartitionOf([]byte("a"), harnessPartitions)
		application := o.broker.Client(t, "application", kgo.TransactionalID("app~one~0~0"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		// The first redrive is at its end when the application begins: its commit comes behind what
		// is open.
		_, err := o.letters.Redrive(o.ctx, RedriveOptions{crash: func(point string) error {
			if point != crashBegun {
				return nil
			}
			if err := application.BeginTransaction(); err != nil {
				return err
			}
			return application.ProduceSync(o.ctx, &kgo.Record{Topic: "dead", Partition: p, Value: []byte("open")}).FirstErr()
		}})
		if err != nil {
			t.Fatal(err)
		}
		if l := o.all(DeadLetterFilter{})["1"]; l.ID == "" {
			t.Fatal("the control: the mark is in front of the open transaction, and this test shows nothing")
		}
		ended := make(chan error, 1)
		second := make(chan RedriveReport, 1)
		go func() {
			report, err := o.letters.Redrive(o.ctx, RedriveOptions{})
			second <- report
			ended <- err
		}()
		select {
		case report := <-second:
			t.Errorf("the second redrive did not wait: %+v", report)
		case <-time.After(30 * time.Second): // the transaction ends by itself after 40 s
		}
		if err := application.EndTransaction(o.ctx, kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		o.want("in", "a=1")
	})
}

// TestOlderOfTwoRedrivesEnds: of two at a time the older one ends, between two batches at the
// latest, and nothing is written twice. Requirement G5.
func TestOlderOfTwoRedrivesEnds(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		var records []string
		for i := range 20 {
			records = append(records, fmt.Sprintf("k%d=%d", i%3, i))
		}
		o.die(records...)
		done := 0
		_, err := o.letters.Redrive(o.ctx, RedriveOptions{batchMax: 2, Step: func(DeadLetter, RedriveOutcome) error {
			if done++; done == 3 {
				o.redrive(RedriveOptions{Filter: DeadLetterFilter{Keys: [][]byte{[]byte("k1"), []byte("k2")}}})
			}
			return nil
		}})
		if !errors.Is(err, ErrRedriveFenced) {
			t.Errorf("the older redrive returned %v", err)
		}
		o.redrive(RedriveOptions{})
		o.want("in", records...)
	})
}

// TestRecordThatFailsAgainAndAgainIsLeft: what dies again and again is left alone at some point,
// keeps its id and its first origin, and does not grow. Requirement G5.
func TestRecordThatFailsAgainAndAgainIsLeft(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1")
		sizes := map[int]int{}
		var id string
		for death := 1; death <= 3; death++ {
			l := o.all(DeadLetterFilter{})["1"]
			if id == "" {
				id = l.ID
			}
			if l.Deaths != death || l.ID != id || l.Origin.Offset != 0 {
				t.Fatalf("death %d: %+v", death, l.DeadLetterInfo)
			}
			for _, r := range o.read("dead") {
				if info, err := graph.ParseDeadLetter(headersFrom(r.Headers)); err == nil {
					sizes[info.Deaths] = len(r.Headers)
				}
			}
			before := len(o.read("in"))
			report := o.redrive(RedriveOptions{})
			if death == 3 {
				o.wantOutcomes(report, map[RedriveOutcome]int64{LeftDeaths: 1})
				break
			}
			o.wantOutcomes(report, map[RedriveOutcome]int64{Redriven: 1})
			o.dieAgain(o.read("in")[before:]...)
		}
		if sizes[1] != sizes[2] || sizes[2] != sizes[3] {
			t.Errorf("the letters have %v headers", sizes)
		}
		o.wantOutcomes(o.redrive(RedriveOptions{DeathsMax: -1}), map[RedriveOutcome]int64{Redriven: 1})
	})
}

// TestRedriveOfARecordUnderAnotherKey: a record that died under another key than its own is chosen
// by its own, written back as it died, and to another topic as the application knows it. On demand
// it says that it comes again. Requirement G5.
func TestRedriveOfARecordUnderAnotherKey(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		for _, value := range []string{"1", "2"} {
			own, mode := topologytest.Header(graph.HeaderOwnKey, "owner"), topologytest.Header(topology.HeaderMode, "BACKFILL")
			if err := o.driver.PipeRaw("in", []byte("id"), []byte(value), own, mode); err != nil {
				t.Fatal(err)
			}
			o.post()
			only := DeadLetterFilter{Keys: [][]byte{[]byte("owner")}}
			o.wantOutcomes(o.redrive(RedriveOptions{Filter: DeadLetterFilter{Keys: [][]byte{[]byte("id")}}}), map[RedriveOutcome]int64{})
			options := RedriveOptions{Filter: only}
			if value == "2" {
				options.To, options.Repair = "other", true
			}
			o.wantOutcomes(o.redrive(options), map[RedriveOutcome]int64{Redriven: 1})
		}
		for topic, want := range map[string]string{
			"in": "id=1 onceward.inbox.key=owner onceward.mode=BACKFILL", "other": "owner=2 onceward.mode=REPAIR",
		} {
			for _, r := range o.read(topic) {
				got := string(r.Key) + "=" + string(r.Value)
				for _, h := range r.Headers {
					if !graph.IsDeadLetterHeader(h.Key) {
						got += " " + h.Key + "=" + string(h.Value)
					}
				}
				if got != want || r.Partition != graph.PartitionOf(r.Key, harnessPartitions) {
					t.Errorf("%s[%d] has %q, want %q", topic, r.Partition, got, want)
				}
			}
		}
		if len(o.read("in")) != 1 || len(o.read("other")) != 1 {
			t.Errorf("in has %d records, other %d", len(o.read("in")), len(o.read("other")))
		}
	})
}

// TestWhatCannotBeRedrivenStays: what cannot be redriven as it was stays where it is, with the
// reason. Requirement G5.
func TestWhatCannotBeRedrivenStays(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		o.die("a=1")
		died := o.read("dead")[0]
		forge := func(name, header, value string, change func(*kgo.Record)) {
			r := &kgo.Record{Topic: "dead", Partition: died.Partition, Key: died.Key, Value: []byte(name), Timestamp: died.Timestamp}
			for _, h := range died.Headers {
				switch h.Key {
				case graph.HeaderID:
					h.Value = []byte(name)
				case header:
					h.Value = []byte(value)
				}
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			if change != nil {
				change(r)
			}
			o.write(r)
		}
		forge("cut", "", "", func(r *kgo.Record) {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: graph.HeaderCut, Value: []byte("key=1 value=9 headers=0")})
		})
		forge("absent", graph.HeaderStreamsTopic, "absent", nil)
		forge("partition", graph.HeaderStreamsPartition, "7", nil)
		forge("loop", graph.HeaderStreamsTopic, "dead", nil)
		at := func(after time.Duration) string { return fmt.Sprint(time.Now().Add(after).UnixMilli()) }
		forge("old", graph.HeaderLastTimestamp, at(-2*time.Hour), nil)
		forge("large", "", "", func(r *kgo.Record) { r.Value = append([]byte("large"), make([]byte, 20_000)...) })
		forge("future", graph.HeaderLastTimestamp, at(24*time.Hour), nil)
		forge("negative", graph.HeaderLastTimestamp, "-1", nil)
		forge("future in an older build", graph.HeaderTimestamp, at(24*time.Hour), func(r *kgo.Record) {
			r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == graph.HeaderLastTimestamp })
			for i, h := range r.Headers {
				if h.Key == graph.HeaderLastFailure {
					r.Headers[i].Value = time.UnixMilli(r.Timestamp.UnixMilli()).UTC().AppendFormat(nil, markTime)
				}
			}
		})
		o.setting("in", "retention.ms", fmt.Sprint((90 * time.Minute).Milliseconds()))
		o.setting("in", "max.message.bytes", "10000")
		want := map[RedriveOutcome]int64{
			Redriven: 1, LeftCut: 1, LeftNoTopic: 2, LeftLoop: 1, LeftTooOld: 1, LeftTooLarge: 1, LeftTimestamp: 3,
		}
		o.wantOutcomes(o.redrive(RedriveOptions{DryRun: true}), want)
		o.wantOutcomes(o.redrive(RedriveOptions{}), want)
		o.want("in", "a=1")
		delete(want, Redriven)
		o.wantOutcomes(o.redrive(RedriveOptions{}), want)
		o.wantOutcomes(o.redrive(RedriveOptions{TimestampNow: true}), map[RedriveOutcome]int64{
			Redriven: 4, LeftCut: 1, LeftNoTopic: 2, LeftLoop: 1, LeftTooLarge: 1,
		})
	})
}

// TestRedriveOfARecordAheadOfTheClock: a record that was somewhat ahead of the clock when it died
// is redriven as far as the topic takes it, also where its dead letter has the broker's time.
// Requirement G5.
func TestRedriveOfARecordAheadOfTheClock(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		const unlimited = "9223372036854775807"
		for _, c := range []struct {
			takes string
			ahead time.Duration
			clock string
			want  RedriveOutcome
		}{
			{"600000", 5 * time.Minute, "CreateTime", Redriven}, {"600000", 15 * time.Minute, "CreateTime", LeftTimestamp},
			{"600000", -5 * time.Minute, "CreateTime", Redriven}, {unlimited, 50 * time.Minute, "CreateTime", Redriven},
			{unlimited, 2 * time.Hour, "CreateTime", LeftTimestamp}, {"", time.Minute, "CreateTime", LeftTimestamp},
			{"600000", 24 * time.Hour, "LogAppendTime", Redriven}, {"", 24 * time.Hour, "LogAppendTime", Redriven},
		} {
			o := newHarness(t)
			o.die("a=1")
			topic, err := o.letters.open(o.ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer topic.close()
			r := &redrive{letterTopic: topic}
			info, err := r.targetTopic(o.ctx, "in")
			if err != nil {
				t.Fatal(err)
			}
			info.Settings["message.timestamp.after.max.ms"] = broker.Setting{Value: c.takes} // the embedded broker does not know it
			info.Settings["message.timestamp.type"] = broker.Setting{Value: c.clock}
			l := o.all(DeadLetterFilter{})["1"]
			l.LastTimestamp = time.Now().Add(c.ahead).UnixMilli()
			rec, outcome, err := r.target(o.ctx, &l)
			if err != nil || outcome != c.want || outcome == Redriven && rec.Timestamp.UnixMilli() != l.LastTimestamp {
				t.Errorf("%s ahead of the clock, where a topic takes %q: %v, %s, %v", c.ahead, c.takes, rec, outcome, err)
			}
		}
	})
}

func (o *harness) setting(topic, name, value string) {
	o.t.Helper()
	resp, err := kadm.NewClient(o.cl).AlterTopicConfigs(o.ctx, []kadm.AlterConfig{{Name: name, Value: &value}}, topic)
	if err == nil {
		err = resp[0].Err
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// TestRedriveRate: the records come no faster than they may. Requirement G5.
func TestRedriveRate(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		var records []string
		for i := range 12 {
			records = append(records, fmt.Sprintf("k=%d", i))
		}
		o.die(records...)
		start := time.Now()
		o.redrive(RedriveOptions{Rate: 10})
		// Ten at once, the next two when the ten have used their second up.
		if took := time.Since(start); took < time.Second || took > 2*time.Second {
			t.Errorf("12 records at 10 a second took %s", took)
		}
		o.want("in", records...)
		if _, err := o.letters.Redrive(o.ctx, RedriveOptions{Rate: -1}); err == nil {
			t.Error("a negative rate is taken")
		}
	})
}

// TestLettersOfAnInput: a dead letter is chosen by the topic in which the record died, and by the
// input that it came from, where the topic keeps that (G5).
func TestLettersOfAnInput(t *testing.T) {
	var kept, direct, other DeadLetter
	kept.Origin.Topic, kept.Source.Topic = "app-words-repartition", "in"
	direct.Origin.Topic = "in"
	other.Origin.Topic = "app-words-repartition"
	for topic, want := range map[string][3]bool{"in": {true, true, false}, "app-words-repartition": {true, false, true}, "": {}} {
		f := DeadLetterFilter{Topics: []string{topic}}
		if got := [3]bool{f.Matches(&kept), f.Matches(&direct), f.Matches(&other)}; got != want {
			t.Errorf("%q chooses %v, want %v", topic, got, want)
		}
	}
}

// TestRedriveBehindAHangingOne: the markers of a redrive's commit are lost in the topic to which it
// has written. The next redrive would take these records along, so it refuses, names the
// transaction, and writes nothing, until that is repaired.
func TestRedriveBehindAHangingOne(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		lost := false
		o.broker.LoseMarkers(t, func(end virtual.End) virtual.Loss {
			if lost || end.TransactionalID != "dead~redrive" {
				return nil
			}
			lost = true
			return func(topic string, _ int32) bool { return topic == "dead" }
		})
		o.die("a=1")
		o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{Redriven: 1})
		o.die("a=2")
		report, err := o.letters.Redrive(o.ctx, RedriveOptions{})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "hangs in in[") || report.Outcomes[Redriven] != 0 {
			t.Fatalf("a redrive behind one that hangs has done %+v, %v", report, err)
		}
		top := harnessTopology(t, "app")
		refused := err.Error()
		open, err := o.client.Application(top).Transactions(o.ctx)
		if err != nil || len(open.Transactions) != 1 || !strings.Contains(refused, open.Transactions[0].ID) {
			t.Fatalf("%+v are open, %v", open, err)
		}
		repaired, err := o.client.Application(top).RepairTransactions(o.ctx, RepairOptions{Transactions: []string{open.Transactions[0].ID}})
		if err != nil || repaired.Transactions[0].Outcome != OutcomeCommit {
			t.Fatalf("the repair has done %+v, %v", repaired, err)
		}
		o.wantOutcomes(o.redrive(RedriveOptions{}), map[RedriveOutcome]int64{Redriven: 1})
		o.want("in", "a=1", "a=2")
	})
}
