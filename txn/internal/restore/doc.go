// Package restore brings a task's database to exactly the position that the task's last commit
// names, or says why that cannot be done.
//
// # Order
//
// A restore reads in this order: the member id, the stable offsets of the task's inputs, the commit
// metadata in them, the changelogs. Reading the offsets waits for transactions that are still
// pending. The caller compares the member id again afterwards. In any other order a commit of a
// previous owner could fall between two readings.
//
// # Judgement
//
// [Judge] is a pure function from what was found (offsets, metadata, database, bounds of the
// changelogs) to a [Plan] or a [StopError]. State and offsets must name each other. If they do not,
// the task stops and names the recovery actions instead of guessing: a guess applies input twice or
// loses it.
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
// A chunk keeps the last write of each key. Large chunks become sorted tables; the small tail that
// a restart misses is applied like a round. A restore can end before its target, by a kill, an
// error, or because the task is taken away. It then leaves what it has: the database is at a
// position below the target in each changelog, and the next restore continues there. The last step
// carries the commit's own positions.
//
// # Tables without a changelog
//
// A table can be restored from the topic that it is read from. That topic takes the place of the
// changelog in everything above. The differences, and how a restore shows that no record is
// missing, are in source.go.
//
// # Standbys
//
// A [Follower] brings the copy of a task that another process owns from one commit to the next. It
// judges and reads as a restore does. It does not look for records behind the commit: the owner goes
// on there.
//
// # Memory
//
// All restores of a process share one budget (Restorer.BytesMax). It bounds how many changelogs are
// read at a time, about as many as there are cores, and how large their chunks become. Active tasks
// go before standbys, and short restores before long ones; no restore is overtaken for ever. A
// changelog that waits for another producer's open transaction holds no part of the budget.
//
// The budget does not include the memory of the databases, of the client's connections, and of the
// decompression of a single batch.
package restore
