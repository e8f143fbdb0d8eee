// Package statecost measures what a record costs in the state of a task, as that grows: state.Task over
// pebblestore, without Kafka, and how long a database takes to open after its process was killed.
// It is the library behind the tool in the directory run.
//
// # Workload
//
// A ledger. Half of the keys of a database are accounts with a balance, half are contributions that
// were posted before. Keys have 16 bytes and are spread over all values; values have 32 to 100
// bytes, balances as well as contributions. For each record:
//
//	Mark
//	get the contribution; if it is there, that is all
//	put the contribution
//	get the balance, add the amount, put the balance
//
// Accounts are drawn uniformly, or by Zipf's law: a few accounts get most records. A stated share
// of the records are contributions that were posted before. The records are made from a seed,
// before the time is taken. Records make rounds, as in the runtime: after so many of them the layer
// is frozen and applied to the database with its positions. Unlike in the runtime that happens in
// the same goroutine, and there is no changelog.
//
// # What is measured
//
// The time of each round by its number of records: the processing, that is everything up to Freeze,
// and the Apply. The final Flush is in the total too. Compactions go on in the background
// meanwhile, on the same processors. The peak of the process's resident memory (VmHWM of Linux) is
// compared with the block cache, which is what is configured.
//
// Every record is checked: a contribution is there if and only if it should be, an account always.
// In the first run of each kind all balances are added up at the end.
//
// A reopen: a process loads the database until SIGKILL. Another one opens it; the time is from the
// call of Open until the Task is ready. The changelog would then be replayed from its positions.
// The database must contain exactly the state of its positions.
//
// # The run
//
// [Measure] grows one database from size to size, and lets its compactions come to an end each
// time. Every run is a process of its own on a copy of the database (hard links of the tables), so
// that all of a size begin alike. The numbers of keys at their ends are higher, by the
// contributions posted. Sizes and distributions are measured once each, then again, as often as
// there are repeats.
//
// # What it is not
//
// The file cache of the operating system is warm, and may hold all of a database: the figures show
// the processor's work and the block cache's, not a disk's. That is so after the kill too, which is
// none of the machine.
//
// # Concurrency
//
// Measure belongs to one goroutine. The processes that it starts end with it, and with its context.
package statecost
