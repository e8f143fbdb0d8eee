package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/txn"
)

const pollEvery = 200 * time.Millisecond

// roundsTopic is where a round without other records writes one.
func (r *run) roundsTopic() string { return r.application() + "-rounds" }

func (r *run) application() string { return r.subject.Topology().Application() }

// awaitTopics waits until the application has made its topics: a reader needs them.
func (r *run) awaitTopics(ctx context.Context) error {
	return r.await(ctx, startMax, "the application's topics", func() string {
		listed, err := r.adm.ListTopicsWithInternal(ctx)
		if err != nil {
			return err.Error()
		}
		for _, topic := range append(r.readTopics(), r.roundsTopic()) {
			if !listed.Has(topic) {
				return "there is no topic " + topic
			}
		}
		return ""
	})
}

// await polls until waiting returns "".
func (r *run) await(ctx context.Context, longest time.Duration, what string, waiting func() string) error {
	for until := time.Now().Add(longest); ; {
		why := waiting()
		switch {
		case why == "":
			return nil
		case time.Now().After(until):
			return fmt.Errorf("waited %s for %s: %s", longest, what, why)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

func (r *run) startReader(name string, watch func(func(context.Context) error)) error {
	topics := map[string]testapp.Kind{}
	for topic, k := range r.topics {
		// The repartition topic may be purged behind the application, and so is followed and not
		// read again.
		if name != final || !strings.HasPrefix(topic, r.application()+"-") {
			topics[topic] = k
		}
	}
	if name == check.LogReader {
		topics[r.roundsTopic()] = testapp.Changelog // a transaction may have no other record than one of these
	}
	rd, err := testapp.NewReader(name, r.history, topics, r.application(), kgo.SeedBrokers(r.kafka.Brokers()...),
		kgo.Dialer(r.network.Host(name).Dial), kgo.FetchMaxWait(time.Second), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	r.readers[name] = rd
	switch name {
	case check.LogReader:
		r.observed[0].Store(rd)
	case follower:
		r.observed[1].Store(rd)
	}
	watch(rd.Run)
	return nil
}

// sampleEvery is the time between two looks at the logs' stable offsets.
const sampleEvery = 2 * time.Second

// sample records how far the last stable offsets are behind.
func (r *run) sample(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	topics := r.readTopics()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		ends, err := r.adm.ListEndOffsets(ctx, topics...)
		if err != nil {
			continue // the broker is away, which is what the nemesis does
		}
		stable, err := r.adm.ListCommittedOffsets(ctx, topics...)
		if err != nil {
			continue // as above
		}
		ends.Each(func(end kadm.ListedOffset) {
			at, ok := stable.Lookup(end.Topic, end.Partition)
			if ok && end.Err == nil && at.Err == nil {
				r.history.Write(check.Event{Log: &check.Sample{
					Topic: end.Topic, Partition: end.Partition, Stable: at.Offset, End: max(end.Offset, at.Offset),
				}})
			}
		})
	}
}

func (r *run) readTopics() []string {
	topics := make([]string, 0, len(r.topics))
	for topic := range r.topics {
		topics = append(topics, topic)
	}
	slices.Sort(topics)
	return topics
}

// quiesce waits until every input is processed, every output is visible and has been followed.
func (r *run) quiesce(ctx context.Context) {
	r.network.Trace().Logf("simulation", "all faults are healed")
	err := r.await(ctx, r.cfg.Quiesce, "the application to work off its input", func() string { return r.inFlight(ctx) })
	if err != nil && context.Cause(ctx) == nil {
		for _, i := range r.instances {
			if i.life != nil {
				r.network.Trace().Logf(i.life.name, "status %+v", i.life.app.Status())
			}
		}
		r.found("%v", err)
	}
}

// inFlight returns what is not done yet, "" if nothing.
func (r *run) inFlight(ctx context.Context) string {
	for _, i := range r.instances {
		if i.life == nil {
			continue
		}
		if err := i.life.alive(); err != nil {
			r.unasked(i, err)
			return err.Error()
		}
	}
	topics := r.readTopics()
	ends, err := r.adm.ListEndOffsets(ctx, topics...)
	if err := errors.Join(err, ends.Error()); err != nil {
		return err.Error()
	}
	stable, err := r.adm.ListCommittedOffsets(ctx, topics...)
	if err := errors.Join(err, stable.Error()); err != nil {
		return err.Error()
	}
	if len(ends) < len(topics) {
		return fmt.Sprintf("%d of %d topics are described", len(ends), len(topics))
	}
	//nolint:forbidigo // a partition that is left out is waited for
	commits, err := r.adm.FetchOffsetsForTopics(kadm.RequireStable(ctx), r.application(), r.subject.Sources()...)
	if err != nil {
		return err.Error()
	}
	for _, topic := range r.subject.Sources() {
		for _, end := range ends[topic] {
			at, ok := commits.Lookup(topic, end.Partition)
			if end.Offset > 0 && (!ok || at.At < end.Offset) {
				return fmt.Sprintf("%s[%d] is at %d of %d", topic, end.Partition, at.At, end.Offset)
			}
		}
	}
	for topic, of := range ends {
		for _, end := range of {
			at, _ := stable.Lookup(topic, end.Partition)
			if at.Offset != end.Offset {
				return fmt.Sprintf("the last stable offset of %s[%d] is %d of %d", topic, end.Partition, at.Offset, end.Offset)
			}
		}
		all := offsets(of)
		for _, name := range []string{check.LogReader, follower} {
			if !r.readers[name].Reached(topic, all) {
				return "reader " + name + " is still reading " + topic
			}
		}
	}
	var statuses []txn.Status
	for _, i := range r.instances {
		if i.life != nil {
			statuses = append(statuses, i.life.app.Status())
		}
	}
	if why := runningOnce(statuses); why != "" {
		return why
	}
	if s, ok := r.subject.(Follower); ok {
		return s.Waiting()
	}
	return ""
}

// offsets returns the offsets by partition.
func offsets(of map[int32]kadm.ListedOffset) []int64 {
	all := make([]int64, len(of))
	for _, o := range of {
		all[o.Partition] = o.Offset
	}
	return all
}

// runningOnce says which task does not run at exactly one instance, "" if all do. Every partition
// has at least one task.
func runningOnce(statuses []txn.Status) string {
	running := map[string]int{}
	for _, s := range statuses {
		for _, task := range s.Tasks {
			n := 0
			if task.State == txn.TaskRunning {
				n = 1
			}
			running[task.ID.String()] += n
		}
	}
	for _, id := range slices.Sorted(maps.Keys(running)) {
		if n := running[id]; n != 1 {
			return fmt.Sprintf("task %s runs at %d instances", id, n)
		}
	}
	if len(running) < partitions {
		return fmt.Sprintf("%d tasks run", len(running))
	}
	return ""
}

// follow has the users of a subject read what it writes.
func (r *run) follow(s Follower, f *Feed, watch func(func(context.Context) error)) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.Brokers()...), kgo.Dialer(r.network.Host("feeder").Dial), kgo.ClientID("users"), kgo.DisableClientMetrics(),
		kgo.ConsumeTopics(s.Follows()...), kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.ConsumeStartOffset(kgo.NewOffset().At(0)),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(time.Second), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	watch(func(ctx context.Context) error {
		defer cl.Close()
		for {
			fetches := cl.PollFetches(ctx)
			if ctx.Err() != nil {
				return nil
			}
			for it := fetches.RecordIter(); !it.Done(); {
				if rec := it.Next(); !rec.Attrs.IsControl() {
					if err := s.Take(f, rec); err != nil {
						return fmt.Errorf("following: %w", err)
					}
				}
			}
		}
	})
	return nil
}

// finish records what the stopped application has left: databases, open transactions, the outputs
// once more from the start, and the positions that were committed.
func (r *run) finish(ctx context.Context, watch func(func(context.Context) error)) error {
	for _, i := range r.instances {
		r.dump(i.dir, "of "+i.name+" at the end")
	}
	open, err := virtual.OpenTransactions(ctx, r.adm)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		r.found("after an orderly stop these transactions are open: %v", open)
	}
	if err := r.startReader(final, watch); err != nil {
		return err
	}
	topics := r.readTopics()
	if err := r.await(ctx, startMax, "the readers", func() string {
		ends, err := r.adm.ListEndOffsets(ctx, topics...)
		if err := errors.Join(err, ends.Error()); err != nil {
			return err.Error()
		}
		for topic, of := range ends {
			if !r.readers[check.LogReader].Reached(topic, offsets(of)) {
				return "the log of " + topic + " is not read to its end"
			}
			again := !strings.HasPrefix(topic, r.application()+"-")
			if again && r.readers[final].Count(topic) < r.readers[follower].Count(topic) {
				return "the second reading of " + topic + " has not reached the first"
			}
		}
		return ""
	}); err != nil {
		r.found("%v", err)
	}
	if err := r.writePositions(ctx); err != nil {
		return err
	}
	return r.judge(ctx)
}

// writePositions records the committed positions, in the order in which the coordinator took them
// up. It compares the last ones with what the coordinator tells.
func (r *run) writePositions(ctx context.Context) error {
	last := map[string]map[int32]int64{}
	for at, c := range r.kafka.Commits() {
		if c.Group != r.application() {
			continue
		}
		txn := check.Txn{Producer: c.Producer, Epoch: c.Epoch}
		if txn != check.NoTxn && !r.readers[check.LogReader].Committed(txn) {
			continue
		}
		for _, p := range c.Positions {
			r.history.Write(check.Event{Position: &check.Position{
				Offset: int64(at), Topic: p.Topic, Partition: p.Partition, Next: p.Offset, Txn: txn,
			}})
			if last[p.Topic] == nil {
				last[p.Topic] = map[int32]int64{}
			}
			last[p.Topic][p.Partition] = p.Offset
		}
		if txn != check.NoTxn {
			r.history.Write(check.Event{Marker: &check.Marker{
				Topic: check.OffsetsTopic, Offset: int64(at), Producer: c.Producer, Commit: true,
			}})
		}
	}
	//nolint:forbidigo // no commit is pending any more
	told, err := r.adm.FetchOffsetsForTopics(ctx, r.application(), r.subject.Sources()...)
	if err := errors.Join(err, told.Error()); err != nil {
		return err
	}
	told.Each(func(o kadm.OffsetResponse) {
		if want := last[o.Topic][o.Partition]; max(o.At, 0) != want {
			r.found("%s[%d]: the last committed position is %d, and the coordinator tells %d", o.Topic, o.Partition, want, o.At)
		}
	})
	return nil
}

// judge hands the committed records of all topics to the subject.
func (r *run) judge(ctx context.Context) error {
	log := map[string][][]*kgo.Record{}
	for _, topic := range r.readTopics() {
		records, err := r.committed(ctx, topic)
		if err != nil {
			return err
		}
		log[topic] = records
	}
	for _, wrong := range r.subject.Judge(log) {
		r.found("%s", wrong)
	}
	return nil
}

// committed reads the committed records of a topic from its start, by partition.
func (r *run) committed(ctx context.Context, topic string) ([][]*kgo.Record, error) {
	ends, err := r.adm.ListCommittedOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	starts, err := r.adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	records := make([][]*kgo.Record, len(ends[topic]))
	left := map[int32]int64{}
	assign := map[int32]kgo.Offset{}
	for p, end := range ends[topic] {
		start, _ := starts.Lookup(topic, p)
		if start.Offset < end.Offset {
			left[p], assign[p] = end.Offset, kgo.NewOffset().At(start.Offset)
		}
	}
	if len(left) == 0 {
		return records, nil
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.kafka.Brokers()...), kgo.Dialer(r.network.Host("admin").Dial),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assign}), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.DisableClientMetrics())
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	for len(left) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			if rec.Offset+1 >= left[rec.Partition] {
				delete(left, rec.Partition)
			}
			if !rec.Attrs.IsControl() {
				records[rec.Partition] = append(records[rec.Partition], rec)
			}
		})
	}
	return records, nil
}
