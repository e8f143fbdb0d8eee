package txn_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// refuseOffsets makes the coordinator refuse the offsets of a topic, and accept those of others in
// the same request. An empty topic means all of them. It returns how many requests were refused.
func (b *testBroker) refuseOffsets(topic string, code *kerr.Error) *atomic.Int64 {
	var refused atomic.Int64
	b.ControlKey(keyTxnOffsetCommit, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.TxnOffsetCommitRequest)
		about := func(t kmsg.TxnOffsetCommitRequestTopic) bool { return topic == "" || t.Topic == topic }
		if !slices.ContainsFunc(req.Topics, about) {
			return nil, nil, false
		}
		refused.Add(1)
		resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewTxnOffsetCommitResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				rp.Partition = p.Partition
				if about(t) {
					rp.ErrorCode = code.Code
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	return &refused
}

// twoInputs copies "in" and "open" to "out", each in a task of its own.
func twoInputs(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("counting")
	for _, name := range []string{"in", "open"} {
		topology.From(b, topology.Topic(name, schemas.Bytes(), schemas.Bytes())).
			IntoNamed("copy-"+name, topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	}
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// TestUnreadableInput: the permission to read an input is taken away while fetches still bring
// records, and shows when its offset is committed. The tasks that read it stop, and only those
// (rules 9.3 and 10.5).
func TestUnreadableInput(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "open", "out")
		refused := b.refuseOffsets("in", kerr.TopicAuthorizationFailed)
		app, stop := start(t, twoInputs(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		waitFor(t, "both tasks", running(app, 2))
		const n = 50
		for i := range n {
			b.produce(t, &kgo.Record{Topic: "in", Value: []byte{byte(i)}}, &kgo.Record{Topic: "open", Value: []byte{byte(i)}})
		}
		waitFor(t, "one task to stop and the other one to finish", func() bool {
			stopped, done := false, false
			for _, task := range app.Status().Tasks {
				reads := task.Inputs[0].Topic
				stopped = stopped || reads == "in" && task.State == txn.TaskStopped && strings.Contains(task.Reason, `Read on Topic "in"`)
				done = done || reads == "open" && task.State == txn.TaskRunning && task.Records == n
			}
			return stopped && done
		})
		if refused.Load() != 1 {
			t.Errorf("offsets were refused %d times, want once: the task had to stop with the first one", refused.Load())
		}
		b.read(t, "out", n)
		if err := stop(); !errors.Is(err, txn.ErrStopped) || !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("Run returned %v, want that a task is stopped and why", err)
		}
	})
}

// TestRefusedOffsetsEndRun: with FailFast the task that cannot commit ends Run; a permission on the
// group that is missing ends it always, as no task can go on.
func TestRefusedOffsetsEndRun(t *testing.T) {
	for _, tc := range []struct {
		name     string
		topic    string
		code     *kerr.Error
		failFast bool
		task     bool // that ends it
	}{
		{"an input with FailFast", "in", kerr.TopicAuthorizationFailed, true, true},
		{"the group", "", kerr.GroupAuthorizationFailed, false, false},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			b := newBroker(t, 1, "in", "open", "out")
			b.refuseOffsets(tc.topic, tc.code)
			app, err := txn.New(twoInputs(t), b.config(txn.Config{
				StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t), FailFast: tc.failFast,
			}))
			if err != nil {
				t.Fatal(err)
			}
			b.produce(t, &kgo.Record{Topic: "in", Value: []byte("v")})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = app.Run(ctx)
			if ctx.Err() != nil || !errors.Is(err, tc.code) || errors.Is(err, txn.ErrStopped) != tc.task {
				t.Errorf("Run returned %v, want %v because of a stopped task: %t", err, tc.code, tc.task)
			}
		})
	}
}
