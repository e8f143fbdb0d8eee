// Package restore brings a task's database to exactly the position that the task's last commit names, or says why that cannot be done.
//
// # Order
//
// The member id is read first, then the stable offsets of the task's inputs (they wait for transactions that are still pending), then
// the commit metadata in them, then the changelogs; the caller compares the member id again afterwards. In any other order a commit of
// a previous owner could fall between two readings.
//
// # Judgement
//
// [Judge] is a pure function from what was found (offsets, metadata, database, bounds of the changelogs) to a [Plan] or a [StopError].
// State and offsets name each other; where they do not, the task stops and names the ways out instead of guessing: a guess applies
// input twice or loses it.
//
// # Replay
//
// Changelogs are read by raw fetches of committed records, from the stored position to the exact target. Progress is applied in batches
// together with the positions, so a restore that is killed goes on where it was. The last batch carries the commit's own positions.
package restore
