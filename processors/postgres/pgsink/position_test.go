package pgsink

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/postgres/internal/pgtest"
)

// stableEnd returns the last stable offset of partition 0.
func (s *stage) stableEnd() int64 {
	s.t.Helper()
	ends, err := s.c.StableOffsets(s.t.Context(), s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	return ends[0]
}

func (s *stage) next() int64 {
	return s.db.Int(s.t, "SELECT coalesce(max(next_offset), -1) FROM onceward.sink_offsets WHERE sink = $1 AND partition = 0", s.name)
}

// deleteRecords deletes everything that the topic has.
func (s *stage) deleteRecords() {
	s.t.Helper()
	ends, err := s.c.Admin().ListEndOffsets(s.t.Context(), s.topic)
	if err != nil {
		s.t.Fatal(err)
	}
	deleted, err := s.c.Admin().DeleteRecords(s.t.Context(), ends.Offsets())
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestIdleTopicIsDeleted: a topic whose records were all applied can lose them, with the ends of
// their transactions and the aborted records behind them, and the sink goes on with what comes
// later.
func TestIdleTopicIsDeleted(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.sink("a", nil)
		a.restMax = 10 * time.Millisecond
		s.produce(1, 10)
		stop := s.start(a)
		s.awaitEnd()
		aborted := s.c.Client(s.t, kgo.TransactionalID(s.c.Name(s.t, "aborts")))
		if err := aborted.BeginTransaction(); err != nil {
			s.t.Fatal(err)
		}
		if err := aborted.ProduceSync(s.t.Context(), &kgo.Record{Topic: s.topic, Value: []byte("aborted")}).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
		if err := aborted.EndTransaction(s.t.Context(), kgo.TryAbort); err != nil {
			s.t.Fatal(err)
		}
		aborted.Close()
		ended := func() bool { // the marker of the abort can come after its answer
			ends, err := s.c.Admin().ListEndOffsets(s.t.Context(), s.topic)
			end, there := ends.Lookup(s.topic, 0)
			return err == nil && there && end.Offset == s.stableEnd()
		}
		pgtest.Await(s.t, "the offset is at the end", func() bool { return ended() && s.next() == s.stableEnd() })
		stop()
		s.deleteRecords()
		s.start(s.sink("b", nil))
		s.produce(1, 10)
		s.awaitEnd()
		s.judge()
	})
}

// TestSetOffset: after records were lost, an operator says where to go on.
func TestSetOffset(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.produce(1, 10)
		stop := s.start(s.sink("a", nil))
		s.awaitEnd()
		stop()
		s.produce(1, 10)
		s.count -= 10
		s.deleteRecords()
		if err := s.sink("a", nil).Run(s.t.Context()); err == nil || !strings.Contains(err.Error(), "SetOffset") {
			s.t.Fatal(err)
		}
		for want, offset := range map[string]int64{"0 or more": -1, "": s.stableEnd()} {
			err := SetOffset(s.t.Context(), s.db.Pool, s.name, s.topic, 0, offset)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				s.t.Errorf("offset %d: %v", offset, err)
			}
		}
		offsets, err := Offsets(s.t.Context(), s.db.Pool, s.name)
		if err != nil || len(offsets) != 1 || offsets[0].Next != s.stableEnd() || offsets[0].Topic != s.topic || offsets[0].Owner != "" ||
			offsets[0].MovedAt.IsZero() {
			s.t.Errorf("%+v, %v", offsets, err)
		}
		if err := SetOffset(s.t.Context(), s.db.Pool, s.name, s.topic, 7, 0); err == nil {
			s.t.Error("an offset of a partition that is not there can be set")
		}
		s.start(s.sink("a", nil))
		s.produce(1, 10)
		s.awaitEnd()
		if n := s.effects(); n != s.count {
			s.t.Errorf("%d effects, want %d", n, s.count)
		}
	})
}

// TestLogWasCut: a log that was cut below the offset while the sink was down is noticed by the
// leader epoch, although it is longer than before.
func TestLogWasCut(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(2), kfake.SeedTopics(1, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	s := &stage{t: t, db: pgtest.New(t), topic: "in", name: "sink"}
	s.db.Exec(t, effectsTables)
	client, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...), kgo.DefaultProduceTopic("in"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	produce := func(n int) {
		for range n {
			if err := client.ProduceSync(t.Context(), &kgo.Record{Value: []byte("x")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	sink := func() *Sink {
		sink, err := New(Config{
			Name: s.name, Topics: []string{s.topic}, Apply: Each(effect), Pool: s.db.NewPool(t, nil), Client: []kgo.Opt{kgo.SeedBrokers(fake.ListenAddrs()...)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return sink
	}
	produce(5)
	stop := s.start(sink())
	pgtest.Await(t, "all is applied", func() bool { return s.next() == 5 })
	stop()
	epoch := s.db.Int(t, "SELECT leader_epoch FROM onceward.sink_offsets")
	// Another leader goes on at offset 5. A sink that has read two records more from the leader
	// before has lost them.
	for broker := range int32(2) {
		if err := fake.MoveTopicPartition("in", 0, broker); err != nil {
			t.Fatal(err)
		}
	}
	produce(5)
	s.db.Exec(t, "UPDATE onceward.sink_offsets SET next_offset = 7")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := sink().Run(ctx); err == nil || !strings.Contains(err.Error(), "the log was cut: records from offset 5 on") {
		t.Fatalf("leader epoch %d: %v", epoch, err)
	}
}
