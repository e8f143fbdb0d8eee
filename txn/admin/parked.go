package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/txn/internal/restore"
	"github.com/onceward/onceward/txn/internal/task"
)

// withoutPlace returns the records that wait by the last known commit of a task, and for which the
// topology has no store. A state that is kept without them loses them: what is committed then names
// no position in their store, so that with ParkKeys again it would be a new one whose changelog
// holds records of unknown origin, and the offsets of those that wait are committed.
func (s sight) withoutPlace(last *task.Blob) []task.BlobParked {
	return slices.DeleteFunc(slices.Clone(last.WhereParked()), func(p task.BlobParked) bool {
		return slices.ContainsFunc(s.Changelogs, func(c restore.Changelog) bool { return c.Store == p.Store })
	})
}

// The refusals of a state that would be kept without records that wait. Options.WithoutParked is
// the word that it may be.

func (s sight) noPlace(p task.BlobParked) error {
	return refuse("%d records wait in store %s, and the topology has no place for parked records there: give the source its ParkKeys "+
		"again, without the policies that park, until nothing waits, or `onceward rebuild from-input %s`, which reads them again "+
		"with their input, as far as that holds them; --without-parked gives them up", p.Records, p.Store, s.id)
}

func (s sight) noPlaceNorCommit(src graph.Source, n int64) error {
	return refuse("%d records wait in store %s as its changelog %s[%d] has it, no commit is known that would say more, and the topology has no "+
		"place for parked records there: give the source its ParkKeys again, without the policies that park, until nothing waits, or "+
		"`onceward rebuild from-input %s`, which reads them again with their input, as far as that holds them; --without-parked gives them up, "+
		"or leaves them out if they were processed since", n, src.ParkStore, src.ParkChangelog, s.id.Partition, s.id)
}

func (s sight) untold(last *task.Blob, src graph.Source, why string) error {
	if last == nil {
		return refuse("the changelog %s[%d] of store %s, for which the topology has no place, %s, and no commit is known that would say what "+
			"waits there: allow to read that topic, also where it is not there; --without-parked gives up what waits, which is nothing "+
			"where the source never had ParkKeys", src.ParkChangelog, s.id.Partition, src.ParkStore, why)
	}
	return refuse("the last known commit names the changelog %s[%d] of store %s, for which the topology has no place, and that %s, so that it "+
		"is not known what waits: `onceward rebuild from-input %s` reads that again with its input, as far as that holds it; "+
		"--without-parked gives it up", src.ParkChangelog, s.id.Partition, src.ParkStore, why, s.id)
}

func (s sight) lostParked(said task.BlobParked, c restore.Changelog, n int64) error {
	return refuse("%d records wait in store %s by the last known commit, and its changelog %s[%d] holds %d of them: `onceward rebuild "+
		"from-input %s` reads them again with their input, as far as that holds them; --without-parked gives up those that it does not hold",
		said.Records, c.Store, c.Topic, s.id.Partition, n, s.id)
}

func (s sight) lostUnsaid(c restore.Changelog, why string) error {
	return refuse("the last known commit leaves it to the changelog %s[%d] what waits in store %s, and that %s: `onceward rebuild from-input "+
		"%s` reads what waits again with its input, as far as that holds it; --without-parked gives up what the changelog does not hold",
		c.Topic, s.id.Partition, c.Store, why, s.id)
}

// parked finds how many records wait in a state that a change keeps, all of it that the changelogs
// hold. It is counted, because the state can be a later one than the commit's, and what wrote the
// commit may not have said it.
//
// It refuses to lose records that wait, or notes as given up what Options.WithoutParked loses:
// those for which the topology has no store, which the commit says, or their changelog where it
// does not, -1 where that does not tell either; and those that a changelog does not hold. These are
// as many as the commit says, where the changelog does not go on behind it: it has lost them, or is
// another topic, and nobody would ever process them. Where the commit does not say it, and may be
// that of a build which never did, they are -1 where the changelog has lost anything.
//
// It writes to the change alone, so that those of several tasks can be asked for at the same time.
func (op *operation) parked(ctx context.Context, s sight, c *change) error {
	last := c.keeps
	giveUp := func(p task.BlobParked, refusal error) error {
		if !op.withoutParked {
			return refusal
		}
		c.givenUp = append(c.givenUp, p)
		return nil
	}
	for _, p := range s.withoutPlace(last) {
		if err := giveUp(p, s.noPlace(p)); err != nil {
			return err
		}
	}
	for _, src := range s.sub.Sources {
		i := slices.IndexFunc(s.Changelogs, func(c restore.Changelog) bool { return c.Store == src.ParkStore })
		said := slices.IndexFunc(last.WhereParked(), func(p task.BlobParked) bool { return p.Store == src.ParkStore })
		var err error
		switch {
		case i >= 0:
			err = op.parkedHere(ctx, s, c, s.Changelogs[i], giveUp)
		case src.ParkStore != "" && said < 0:
			err = op.parkedElsewhere(ctx, s, last, src, giveUp)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parkedElsewhere is parked for a store that the topology does not have, and of which the last
// known commit does not say what waits.
func (op *operation) parkedElsewhere(
	ctx context.Context, s sight, last *task.Blob, src graph.Source, giveUp func(task.BlobParked, error) error,
) error {
	p := restore.ParkStore{Name: src.ParkStore, ChangelogTopic: src.ParkChangelog}
	n, untold, err := op.restorer.Waiting(ctx, last, p, s.id)
	waits := task.BlobParked{Store: src.ParkStore, Records: n}
	switch {
	case err != nil:
		return err
	case untold != "":
		waits.Records = -1
		return giveUp(waits, s.untold(last, src, untold))
	case n > 0 && last == nil:
		return giveUp(waits, s.noPlaceNorCommit(src, n))
	case n > 0:
		return giveUp(waits, s.noPlace(waits))
	}
	return nil
}

// parkedHere is parked for a store that the topology has.
func (op *operation) parkedHere(
	ctx context.Context, s sight, c *change, changelog restore.Changelog, giveUp func(task.BlobParked, error) error,
) error {
	n, err := op.restorer.CountParked(ctx, changelog, s.id)
	if err != nil {
		return err
	}
	at, _ := c.keeps.Target(changelog.Store)
	said := slices.IndexFunc(c.keeps.WhereParked(), func(p task.BlobParked) bool { return p.Store == changelog.Store })
	switch why := changelog.Lost(at); {
	case said >= 0 && n < c.keeps.Parked[said].Records:
		later, err := op.restorer.Beyond(ctx, changelog, s.id, at)
		if err == nil && !later {
			lost := task.BlobParked{Store: changelog.Store, Records: c.keeps.Parked[said].Records - n}
			err = giveUp(lost, s.lostParked(c.keeps.Parked[said], changelog, n))
		}
		if err != nil {
			return err
		}
	case said < 0 && why != "":
		if err := giveUp(task.BlobParked{Store: changelog.Store, Records: -1}, s.lostUnsaid(changelog, why)); err != nil {
			return err
		}
	}
	if n > 0 {
		c.parked = append(c.parked, task.BlobParked{Store: changelog.Store, Records: n})
	}
	return nil
}

// parkedFlag is the flag of a way that keeps the state, where the look has shown that it has to
// give up records that wait.
func (s sight) parkedFlag() string {
	if s.Stop != nil && s.Stop.Parked {
		return "--without-parked "
	}
	return ""
}

// adoptLost is how the loss of records of a changelog is accepted: with those that waited in it, if
// some did or may have, and with offsets that are committed, because adopt takes these.
func (s sight) adoptLost(waited bool) string {
	flag, offsets := s.parkedFlag(), ""
	if waited {
		flag = "--without-parked "
	}
	if slices.ContainsFunc(s.Inputs, func(in restore.Input) bool { return in.Committed < 0 }) {
		offsets = "commit offsets and "
	}
	return fmt.Sprintf("%s`onceward adopt %s%s`", offsets, flag, s.id)
}
