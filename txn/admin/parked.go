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
// topology has no store. A state that is kept without them loses them. Its commit names no position
// in their store, and their offsets are committed. With ParkKeys again the store would be a new one
// whose changelog holds records of unknown origin.
func (s inspection) withoutPlace(last *task.CommitMetadata) []task.CommittedParked {
	return slices.DeleteFunc(slices.Clone(last.WhereParked()), func(p task.CommittedParked) bool {
		return slices.ContainsFunc(s.Changelogs, func(c restore.Changelog) bool { return c.Store == p.Store })
	})
}

// The refusals of a state that would be kept without waiting records. Options.WithoutParked allows
// that.

func (s inspection) noPlace(p task.CommittedParked) error {
	return refuse("%d records wait in store %s, and the topology has no place for parked records there. Give the source its ParkKeys "+
		"again, without the policies that park, until no record waits. `onceward rebuild from-input %s` reads them again "+
		"with their input, as far as that holds them; --without-parked gives them up", p.Records, p.Store, s.id)
}

func (s inspection) noPlaceNorCommit(src graph.Source, n int64) error {
	return refuse("%d records wait in store %s by its changelog %s[%d], no commit is known, and the topology has no "+
		"place for parked records there. Give the source its ParkKeys again, without the policies that park, until no record waits. "+
		"`onceward rebuild from-input %s` reads them again with their input, as far as that holds them; --without-parked gives them up, "+
		"or leaves them out if they were processed since", n, src.ParkStore, src.ParkChangelog, s.id.Partition, s.id)
}

func (s inspection) untold(last *task.CommitMetadata, src graph.Source, why string) error {
	if last == nil {
		return refuse("the changelog %s[%d] of store %s, for which the topology has no place, %s, and no commit is known: the records that "+
			"wait there are unknown. Allow the application to read that topic, even if it does not exist. --without-parked gives these records up; "+
			"there are none if the source never had ParkKeys", src.ParkChangelog, s.id.Partition, src.ParkStore, why)
	}
	return refuse("the last known commit names the changelog %s[%d] of store %s, for which the topology has no place, and that %s: "+
		"the records that wait there are unknown. `onceward rebuild from-input %s` reads them again with their input, as far as that holds them; "+
		"--without-parked gives them up", src.ParkChangelog, s.id.Partition, src.ParkStore, why, s.id)
}

func (s inspection) lostParked(said task.CommittedParked, c restore.Changelog, n int64) error {
	return refuse("%d records wait in store %s by the last known commit, and its changelog %s[%d] holds %d of them. `onceward rebuild "+
		"from-input %s` reads them again with their input, as far as that holds them; --without-parked gives up those that it does not hold",
		said.Records, c.Store, c.Topic, s.id.Partition, n, s.id)
}

func (s inspection) lostUnsaid(c restore.Changelog, why string) error {
	return refuse("the last known commit does not count the records that wait in store %s, and its changelog %s[%d] %s. `onceward rebuild "+
		"from-input %s` reads them again with their input, as far as that holds them; --without-parked gives up those that it does not hold",
		c.Store, c.Topic, s.id.Partition, why, s.id)
}

// parked finds how many records wait in a state that a change keeps, all of it that the changelogs
// hold. It is counted, because the state can be a later one than the commit's, and what wrote the
// commit may not have said it.
//
// It refuses to lose records that wait, or notes as given up what Options.WithoutParked loses.
//   - Records for which the topology has no store: their number is in the commit, or else in their
//     changelog, or -1 if neither tells it.
//   - Records that a changelog does not hold: their number is in the commit, if the changelog does
//     not continue behind it. The changelog has lost them, or is another topic, and they would
//     never be processed. If the commit does not say it, and an older build may have written the
//     commit, the number is -1 if the changelog has lost anything.
//
// It writes to the change alone, so that those of several tasks can be asked for at the same time.
func (op *operation) parked(ctx context.Context, s inspection, c *change) error {
	last := c.keeps
	giveUp := func(p task.CommittedParked, refusal error) error {
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
		said := slices.IndexFunc(last.WhereParked(), func(p task.CommittedParked) bool { return p.Store == src.ParkStore })
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
	ctx context.Context, s inspection, last *task.CommitMetadata, src graph.Source, giveUp func(task.CommittedParked, error) error,
) error {
	p := restore.ParkStore{Name: src.ParkStore, ChangelogTopic: src.ParkChangelog}
	n, untold, err := op.restorer.Waiting(ctx, last, p, s.id)
	waits := task.CommittedParked{Store: src.ParkStore, Records: n}
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
	ctx context.Context, s inspection, c *change, changelog restore.Changelog, giveUp func(task.CommittedParked, error) error,
) error {
	n, err := op.restorer.CountParked(ctx, changelog, s.id)
	if err != nil {
		return err
	}
	at, _ := c.keeps.Target(changelog.Store)
	said := slices.IndexFunc(c.keeps.WhereParked(), func(p task.CommittedParked) bool { return p.Store == changelog.Store })
	switch why := changelog.Lost(at); {
	case said >= 0 && n < c.keeps.Parked[said].Records:
		later, err := op.restorer.Beyond(ctx, changelog, s.id, at)
		if err == nil && !later {
			lost := task.CommittedParked{Store: changelog.Store, Records: c.keeps.Parked[said].Records - n}
			err = giveUp(lost, s.lostParked(c.keeps.Parked[said], changelog, n))
		}
		if err != nil {
			return err
		}
	case said < 0 && why != "":
		if err := giveUp(task.CommittedParked{Store: changelog.Store, Records: -1}, s.lostUnsaid(changelog, why)); err != nil {
			return err
		}
	}
	if n > 0 {
		c.parked = append(c.parked, task.CommittedParked{Store: changelog.Store, Records: n})
	}
	return nil
}

// parkedFlag is the flag of a way that keeps the state, where the look has shown that it has to
// give up records that wait.
func (s inspection) parkedFlag() string {
	if s.Stop != nil && s.Stop.Parked {
		return "--without-parked "
	}
	return ""
}

// adoptLost is how the loss of records of a changelog is accepted: with those that waited in it, if
// some did or may have, and with offsets that are committed, because adopt takes these.
func (s inspection) adoptLost(waited bool) string {
	flag, offsets := s.parkedFlag(), ""
	if waited {
		flag = "--without-parked "
	}
	if slices.ContainsFunc(s.Inputs, func(in restore.Input) bool { return in.Committed < 0 }) {
		offsets = "commit offsets and "
	}
	return fmt.Sprintf("%s`onceward adopt %s%s`", offsets, flag, s.id)
}
