package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/internal/broker"
	"github.com/onceward/onceward/txn/internal/task"
)

// commit writes the offsets of all changes in one request, with the metadata that make state and
// offsets name each other, and reads them back. It is a plain commit from outside of the group:
// brokers take it only while the group is empty, which a transaction's is not refused for. No round
// can be pending beside it, because every transactional id was initialised before.
func (op *operation) commit(ctx context.Context, changes []change) error {
	offsets, metadata := kadm.Offsets{}, map[string]string{}
	for _, c := range changes {
		if c.next == nil {
			continue
		}
		text, err := op.metadata(ctx, c)
		if err != nil {
			return err
		}
		metadata[c.id.String()] = text
		for i, in := range c.next.Inputs {
			o := kadm.Offset{Topic: in.Topic, Partition: in.Partition, At: in.Offset, LeaderEpoch: -1}
			if i == 0 {
				o.Metadata = text
			}
			offsets.Add(o)
		}
	}
	if err := op.commitOffsets(ctx, offsets); err != nil {
		return err
	}
	// Last, because it may be believed only once the offsets are committed.
	for id, text := range metadata {
		err := op.cluster.Write(ctx, &broker.Record{
			Topic: op.restorer.RoundsTopic, Key: task.PositionsKey(id), Value: []byte(text),
		})
		if err != nil {
			return fmt.Errorf("the offsets are committed, but keeping the positions of task %s failed: %w", id, err)
		}
	}
	return nil
}

func (op *operation) commitOffsets(ctx context.Context, offsets kadm.Offsets) error {
	group := op.topology.Application()
	//nolint:forbidigo // an operator's, which brokers take only while the group is empty
	responses, err := op.client.adm.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = responses.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownMemberID):
		return refuse("an instance has joined the group %q meanwhile: stop every instance first", group)
	case err != nil:
		return fmt.Errorf("committing the offsets of group %q: %w; do it again, which changes nothing that is committed already", group, err)
	}
	partitions := map[string][]int32{}
	for topic, ps := range offsets {
		for p := range ps {
			partitions[topic] = append(partitions[topic], p)
		}
	}
	stored, err := stableOffsets(ctx, op.cluster, op.client.cfg.Logger, partitions)
	if err != nil {
		return err
	}
	for _, o := range stored {
		want, _ := offsets.Lookup(o.Topic, o.Partition)
		if o.At != want.At || o.Metadata != want.Metadata {
			return fmt.Errorf("another process has committed %s[%d] at the same time: it is at %d, and not at %d", o.Topic, o.Partition,
				o.At, want.At)
		}
	}
	return nil
}

// metadata returns the text to commit: the commit metadata, or a reference to the record that holds
// them if they are too large.
func (op *operation) metadata(ctx context.Context, c change) (string, error) {
	committed := task.NewCommitMetadata(fingerprint(op.topology), *c.next)
	committed.Parked, committed.Mode, committed.Modeless = c.parked, c.mode.Mode, c.mode.modeless
	text := committed.Encode()
	if len(text) <= task.MetadataMax {
		return text, nil
	}
	r := &broker.Record{Topic: op.restorer.RoundsTopic, Key: task.RecordKey(c.id.String()), Value: []byte(text)}
	if err := op.cluster.Write(ctx, r); err != nil {
		return "", fmt.Errorf("writing the metadata of task %s: %w", c.id, err)
	}
	return task.Reference{Round: committed.Round, Partition: r.Partition, Offset: r.Offset}.Encode(), nil
}

// streamTime is the stream time of a topic in commit metadata, state.NoTime if they have none.
func streamTime(b *task.CommitMetadata, topic string) int64 {
	if in, known := b.Input(topic); known {
		return in.StreamTime
	}
	return state.NoTime
}
