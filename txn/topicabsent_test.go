package txn_test

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
)

const keyMetadata = 3

// absence answers questions for topics with a cluster that has none: those of the verification, or
// those that name one of some topics.
type absence struct {
	asked  atomic.Int64 // such questions
	answer atomic.Int64 // how many of the next ones are answered so
	given  atomic.Int64
	code   int16 // of the answer; set before there is one
}

func (b *testBroker) absence(t *testing.T, topics ...string) *absence {
	t.Helper()
	host, text, err := net.SplitHostPort(b.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	a := &absence{code: kerr.UnknownTopicOrPartition.Code}
	b.ControlKey(keyMetadata, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		if !req.IncludeTopicAuthorizedOperations { // that of a client for itself
			return nil, nil, false
		}
		if len(topics) > 0 && !slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool {
			return t.Topic != nil && slices.Contains(topics, *t.Topic)
		}) {
			return nil, nil, false
		}
		a.asked.Add(1)
		if a.answer.Load() == 0 {
			return nil, nil, false
		}
		a.answer.Add(-1)
		a.given.Add(1)
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = b.CurrentNode(), host, int32(port)
		resp.Brokers = append(resp.Brokers, broker)
		for _, asked := range req.Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.ErrorCode = asked.Topic, a.code
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	return a
}

// endMembership makes the member be unknown to the group, which begins a further membership.
func (b *testBroker) endMembership() {
	b.ControlKey(keyHeartbeat, func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = kerr.UnknownMemberID.Code
		return resp, nil, true
	})
}

// TestTopicAbsentForAMoment: topics that are missing in one answer and the next are asked for
// again, and the application goes on (rule 11.1).
func TestTopicAbsentForAMoment(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		a := b.absence(t)
		app, _ := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		feed(t, b, 200)
		waitFor(t, "the first records", func() bool { return app.Status().Totals.Records == 200 })
		a.answer.Store(2)
		b.endMembership()
		waitFor(t, "the topics to be missing twice", func() bool { return a.given.Load() == 2 })
		feed(t, b, 200)
		check(t, b.read(t, "out", 400), 20)
	})
}

// TestTopicAbsentForGood: a topic that was there and stays away ends Run, with its name. At the
// first start one answer is believed.
func TestTopicAbsentForGood(t *testing.T) {
	const all = 1 << 30
	for _, first := range []bool{true, false} {
		bubble(t, "first="+strconv.FormatBool(first), func(t *testing.T) {
			b := newBroker(t, 2, "in", "out")
			a := b.absence(t)
			if first {
				a.answer.Store(all)
			}
			app, err := txn.New(countTopology(t), b.config(txn.Config{
				StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t),
			}))
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- app.Run(t.Context()) }()
			began := time.Now()
			if !first {
				waitFor(t, "the tasks to run", running(app, 2))
				began = time.Now()
				a.answer.Store(all)
				b.endMembership()
			}
			select {
			case err = <-done:
			case <-time.After(patience):
				t.Fatalf("Run has not ended after %s", patience)
			}
			if err == nil || !strings.Contains(err.Error(), "topics that do not exist: in, out") {
				t.Errorf("Run returned %v, want that the topics are missing", err)
			}
			if given := a.given.Load(); first != (given == 1) {
				t.Errorf("the topics were asked for %d times, want once at the first start and more later", given)
			}
			if took := time.Since(began); !first && took < 15*time.Second {
				t.Errorf("the absence of topics that were there was believed after %s", took)
			}
		})
	}
}
