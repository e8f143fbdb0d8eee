package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
)

// TestAsk: each partition gets a copy, and its answer is found wherever it comes, among others; who
// does not answer is named.
func TestAsk(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		o := newHarness(t)
		write := func(topic string, partition int32, key, value string) {
			r := &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value)}
			if err := o.cl.ProduceSync(o.ctx, r).FirstErr(); err != nil && o.ctx.Err() == nil {
				t.Error(err)
			}
		}
		write("other", 0, "q/0", "of an earlier time")

		// The one who is asked answers all in one partition, and talks to others as well. Partition
		// 1 does not answer the second question.
		answering, stop := context.WithCancel(o.ctx)
		ended := make(chan struct{})
		t.Cleanup(func() { stop(); <-ended })
		asked := o.broker.Client(t, "asked", kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		go func() {
			defer close(ended)
			for answering.Err() == nil {
				asked.PollFetches(answering).EachRecord(func(r *kgo.Record) {
					write("other", 1, "somebody else", "hello")
					if string(r.Key) != "half/1" {
						write("other", 1, string(r.Key), string(r.Value)+"!")
					}
				})
			}
		}()

		answers, err := o.client.Ask(o.ctx, Question{Topic: "in", Answers: "other", ID: "q", Value: []byte("well")})
		if err != nil || len(answers) != harnessPartitions {
			t.Fatalf("answers %v, %v", answers, err)
		}
		for p, a := range answers {
			if string(a.Value) != "well!" || a.Partition != 1 {
				t.Errorf("partition %d is said to have answered %q in partition %d", p, a.Value, a.Partition)
			}
		}

		ctx, cancel := context.WithTimeout(o.ctx, 10*time.Minute)
		defer cancel()
		answers, err = o.client.Ask(ctx, Question{Topic: "in", Answers: "other", ID: "half", Value: []byte("well")})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the answers of partitions [1] of in in other") {
			t.Errorf("without an answer of partition 1 the error is %v", err)
		}
		if _, there := answers[0]; !there || len(answers) != 1 {
			t.Errorf("without an answer of partition 1 there is %v", answers)
		}

		for _, q := range []Question{{Topic: "absent", Answers: "other"}, {Topic: "in", Answers: "absent"}} {
			if _, err := o.client.Ask(o.ctx, q); err == nil || !strings.Contains(err.Error(), "absent") {
				t.Errorf("asking %s for answers in %s gives %v", q.Topic, q.Answers, err)
			}
		}
		records, err := o.client.Read(o.ctx, "in")
		if err != nil || slices.ContainsFunc(records.Records, func(r Record) bool { return len(r.Value) == 0 }) {
			t.Errorf("something was asked of a topic without answers: %v, %v", records, err)
		}
	})
}
