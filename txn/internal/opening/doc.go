// Package opening opens the tasks of a membership: it restores their state, makes their graphs, and
// gives them to workers.
//
// # Contract
//
// [Opener.Start] opens a task on a goroutine of its own. A task is opened in this order (protocol
// rule 7.1):
//
//  1. the member id and the ownership epoch are read;
//  2. a rebuild that was asked for is made, beside the old database;
//  3. package restore brings the database to the last commit;
//  4. the graph is made;
//  5. the group begins to fetch at the committed offsets, while the partitions are still paused;
//  6. the member id is compared;
//  7. [Opener.Adopt] gives the task to a worker, and lets its partitions be fetched.
//
// # Invariants
//
//   - The goroutines that open one task run one after the other, because the paths on the disk are
//     the task's.
//   - A task that was given up or stopped meanwhile does not reach a worker, or the worker hears of
//     it.
//
// # Concurrency and failure
//
// An opening ends with the session, with [Opener.Cancel], or when the task is adopted or stopped. A
// failure that is not the task's own is tried again. A task whose disk is full waits for space and
// goes on by itself. A changed member id ends the session.
//
// # What it is not
//
// It does not decide which tasks are opened, and does not close a task that a worker has.
package opening
