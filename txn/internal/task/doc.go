// Package task is one open task of the process: a partition of a subtopology with its graph, its
// state, its input queues and the positions that commit with it.
//
// # Who touches what
//
// A task belongs to one worker goroutine. Two things cross over. The dispatcher hands records in
// ([Task.Enqueue]). The goroutine of a producer carries a sealed [Contribution] to the broker and
// into the store, while the worker computes on top of it. A contribution is immutable for the
// worker from Seal until it is retired or dropped.
//
// # Positions
//
// A task has two of them. The working positions move with every record that joins a round; the
// committed positions are those of the last round that is known to be committed and is in the
// store. An abort sets the working positions back to where the dropped contribution began and puts
// its journal before everything that is newer.
//
// # The commit metadata
//
// [CommitMetadata] is what a commit carries in the metadata of the task's first input partition: it
// lets state and offsets name each other, and it is the oracle for a commit that was not answered.
package task
