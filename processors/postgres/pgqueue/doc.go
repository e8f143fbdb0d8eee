// Package pgqueue is a store-then-process inbox: a consumer stores what arrives and acknowledges
// it, and workers process it later, each event once.
//
//	queue, err := pgqueue.New(pgqueue.Config{
//		Name: "billing",
//		Pool: pool,
//		Handle: func(ctx context.Context, tx pgx.Tx, e *pgqueue.Entry) (pgqueue.Decision, error) {
//			_, err := tx.Exec(ctx, "INSERT INTO bills ...", ...)
//			return pgqueue.Decision{}, err
//		},
//	})
//	...
//	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		_, err := queue.Store(ctx, tx, events...)
//		return err
//	})
//	if err == nil {
//		acknowledge(events) // or commit their offsets
//	}
//	...
//	err = queue.Run(ctx) // in as many processes as wanted
//
// The tables are made by postgres.Migrate.
//
// It is for events whose processing takes longer than their source can wait, fails for hours, or
// needs people. pgsink applies records of a topic with less work.
//
// # Contract
//
// The source of an event moves on after the COMMIT of [Queue.Store] has succeeded, and never
// before. Every arrival is an entry with a status:
//
//	status            when                                              what follows
//	RECEIVED          the id was not seen before                        a worker claims it
//	DUPLICATE         the id was seen with the same payload, or the     nothing
//	                  handler says so
//	QUARANTINED       the id was seen with another payload (conflict),  a person looks at it
//	                  it cannot be processed, or a person says so
//	CLAIMED           a worker has it                                   it is settled, fails, or the claim expires
//	PROCESSED         the handler has had its effect                    nothing
//	RETRYABLE_FAILED  the handler has failed, or the claim has expired  a worker claims it, after a pause
//	IGNORED           the handler or a person says so                   nothing
//	SUPERSEDED        the handler says so: it is out of date            nothing
//
// The source may move on with each of them. The status of the entry commits together with what the
// handler does in its transaction. So an event has its effect once, and the handler needs no inbox
// of its own.
//
// # Invariants
//
//   - Of any number of transactions that store one id, one has it RECEIVED. The others wait for its
//     end.
//   - An entry is settled under its latest claim, before that expires by the clock of the server. A
//     worker that was frozen finds another claim, or its own expired, and its transaction rolls
//     back with all that the handler has done in it.
//   - With an aggregate ([Event.Aggregate]), an entry is claimed when every earlier one of the
//     aggregate is settled. Transactions that store events of one aggregate follow one another, so
//     that no entry appears before one that was claimed.
//   - A settled entry stays settled. Each end of a claim, and each act of a person, leaves a row of
//     evidence in the transaction that decides.
//
// # Order
//
// Entries without an aggregate are claimed in the order in which they are due, and finish in any.
// Of an aggregate one entry is at work at a time. One that is tried again, or in quarantine, holds
// up those behind it: a person requeues it ([Queue.Requeue]), or lets the others pass
// ([Queue.Ignore]). Duplicates and conflicts have no place in the order.
//
// Transactions can deadlock that store events of several aggregates in several calls of Store, or
// new events of the same ids in another order; PostgreSQL ends one of them. Each aggregate takes an
// advisory lock until the end of the transaction: see max_locks_per_transaction where one stores
// thousands of them.
//
// Store notifies workers in the caller's transaction. PostgreSQL lets such transactions of one
// server commit one after the other.
//
// # Failure
//
// postgres.ClassOf classifies errors. The transaction is rolled back, and then
//
//	what fails                               what follows
//	the server or the connection             RETRYABLE_FAILED; it counts as an attempt only if the handler had the
//	                                         connection, and the server works
//	serialization failure, deadlock          the handler is called three times; then RETRYABLE_FAILED. It counts as an
//	                                         attempt from the hundredth claim of the entry on
//	transient, overload                      RETRYABLE_FAILED, with a pause that doubles; after [Config.Attempts] QUARANTINED
//	a claim that expires                     the same; so an entry that ends every process that handles it gets to
//	                                         quarantine, and those beside it get through in the pauses
//	conflict, validation, poison, a panic,   QUARANTINED
//	a constraint at the COMMIT
//	config, corruption, fatal                RETRYABLE_FAILED, and Run returns a [*Failure]
//	COMMIT without an answer                 the end of the claim waits for the transaction, and finds the entry settled or not
//	the claim is over: it has expired, a     the worker's transaction rolls back, and the entry stays as it is; the log says why the claim
//	person has decided, the entry is gone    is over, and a COMMIT in doubt has taken effect if its decision is among the evidence
//
// When the context of Run ends, what is at work is rolled back, and its claims are given back.
//
// # Frozen workers
//
// A process that freezes in its transaction holds the locks of the rows that it has changed. The
// server ends the transaction when it was idle for as long as a claim lasts ([Config.ClaimFor]).
//
// # Claims that are over
//
// A worker can lose an entry that it has claimed:
//
//   - the claim expires, and perhaps another one follows;
//   - a person quarantines the entry, and perhaps requeues it;
//   - others settle the entry, and Clean removes it.
//
// The worker notices when it settles the entry, or records a failure. Then its transaction is
// rolled back, and the entry stays as it is. fenced_total or failures_total counts it, and the log
// says why the claim is over.
//
// One case stays open: a COMMIT without an answer, and the entry is removed before the worker can
// look. The log says so, and unknown_commits_total counts it as not-known. A [Config.Retention]
// that is longer than [Config.ClaimFor] rules it out.
//
// # Retention
//
// Settled entries are kept for 180 days, and their payloads for a week. [Queue.Clean] removes what
// is older; nothing is removed unless it is called. A copy that comes after its entry was removed
// has its effect again: [Config.ReplayWindow] states how late one can come, and New refuses a
// shorter retention.
//
// # Concurrency
//
// A Queue is safe for concurrent use. Run starts up to [Config.Parallel] goroutines at a time, and
// waits for them before it returns. A NOTIFY wakes the workers; they also look every [Config.Poll],
// and so work behind a pooler that passes no notifications.
//
// Handlers run at READ COMMITTED, which the order of aggregates needs.
//
// # Metrics
//
// They have the label queue, and names that begin with onceward_postgres_queue_: arrivals_total by
// outcome (received, duplicate, conflict), claims_total, expired_claims_total, fenced_total,
// settled_total by status, quarantined_total, failures_total by class, unknown_commits_total by
// resolved, cleaned_total, oldest_pending_seconds, handle_seconds and commit_seconds. A conflict is
// worth an alert.
//
// # What it is not
//
// Calls to other systems in a handler are not undone by a rollback, and are made again with the
// entry.
package pgqueue
