// Package restore brings a task's database to exactly the position that the task's last commit
// names, or says why that cannot be done.
//
// # Order
//
// The member id is read first, then the stable offsets of the task's inputs (they wait for
// transactions that are still pending), then the commit metadata in them, then the changelogs; the
// caller compares the member id again afterwards. In any other order a commit of a previous owner
// could fall between two readings.
//
// # Judgement
//
// [Judge] is a pure function from what was found (offsets, metadata, database, bounds of the
// changelogs) to a [Plan] or a [StopError]. State and offsets name each other; where they do not,
// the task stops and names the ways out instead of guessing: a guess applies input twice or loses
// it.
//
// A store is restored in full for itself: its neighbours in the database keep what they have. Only
// a database that cannot be opened, or that holds a part of what does not exist any more, is
// replaced as a whole.
//
// # Replay
//
// Changelogs are read by raw fetches of committed records, from the stored position to the exact
// target, all of a task at once. A changelog is three goroutines: one asks for the next answer
// while the last one is decoded, one decodes and collects, one sorts and writes.
//
//	broker ──answer──► decode ──chunk──► sort ──► Database.Load or Apply, with the position behind the chunk
//
// A chunk keeps the last write of each key. Large ones become sorted tables; the small tail that a
// restart misses goes the way of a round. A restore that ends before its target, by a kill, an
// error, or because the task is taken away, leaves what it has: the database is at a position of
// each changelog that is below the target, and the next restore goes on there. The last step
// carries the commit's own positions.
//
// # Tables without a changelog
//
// A table can be restored from the topic that it is read from, which takes the place of the
// changelog in all that is said here. What is different, and how a restore shows that nothing is
// missing, is in source.go.
//
// # Memory
//
// All restores of a process share one budget (Restorer.BytesMax). It bounds how many changelogs are
// read at a time, which is about as many as there are cores, and how large their chunks become. Who
// comes next: active tasks before standbys, short ones before long ones, and nobody is overtaken
// for ever. A changelog that waits for somebody's open transaction holds nothing of it.
//
// What the databases themselves need is not in it, nor is what the client's connections and the
// decompression of a single batch take.
package restore
