package restore

import (
	"slices"
	"strings"

	"github.com/onceward/onceward/topology/graph"
)

// The recovery actions, as an operator types them; TASK stands for the task. Each command takes the
// flags of run that select the application. All but fromChangelog, directoryBack and acceptLost
// need every instance stopped.
const (
	acceptSkip = "`onceward accept-skip TASK` if they were moved forward on purpose"
	// setBack is enough where the metadata, which are those of the first input, are still there.
	setBack = "set that offset back to the one that the state was written for, and leave those of other inputs as they are"
	// setAndAccept: Kafka's tools cannot set an offset together with its metadata.
	setAndAccept = "if the last stop was clean, set the offsets of all inputs to those of the state or later ones, then `onceward accept-skip TASK`, " +
		"which names those of the state if yours are lower"
	adopt      = "`onceward adopt TASK` if the state, all that the changelogs hold, belongs to the committed offsets"
	fromRounds = "`onceward adopt --from-rounds TASK` takes the offsets that the last clean stop has kept"
	fromInput  = "`onceward rebuild from-input TASK` empties its state and reads its inputs again"
	// fromInputAgain is the only way on once it has begun.
	fromInputAgain = "`onceward rebuild from-input TASK` once more, with the offsets that it was begun with"
	directoryBack  = "start the instance with the state directory that has the task, if there is one"
	acceptLost     = "start with --accept-lost-rows (txn.Config.AcceptLostRows) to continue without the lost rows"
	fromChangelog  = "`onceward rebuild from-changelog TASK` rebuilds the database from the changelogs"
	// withoutParked is adopt where records wait with which the state cannot be kept,
	// fromRoundsWithoutParked where there are no offsets either.
	withoutParked           = "`onceward adopt --without-parked TASK` gives the waiting records up and keeps the state"
	fromRoundsWithoutParked = "`onceward adopt --from-rounds --without-parked TASK` gives the waiting records up and takes the offsets that the last " +
		"clean stop has kept"
	parkKeysAgain = "give the source its ParkKeys again, without the policies that park, until nothing waits"
	allowRead     = "allow the application to read that topic"
)

// Rebuilding is the metadata of tasks whose changelogs a rebuild from input empties. It is no
// commit of a round, so that no instance takes it for one: the state belongs to no offsets,
// whatever these say.
const Rebuilding = "rebuild from input is not complete"

// recoveryActions is the text for recovery actions, the one that loses least first.
func recoveryActions(id graph.TaskID, ways ...string) string {
	return "Recovery action: " + strings.ReplaceAll(strings.Join(ways, "; or "), "TASK", id.String())
}

// recoveryActions are those of a task with these stores. Offsets of a task with a table that is
// restored from its source are not accepted as they are.
func (r Request) recoveryActions(ways ...string) string {
	return recoveryActions(r.Task, possible(ways, slices.ContainsFunc(r.Stores, func(s Store) bool { return s.FromSource != nil }))...)
}

// recoveryActions are those of the task that was found.
func (f Found) recoveryActions(ways ...string) string {
	return recoveryActions(f.Task, possible(ways, slices.ContainsFunc(f.Changelogs, func(c Changelog) bool { return c.FromSource != nil }))...)
}

// possible leaves out what is refused for a task with a table that is restored from its source.
func possible(ways []string, fromSource bool) []string {
	if !fromSource {
		return ways
	}
	return slices.DeleteFunc(slices.Clone(ways), func(way string) bool {
		return way == acceptSkip || way == setAndAccept || way == adopt || way == withoutParked
	})
}

// moved are the recovery actions for an offset that is not where the state is. A skip can be
// accepted; going back cannot.
func moved(committed, written int64) []string {
	if committed > written {
		return []string{setBack, acceptSkip, fromInput}
	}
	return []string{setBack, fromInput, adopt}
}
