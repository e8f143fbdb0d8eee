package txn_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

const (
	keyListOffsets = 2
	latest         = -1 // the timestamp of ListOffsets that means the end
)

// listsEnd reports whether a request asks for the end of the topic "in".
func listsEnd(req *kmsg.ListOffsetsRequest) bool {
	return slices.ContainsFunc(req.Topics, func(t kmsg.ListOffsetsRequestTopic) bool {
		return t.Topic == "in" && t.Partitions[0].Timestamp == latest
	})
}

// startsAtEnd copies "in" to "out" from the end on, and remembers the values.
func startsAtEnd(t *testing.T, seen *sync.Map) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	topology.From(b, topology.Topic("in", schemas.String(), schemas.String()), topology.StartLatest()).
		Peek("see", func(r topology.Record[string, string]) error {
			seen.Store(r.Value, true)
			return nil
		}).Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// startQuestions hands every request for the end of "in" that is about the start to question, with
// its number from 1 on. Those that the lag is made of come at the beginning of a membership, in a
// pair, and the join is held until they are over; the next pair comes 5 s later.
func (b *testBroker) startQuestions(question func(n int64, req *kmsg.ListOffsetsRequest) kmsg.Response) {
	var lag, asked atomic.Int64
	b.ControlKey(keyListOffsets, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.ListOffsetsRequest)
		if !listsEnd(req) || lag.Add(1) <= 2 {
			return nil, nil, false
		}
		resp := question(asked.Add(1), req)
		return resp, nil, resp != nil
	})
	b.ControlKey(keyJoinGroup, func(kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		b.SleepControl(func() {
			for deadline := time.Now().Add(10 * time.Second); lag.Load() < 2 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // the condition is looked at again and again
			}
		})
		return nil, nil, false
	})
}

// TestStartIsResolvedOnce: the start of an input means one number, for its task and for the
// consumer. With a number each, a record that arrives between the two questions would be skipped by
// the one or dropped by the other (rule 7.3).
func TestStartIsResolvedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		b.send(t, "in", "before", 1)
		var asked atomic.Int64
		b.startQuestions(func(n int64, _ *kmsg.ListOffsetsRequest) kmsg.Response {
			if asked.Store(n); n == 2 { // the first one has its answer
				b.SleepControl(func() { b.send(t, "in", "between", 1) })
			}
			return nil
		})
		var seen sync.Map
		app, _ := start(t, startsAtEnd(t, &seen),
			b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the task to run", running(app, 1))
		b.send(t, "in", "after", 1)
		waitFor(t, "the record that came after", func() bool { _, ok := seen.Load("after0"); return ok })
		if _, ok := seen.Load("between0"); asked.Load() > 1 && !ok {
			t.Errorf("the start was asked for %d times, and what arrived in between was skipped", asked.Load())
		}
		if _, ok := seen.Load("before0"); ok || asked.Load() == 0 {
			t.Errorf("%d questions for the start, and what came before it was processed: %t", asked.Load(), ok)
		}
	})
}

// TestStartOutlivesTheMembership: what arrives between two memberships of a process, before its
// first commit, is not skipped (rule 7.3).
func TestStartOutlivesTheMembership(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		var seen sync.Map
		app, _ := start(t, startsAtEnd(t, &seen), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the task to run", running(app, 1))
		var lost, joins atomic.Int64
		b.ControlKey(keyHeartbeat, func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if !lost.CompareAndSwap(0, 1) {
				return nil, nil, false
			}
			resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
			resp.ErrorCode = kerr.UnknownMemberID.Code
			return resp, nil, true
		})
		b.ControlKey(keyJoinGroup, func(kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			if joins.Add(1) == 1 {
				b.SleepControl(func() { b.send(t, "in", "away", 1) })
			}
			return nil, nil, false
		})
		waitFor(t, "the record that came in between", func() bool { _, ok := seen.Load("away0"); return ok })
	})
}

// TestStartNotKnown: an input whose start cannot be told is not fetched, and the others are. When
// it can be told, its task runs.
func TestStartNotKnown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		var known atomic.Bool
		b.startQuestions(func(_ int64, req *kmsg.ListOffsetsRequest) kmsg.Response {
			if known.Load() {
				return nil
			}
			resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
			for _, topic := range req.Topics {
				rt := kmsg.NewListOffsetsResponseTopic()
				rt.Topic = topic.Topic
				for _, p := range topic.Partitions {
					rp := kmsg.NewListOffsetsResponseTopicPartition()
					rp.Partition, rp.Offset = p.Partition, 0
					if p.Partition == 0 {
						rp.Offset, rp.ErrorCode = -1, kerr.UnknownServerError.Code
					}
					rt.Partitions = append(rt.Partitions, rp)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			return resp
		})
		var seen sync.Map
		app, _ := start(t, startsAtEnd(t, &seen),
			b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "the task whose start is known", running(app, 1))
		b.produce(t, &kgo.Record{Topic: "in", Partition: 1, Key: []byte("k"), Value: []byte("other")})
		waitFor(t, "its record", func() bool { _, ok := seen.Load("other"); return ok })
		known.Store(true)
		waitFor(t, "both tasks", running(app, 2))
		b.send(t, "in", "own", 1)
		waitFor(t, "the record of the other input", func() bool { _, ok := seen.Load("own0"); return ok })
	})
}
