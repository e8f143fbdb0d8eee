package worker

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/protocol"
	"github.com/onceward/onceward/txn/internal/task"
)

// doubtful returns a worker whose round 0, of two tasks, is in doubt, settled and asked about.
// Before it both tasks were at previous.
func doubtful(t *testing.T, cluster *broker.Cluster, previous string) (*Worker, *round) {
	t.Helper()
	w := New(Config{Cluster: cluster, Logger: slog.New(slog.DiscardHandler), Budget: NewBudget(0, nil)}, [2]*broker.Producer{
		broker.NewProducer(broker.Config{}, "a", 0), broker.NewProducer(broker.Config{}, "b", 0),
	})
	for _, kind := range []protocol.EventKind{
		protocol.Joined, protocol.Due, protocol.Flushed, protocol.OffsetsAccepted, protocol.CommitUnknown, protocol.Settled,
	} {
		w.state, _ = protocol.Step(w.state, protocol.Event{Kind: kind})
	}
	if w.state.Front != protocol.Asking {
		t.Fatalf("the round is %s: the test tests nothing", w.state.Front)
	}
	r := newRound(0, outputs{})
	for p := range int32(2) {
		in := []state.Input{{Topic: "in", Partition: p}}
		c := &task.Contribution{
			Task: &task.Task{Spec: task.Spec{ID: graph.TaskID{Subtopology: "in", Partition: p}, Metadata: previous}},
			Next: state.Positions{Inputs: in},
		}
		c.Refer(p, 7) // any metadata that differs between the tasks
		r.contributions = append(r.contributions, c)
	}
	w.rounds[0] = r
	return w, r
}

// TestAsk: the stable offsets of the round's tasks decide for the whole round. Offsets that
// contradict each other end in an integrity error, and those of another member in opening the tasks
// again. None of these rounds is applied (rule 5.3).
func TestAsk(t *testing.T) {
	const ours, previous, none, other = "ours", "previous", "none", "other"
	for _, tc := range []struct {
		name   string
		before string // the metadata of the commit before, "" if there was none
		found  [2]string
		kind   protocol.EventKind
		fails  error
	}{
		{"ours", "before", [2]string{ours, ours}, protocol.FoundOurs, nil},
		{"previous", "before", [2]string{previous, previous}, protocol.FoundPrevious, nil},
		{"there was none before", "", [2]string{none, none}, protocol.FoundPrevious, nil},
		{"none although there was one", "before", [2]string{none, none}, protocol.FoundOther, ErrReopen},
		{"mixed", "before", [2]string{ours, previous}, protocol.FoundMixed, ErrIntegrity},
		{"mixed the other way round", "before", [2]string{previous, ours}, protocol.FoundMixed, ErrIntegrity},
		{"mixed, first commit", "", [2]string{ours, none}, protocol.FoundMixed, ErrIntegrity},
		{"somebody else's", "before", [2]string{other, other}, protocol.FoundOther, ErrReopen},
		{"ours and somebody else's", "before", [2]string{ours, other}, protocol.FoundOther, ErrReopen},
		{"previous and somebody else's", "before", [2]string{previous, other}, protocol.FoundOther, ErrReopen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "in"))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			cluster, err := broker.Connect(t.Context(), broker.Config{
				Brokers: c.ListenAddrs(), Logger: slog.New(slog.DiscardHandler),
			}, "app")
			if err != nil {
				t.Fatal(err)
			}
			defer cluster.Close()
			w, r := doubtful(t, cluster, tc.before)
			c.ControlKey(int16(kmsg.OffsetFetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				req := kreq.(*kmsg.OffsetFetchRequest)
				resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
				rt := kmsg.NewOffsetFetchResponseGroupTopic()
				rt.Topic = "in"
				for p, found := range tc.found {
					rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
					rp.Partition, rp.Offset = int32(p), 5
					switch found {
					case ours:
						rp.Metadata = kmsg.StringPtr(r.contributions[p].Metadata())
					case previous:
						rp.Metadata = kmsg.StringPtr(tc.before)
					case none:
						rp.Offset = -1
					case other:
						rp.Metadata = kmsg.StringPtr("somebody else's")
					}
					rt.Partitions = append(rt.Partitions, rp)
				}
				rg := kmsg.NewOffsetFetchResponseGroup()
				rg.Group, rg.Topics = "app", append(rg.Topics, rt)
				resp.Groups = append(resp.Groups, rg)
				return resp, nil, true
			})
			kind, err := w.committers[0].ask(t.Context(), r)
			if kind != tc.kind || (err != nil) != (tc.fails != nil) {
				t.Fatalf("the answer is %s (%v), want %s", kind, err, tc.kind)
			}
			if tc.fails == nil {
				return // what follows is the protocol's, and has its own tests
			}
			w.answered(answer{Event: protocol.Event{Kind: kind}, err: err})
			if !errors.Is(w.failed, tc.fails) || errors.Is(w.failed, ErrIntegrity) && errors.Is(w.failed, ErrReopen) {
				t.Errorf("the worker ends with %v, want %v", w.failed, tc.fails)
			}
			if n := len(w.committers[0].commands) + len(w.committers[1].commands); n > 0 {
				t.Errorf("%d commands were given after that", n)
			}
		})
	}
}
