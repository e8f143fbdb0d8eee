package admin

import (
	"context"
	"math"
	"slices"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// refuseParked refuses to keep the state of a task in which records wait, by its last known commit, for a topology that has no place for
// them. What is committed then names no position in their store: with ParkKeys again it would be a new one whose changelog holds records
// of unknown origin, and the offsets of those that wait are committed.
func (s sight) refuseParked(last *task.Blob) error {
	for _, p := range last.WhereParked() {
		if !slices.ContainsFunc(s.Changelogs, func(c restore.Changelog) bool { return c.Store == p.Store }) {
			return refuse("%d records wait in store %s, and the topology has no place for parked records there: give the source its ParkKeys "+
				"again, without the policies that park, until nothing waits, or `onceward rebuild from-input %s`, which reads them again "+
				"with their input, as far as that holds them", p.Records, p.Store, s.id)
		}
	}
	return nil
}

// refuseUnknown is refuseParked where no commit is known: all that says what waits is the changelog of the store that the source would have.
func (op *operation) refuseUnknown(ctx context.Context, s sight, src topology.Source) error {
	n, err := op.restorer.CountParked(ctx, src.ParkChangelog, s.id.Partition, math.MaxInt64)
	if err != nil || n == 0 {
		return err
	}
	return refuse("%d records wait in store %s as its changelog %s[%d] has it, no commit is known that would say more, and the topology has no "+
		"place for parked records there: give the source its ParkKeys again, without the policies that park, until nothing waits; if they "+
		"were processed since, delete the topic %s; otherwise `onceward rebuild from-input %s` reads them again with their input, as far as "+
		"that holds them", n, src.ParkStore, src.ParkChangelog, s.id.Partition, src.ParkChangelog, s.id)
}

// parked returns how many records wait in a state that is kept, all of it that the changelogs hold; last is the last known commit. It is
// counted, because the state can be a later one than the commit's, and what wrote the commit may not have said it. It refuses as
// refuseParked and refuseUnknown do, and where a changelog holds fewer than the commit says and does not go on behind it: it has lost them,
// or is another topic, and nobody would ever process them.
func (op *operation) parked(ctx context.Context, s sight, last *task.Blob) (parked []task.BlobParked, err error) {
	if err := s.refuseParked(last); err != nil {
		return nil, err
	}
	for _, src := range s.sub.Sources {
		i := slices.IndexFunc(s.Changelogs, func(c restore.Changelog) bool { return c.Store == src.ParkStore })
		if i < 0 {
			if last == nil && src.ParkStore != "" {
				if err := op.refuseUnknown(ctx, s, src); err != nil {
					return nil, err
				}
			}
			continue
		}
		c := s.Changelogs[i]
		n, err := op.restorer.CountParked(ctx, c.Topic, s.id.Partition, c.HighWatermark)
		if err != nil {
			return nil, err
		}
		said := slices.IndexFunc(last.WhereParked(), func(p task.BlobParked) bool { return p.Store == c.Store })
		if said >= 0 && n < last.Parked[said].Records {
			at, _ := last.Target(c.Store)
			later, err := op.restorer.Beyond(ctx, c, s.id.Partition, at)
			if err != nil {
				return nil, err
			}
			if !later {
				return nil, refuse("%d records wait in store %s by the last known commit, and its changelog %s[%d] holds %d of them: "+
					"`onceward rebuild from-input %s` reads them again with their input, as far as that holds them", last.Parked[said].Records,
					c.Store, c.Topic, s.id.Partition, n, s.id)
			}
		}
		if n > 0 {
			parked = append(parked, task.BlobParked{Store: c.Store, Records: n})
		}
	}
	return parked, nil
}
