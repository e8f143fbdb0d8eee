package txn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/onceward/onceward/txn"
)

const keyEpochEnd = 23 // OffsetForLeaderEpoch

// fetchesAnew are the log lines of a session that ends because a log only looked shortened.
const fetchesAnew = "a log looked shortened after a change of leaders and is not: it has all records that were read"

// fenceOnce makes the broker refuse one fetch of "in" at an offset that is asked for, as after a
// change of leaders: the client asks where its leader epoch ends, and goes on from there.
func (b *testBroker) fenceOnce(at func(offset int64) bool) (fenced func() bool) {
	var done atomic.Bool
	in := b.TopicInfo("in").TopicID
	b.ControlKey(keyFetch, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		req := kreq.(*kmsg.FetchRequest)
		for _, t := range req.Topics {
			if t.TopicID != in {
				continue
			}
			for _, p := range t.Partitions {
				if at(p.FetchOffset) && done.CompareAndSwap(false, true) {
					return fencedFetch(req, t, p), nil, true
				}
			}
		}
		return nil, nil, false
	})
	return done.Load
}

// fencedFetch is an answer that says FENCED_LEADER_EPOCH of one partition.
func fencedFetch(req *kmsg.FetchRequest, t kmsg.FetchRequestTopic, p kmsg.FetchRequestTopicPartition) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	topic, part := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
	topic.Topic, topic.TopicID = t.Topic, t.TopicID
	part.Partition, part.ErrorCode = p.Partition, kerr.FencedLeaderEpoch.Code
	topic.Partitions = append(topic.Partitions, part)
	resp.Topics = append(resp.Topics, topic)
	return resp
}

// TestLogLooksShortened: a client whose position is past a part of an aborted transaction, of a
// newer leader epoch than the last record before it, takes the log for shortened when it has to
// look. The log has everything that was read: nothing stops, nothing is processed twice and nothing
// is left out.
func TestLogLooksShortened(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		var anew atomic.Int64
		app, stop := start(t, countTopology(t), b.config(txn.Config{
			StateDir: t.TempDir(), Workers: 1, Logger: countLogs(fetchesAnew, &anew),
		}))
		feedOne(t, b, 100)
		b.read(t, "out", 100)

		// More is aborted, in leader epoch 1, than one fetch takes: the first one moves the client
		// past records that it returns to no caller. At its end the client is between them and the
		// marker.
		fenced := b.fenceOnce(func(offset int64) bool { return offset > 100 })
		if err := b.MoveTopicPartition("in", 0, b.PartitionInfo("in", 0).Leader); err != nil {
			t.Fatal(err)
		}
		abortLarge(t, b)
		feedOne(t, b, 100)
		check(t, b.read(t, "out", 200), 10)
		if !fenced() || anew.Load() != 1 {
			t.Errorf("a fetch was refused: %t; the log looked shortened %d times, want once", fenced(), anew.Load())
		}
		if s := app.Status().Tasks; len(s) != 1 || s[0].State != txn.TaskRunning {
			t.Errorf("the tasks are %+v", s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// feedOne sends records of 20 keys to the one partition of "in".
func feedOne(t *testing.T, b *testBroker, n int) {
	t.Helper()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Topic: "in", Key: fmt.Appendf(nil, "k%d", i%20), Value: []byte("v")}
	}
	b.produce(t, records...)
}

// abortLarge aborts a transaction of some megabytes on "in".
func abortLarge(t *testing.T, b *testBroker) {
	t.Helper()
	cl := b.client(t, kgo.TransactionalID("upstream"),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("x"), 800<<10)
	for range 8 {
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "in", Key: []byte("k0"), Value: large}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

// TestShortenedLog: where the leader leaves an epoch before the last record of it that was read,
// records are lost. The task stops, and what it says is about stored data; so does a task that has
// read nothing yet, by the position that it has committed.
func TestShortenedLog(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 1, "in", "out")
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1, Logger: testLogger(t)})
		run := func() chan error {
			app, err := txn.New(countTopology(t), cfg)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			ended := make(chan error, 1)
			go func() { ended <- app.Run(ctx) }()
			return ended
		}
		first := run()
		feedOne(t, b, 100)
		b.read(t, "out", 100)
		waitFor(t, "the last round", func() bool { return b.committed(t)[0] == 100 })
		b.ControlKey(keyEpochEnd, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			b.KeepControl()
			return epochEnds(kreq.(*kmsg.OffsetForLeaderEpochRequest), 95), nil, true
		})
		b.fenceOnce(func(offset int64) bool { return offset == 100 })
		for life, ended := range []chan error{first, nil} {
			if ended == nil {
				ended = run()
			}
			err := <-ended
			if !errors.Is(err, txn.ErrAllStopped) || !errors.Is(err, txn.ErrIntegrity) ||
				!strings.Contains(err.Error(), "records up to offset 99, the last of them of leader epoch 0, were read") ||
				!strings.Contains(err.Error(), "leaves that epoch at offset 95 and holds offsets 0 to 100") {
				t.Errorf("life %d: Run returns %v", life, err)
			}
		}
		if got := b.committed(t)[0]; got != 100 {
			t.Errorf("the position is %d", got)
		}
	})
}

// epochEnds answers that every partition leaves the epoch that is asked for at an offset.
func epochEnds(req *kmsg.OffsetForLeaderEpochRequest, end int64) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, rt := range req.Topics {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = rt.Topic
		for _, rp := range rt.Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.LeaderEpoch, p.EndOffset = rp.Partition, rp.LeaderEpoch, end
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
