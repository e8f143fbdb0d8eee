package admin

import (
	"context"
	"slices"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// withoutPlace returns the records that wait by the last known commit of a task, and for which the topology has no store. A state that is
// kept without them loses them: what is committed then names no position in their store, so that with ParkKeys again it would be a new one
// whose changelog holds records of unknown origin, and the offsets of those that wait are committed.
func (s sight) withoutPlace(last *task.Blob) []task.BlobParked {
	return slices.DeleteFunc(slices.Clone(last.WhereParked()), func(p task.BlobParked) bool {
		return slices.ContainsFunc(s.Changelogs, func(c restore.Changelog) bool { return c.Store == p.Store })
	})
}

// The refusals of a state that would be kept without records that wait. Options.WithoutParked is the word that it may be.

func (s sight) noPlace(p task.BlobParked) error {
	return refuse("%d records wait in store %s, and the topology has no place for parked records there: give the source its ParkKeys "+
		"again, without the policies that park, until nothing waits, or `onceward rebuild from-input %s`, which reads them again "+
		"with their input, as far as that holds them; --without-parked gives them up", p.Records, p.Store, s.id)
}

func (s sight) noPlaceNorCommit(src topology.Source, n int64) error {
	return refuse("%d records wait in store %s as its changelog %s[%d] has it, no commit is known that would say more, and the topology has no "+
		"place for parked records there: give the source its ParkKeys again, without the policies that park, until nothing waits; if they "+
		"were processed since, delete the topic %s; otherwise `onceward rebuild from-input %s` reads them again with their input, as far as "+
		"that holds them; --without-parked gives them up", n, src.ParkStore, src.ParkChangelog, s.id.Partition, src.ParkChangelog, s.id)
}

func (s sight) notKnown(src topology.Source) error {
	return refuse("the last known commit names the changelog %s[%d] of store %s, for which the topology has no place, and that is not there or "+
		"has lost records, so that it is not known what waits: `onceward rebuild from-input %s` reads that again with its input, as far as "+
		"that holds it; --without-parked gives it up", src.ParkChangelog, s.id.Partition, src.ParkStore, s.id)
}

func (s sight) lostParked(said task.BlobParked, c restore.Changelog, n int64) error {
	return refuse("%d records wait in store %s by the last known commit, and its changelog %s[%d] holds %d of them: `onceward rebuild "+
		"from-input %s` reads them again with their input, as far as that holds them; --without-parked gives up those that it does not hold",
		said.Records, c.Store, c.Topic, s.id.Partition, n, s.id)
}

// parked returns how many records wait in a state that is kept, all of it that the changelogs hold; last is the last known commit. It is
// counted, because the state can be a later one than the commit's, and what wrote the commit may not have said it.
//
// It refuses to lose records that wait, or returns as givenUp what Options.WithoutParked loses: those for which the topology has no store,
// which the commit says, or their changelog where it does not, -1 where that does not either; and those that a changelog does not hold, of
// as many as the commit says, where it does not go on behind it: it has lost them, or is another topic, and nobody would ever process them.
func (op *operation) parked(ctx context.Context, s sight, last *task.Blob) (kept, givenUp []task.BlobParked, err error) {
	giveUp := func(p task.BlobParked, refusal error) error {
		if !op.withoutParked {
			return refusal
		}
		givenUp = append(givenUp, p)
		return nil
	}
	for _, p := range s.withoutPlace(last) {
		if err := giveUp(p, s.noPlace(p)); err != nil {
			return nil, nil, err
		}
	}
	for _, src := range s.sub.Sources {
		i := slices.IndexFunc(s.Changelogs, func(c restore.Changelog) bool { return c.Store == src.ParkStore })
		said := slices.IndexFunc(last.WhereParked(), func(p task.BlobParked) bool { return p.Store == src.ParkStore })
		if i < 0 {
			if src.ParkStore == "" || said >= 0 {
				continue
			}
			p := restore.ParkStore{Name: src.ParkStore, ChangelogTopic: src.ParkChangelog}
			n, known, err := op.restorer.Waiting(ctx, last, p, s.id.Partition)
			waits := task.BlobParked{Store: src.ParkStore, Records: n}
			switch {
			case err != nil:
			case !known:
				err = giveUp(task.BlobParked{Store: src.ParkStore, Records: -1}, s.notKnown(src))
			case n > 0 && last == nil:
				err = giveUp(waits, s.noPlaceNorCommit(src, n))
			case n > 0:
				err = giveUp(waits, s.noPlace(waits))
			}
			if err != nil {
				return nil, nil, err
			}
			continue
		}
		c := s.Changelogs[i]
		n, err := op.restorer.CountParked(ctx, c, s.id.Partition)
		if err != nil {
			return nil, nil, err
		}
		if said >= 0 && n < last.Parked[said].Records {
			at, _ := last.Target(c.Store)
			later, err := op.restorer.Beyond(ctx, c, s.id.Partition, at)
			if err == nil && !later {
				lost := task.BlobParked{Store: c.Store, Records: last.Parked[said].Records - n}
				err = giveUp(lost, s.lostParked(last.Parked[said], c, n))
			}
			if err != nil {
				return nil, nil, err
			}
		}
		if n > 0 {
			kept = append(kept, task.BlobParked{Store: c.Store, Records: n})
		}
	}
	return kept, givenUp, nil
}

// adoptLost is how the loss of records of a changelog is accepted: with those that waited in it, if some did.
func (s sight) adoptLost(waited bool) string {
	if waited {
		return "`onceward adopt --without-parked " + s.id.String() + "`"
	}
	return "`onceward adopt " + s.id.String() + "`"
}
