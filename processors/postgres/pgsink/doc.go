// Package pgsink applies the records of Kafka topics to PostgreSQL, each one exactly once.
//
//	sink, err := pgsink.New(pgsink.Config{
//		Name:   "balances",
//		Topics: []string{"payments"},
//		Pool:   pool,
//		Client: []kgo.Opt{kgo.SeedBrokers("kafka:9092")},
//		Apply: pgsink.Each(func(ctx context.Context, tx pgx.Tx, r *kgo.Record) error {
//			_, err := tx.Exec(ctx, "INSERT INTO payments ...", ...)
//			return err
//		}),
//	})
//	...
//	err = sink.Run(ctx)
//
// The tables are made by postgres.Migrate.
//
// # Contract
//
// The sink passes committed records (read_committed) of a partition to Apply in batches, in the
// order of the partition. The work of Apply in the given transaction, and the offset behind the
// batch, commit together. So a record has its effect once, and Apply needs no inbox: if a batch
// comes again, its first transaction has not committed.
//
// Apply must do all of its work in that transaction, and must not end it. It may be called again
// with the same records, or with fewer of them at a time. Partitions are applied in parallel,
// [Config.Parallel] at a time.
//
// A record that its producer has sent twice is two records. Where that can happen, Apply marks
// events with pginbox in the same transaction.
//
// # Invariants
//
//   - The row in onceward.sink_offsets decides where to read next. Offsets that Kafka has for the
//     group are not read, and none are written.
//   - An offset moves only under the generation that its owner was given, and only from the offset
//     at which that owner reads on. Every assignment of a partition takes a new generation. So an
//     earlier owner (a frozen process, or one without a connection to Kafka) is fenced. Its
//     transaction finds another generation, and rolls back with all work of Apply.
//   - A batch is handed out when the one before it in the partition has committed.
//   - A COMMIT without an answer is resolved by reading the row, under a lock that waits for the
//     transaction in doubt. The batch is applied again only where the row says that it has not
//     moved.
//   - An offset that waits at the end of its partition is behind the ends of transactions and
//     behind aborted records, at the latest after 5 s. Those are deleted with time as well, and an
//     offset in front of them would be taken for one whose records were lost. A process that ends
//     earlier leaves it in front of them.
//   - With the offset, the leader epoch of the record before it is stored. So a log that was cut
//     below the offset is noticed, even when it has grown again while the sink was down.
//   - An offset belongs to one topic by its id. A topic that was deleted and created again stops
//     the sink, instead of being read from an offset of its predecessor.
//
// # Failure
//
// postgres.ClassOf returns the class of an error. The transaction is rolled back, and then
//
//	what fails                               what follows
//	begin, the move of the offset, COMMIT    the batch is tried again until it succeeds, with pauses of up to 30 s. No record is to blame. Run
//	                                         returns an error where only an operator can help: missing tables or rights, a closed pool
//	the server or the connection, in Apply   the same; after five times record by record. A failure of a single record counts as one of its
//	                                         attempts if the server takes a write of the sink on another connection
//	serialization failure, deadlock          the same, with pauses of up to a second; after three times record by record. From the hundredth
//	                                         failure of a single record on they count as attempts
//	transient, overload                      record by record, [Config.Attempts] times each; then the record is refused
//	conflict, validation, poison, a panic    record by record; the record that fails alone is refused
//	config, corruption, fatal                Run returns a [*Failure]
//	the partition has another owner          what was done is rolled back, and the sink joins the group again
//	records were deleted before they were    Run returns an error. An operator has to decide, and says where to go on with [SetOffset], or with
//	read, or the log was cut                 the command onceward-postgres sink set-offset
//
// A timeout that Apply has set, and a transaction that the server has ended because Apply has
// paused for too long, are transient. A foreign key whose row comes later, from another partition,
// is validation: its record is refused at once, unless Apply returns the error with
// topology.Transient.
//
// While the server is down, the batch is tried without an end; onceward_postgres_sink_retries_total
// and the log show that.
//
// A record that is refused goes to the table onceward.sink_quarantine, in the transaction that
// moves the offset past it. With [Config.DeadLetterTopic] it goes from there to that topic, in the
// form of package topology. A crash in between sends it twice, with one id. A record that was
// applied has no dead letter. A record that the topic does not take, because it is too large, stays
// in quarantine. Where the topic is not there or cannot be written, Run returns an error, and the
// record waits in the table. The later records of its partition go on without it. [Quarantined]
// lists the records in quarantine. [Sink.Requeue] applies one, and [Discard] removes one without an
// effect. No other function removes them.
//
// While one partition waits to try again, the others go on.
//
// On a revoke the batch at work is finished, nothing further of the partition begins, and the next
// owner reads on behind it. When the context of Run ends, what is at work is rolled back.
//
// # Frozen owners
//
// A process that freezes in its transaction holds the locks of the rows that it has changed, and
// other transactions wait for them. The server ends such a transaction after
// [Config.IdleInTransaction]. This limits the time between two statements of Apply as well.
//
// # Concurrency
//
// Run starts one goroutine per assigned partition, and waits for them before it returns. Apply is
// called by several of them at once. All instances of a sink have the same name, which is their
// consumer group.
//
// # What it is not
//
// Calls to other systems in Apply are not undone by a rollback, and are made again with the batch.
package pgsink
