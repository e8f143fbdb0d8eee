// Package standby keeps copies of the state of tasks that other instances own, so that this
// instance can go on with such a task without a long restore.
//
// # Contract
//
// The group's plan says which copies an instance keeps (package assign). A [Keeper] opens the
// database of each, in the place of the task's own, and brings it from one commit of the owner to
// the next (restore.Follower). When the task is assigned to the instance, [Keeper.Take] ends the
// copy and returns its open database. A restore goes on there, by its own reading of offsets and
// changelogs: it trusts a copy no more than any other database.
//
// [Keeper.View] reads a copy at a commit, if the caller takes an answer of that age.
//
// A copy is warm while it is at a commit that was the last one at most [WarmMax] ago. A task
// without a commit has nothing to copy: its copy is warm once that is the answer for as long.
//
// # Invariants
//
//   - A copy is never ahead of a commit. Its stores are those of one commit between two steps.
//   - The keeper uses no database that a task uses. It begins no copy of a task that is assigned to
//     this instance or still ends here. Take returns when the step that runs has ended. The lock of
//     the database is the second line.
//   - The keeper reads the commits of the owner and writes nothing to the cluster.
//   - Copies that were not warm yet read no more once all open copies together take Config.DiskMax
//     of the disk. They keep what they have read.
//
// # Concurrency
//
// Run is one goroutine, with one more for each step that runs. Run ends them. The other methods may
// be called from any goroutine. Two of them wait for the end of a step: Take, which tells it to
// end, and View.
//
// # Failure
//
// A step that fails leaves the copy at or below the last commit. A database that has failed is
// closed and opened again. It is tried again with growing pauses, and the status says why. An error
// that would stop the task itself, such as offsets that were moved, only keeps the copy from
// following: the owner reports it.
//
// # What it is not
//
// It does not decide who keeps a copy, nor who reads one, and does not process records.
package standby
