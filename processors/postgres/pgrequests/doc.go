// Package pgrequests answers a request that a client sends several times with one effect and one
// answer. The effect, the answer and the row of the request commit in one SQL transaction.
//
//	store, err := pgrequests.New(pool, "payments")
//	...
//	pay, err := store.Handler(pgrequests.HTTP{Scope: scopeOf}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
//		if _, err := tx.Exec(r.Context(), "INSERT INTO payments ...", ...); err != nil {
//			return err
//		}
//		w.WriteHeader(http.StatusCreated)
//		return nil
//	})
//	...
//	mux.Handle("POST /payments", pay)
//
// The table is made by postgres.Migrate.
//
// # Contract
//
// A [Scope] names a request: tenant, client, operation, resource and the key that the client has
// chosen. The hash stands for the content of the request. [Store.StartOrReplay] decides in the
// caller's transaction:
//
//	outcome      when                                                        what the caller does
//	started      the scope is new, its last attempt has failed retryably,    has the effect, and calls Complete or Fail
//	             or the lock of its last attempt has expired
//	replayed     the request was completed, or has failed for good           sends the stored answer
//	conflict     the scope was used with another hash                        refuses; an operator may want to know
//	in-progress  an attempt is at work                                       tells the client to come back
//	unknown      an attempt with external effects has not ended in time,     tells the client to come back; an operator
//	             or has ended with Unknown                                   has to find out
//	expired      the request was answered, and the answer is not stored      refuses
//	             any more
//
// An outcome is never an error. Only a start writes; the other outcomes leave the transaction as it
// was.
//
// # Two ways
//
// One transaction: start, effect and [Store.Complete] commit together. A crash leaves nothing, and
// the next copy starts. While the transaction is open, other copies are told that it is in
// progress. [Store.Handler] works in this way.
//
// Two transactions: the start commits first, then the work is done, then effect and Complete commit
// together. This is for work that takes long, that another process does, or that calls other
// systems. The start holds a lock that expires ([Lock]):
//
//   - Without [Request.External] the next copy starts over when the lock has expired. The attempt
//     before is fenced: its Complete fails with [ErrFenced], and its transaction must be rolled
//     back.
//   - With it the outcome of the attempt is unknown then, and nothing starts over. Its holder may
//     still end it, or an operator does, with the claim that [Store.Find] returns. The second of
//     them is fenced.
//
// A process that freezes behind Complete and before the COMMIT keeps its copies in progress until
// the server ends its transaction (idle_in_transaction_session_timeout).
//
// # Statuses
//
//	status            meaning                                            a copy is
//	STARTED           an attempt is at work                              in progress; then started, or unknown if external
//	COMPLETED         the effect has happened                            replayed
//	FAILED_RETRYABLE  the effect has not happened                        started
//	FAILED_TERMINAL   the effect has not happened and will not           replayed
//	UNKNOWN           an external effect may have happened               unknown
//
// # Invariants
//
//   - Of any number of transactions that start one scope at the same time, one starts it: the
//     primary key decides (INSERT ... ON CONFLICT). The others do not wait: an advisory lock of
//     that transaction tells them that a copy is at work.
//   - Each start of a scope has a higher attempt, and only the latest attempt ends the request,
//     once.
//   - An answer that was stored does not change.
//   - Of one scope with one hash, Complete commits at most once until the row is deleted.
//
// # Retention
//
// An answer is stored for 24 hours ([TimeToLive]) after the request has ended. The row, without the
// answer, stays for 180 days ([AuditRetention]) after the start of its last attempt. In that time a
// copy is refused (expired), and has no second effect. Afterwards it is a new request. So the audit
// retention has to be longer than the time after which a client can still retry.
//
// [Store.Unknown] lists the requests that need an operator.
//
// [Store.Clean] removes answers and rows, and gives the status UNKNOWN to external attempts whose
// lock has expired. Rows that are UNKNOWN stay until they are ended. Nothing is removed unless
// Clean is called.
//
// # HTTP
//
// [Store.Handler] reads the key from the header Idempotency-Key
// (draft-ietf-httpapi-idempotency-key-header). The key is a string of a structured field, such as
// "8e03978e-40d5-43e6-bc93-6894a57f9324" with the quotation marks, without parameters, in one field
// line.
//
//	what                                        answer
//	no key, a malformed key                     400
//	a part of the scope cannot be stored:       400; the detail names the part, its length and the limit
//	see [Scope] for the limits
//	the body is longer than HTTP.BodyBytes      413
//	started                                     that of the Func
//	replayed                                    the stored one, and Idempotent-Replayed: true
//	conflict                                    409 (the draft has 422)
//	in-progress, unknown                        409 and Retry-After; with HTTP.Location 202, Location and Retry-After
//	expired, or ended without a status of HTTP  409
//	the Func returns an error                   503 and Retry-After for class transient or overload, otherwise 500
//
// Answers of 4xx and 5xx that the handler makes have a body of application/problem+json (RFC 9457).
// Its type is one of the constants [KeyMissing] to [Failed].
//
// Which answers of a Func are stored and replayed:
//
//	status                      effects        stored            a retry
//	2xx, 3xx                    committed      COMPLETED         has the same answer
//	408, 425, 429, 5xx          rolled back    FAILED_RETRYABLE  calls the Func again
//	other 4xx                   rolled back    FAILED_TERMINAL   has the same answer
//	an error                    rolled back    FAILED_RETRYABLE  calls the Func again
//	a panic                     rolled back    nothing           calls the Func again
//
// [HTTP.Retryable] changes which statuses are in the second line. Answers of the handler itself are
// not replayed.
//
// The hash is that of method, path, query, media type and body. The order of the query's names,
// parameters of the media type, and the spelling of a JSON body (schemas.CanonicalJSON) do not
// count. Other bodies are compared byte by byte; a multipart body that is built again with another
// boundary is another request.
//
// All headers that the Func sets are stored with the answer, Set-Cookie too. They and the body are
// in the table as they are. The answer is sent as a whole behind the COMMIT: a Func has no
// http.Flusher and no http.Hijacker, its informational answers (1xx) are not sent, and body and
// headers have [ResponseBytesMax] bytes together.
//
// The handler reads the body. Middleware in front of it must leave the body unread, or two forms
// with one key are taken for one request.
//
// # Failure
//
//	what fails                              what follows
//	crash before the COMMIT                 nothing has happened; the retry starts
//	crash after it                          the retry is replayed
//	COMMIT without an answer                the handler asks the table: replayed if it took effect, otherwise the Func is called again
//	serialization failure, deadlock         rolled back, and the Func is called again, up to 5 times with short pauses
//	the server or the connection            the same; then 503
//	the process freezes in its transaction  the server ends the transaction after Lock; then the next copy starts
//	the client goes away                    its context ends the Func; what the Func has finished is committed
//
// With isolation levels above READ COMMITTED a concurrent copy can get a serialization failure
// (40001) from StartOrReplay.
//
// # Metrics
//
//	onceward_postgres_requests_total{service,outcome}          what StartOrReplay has said
//	onceward_postgres_requests_ended_total{service,status}     attempts that have ended; UNKNOWN needs an operator
//	onceward_postgres_requests_expired_locks_total{service}    attempts that were started because a lock had expired
//	onceward_postgres_requests_fenced_total{service}           attempts that could not end their request
//	onceward_postgres_requests_retries_total{service,reason}   transactions of the handler that were tried again: contention, connection,
//	                                                           unknown-commit
//	onceward_postgres_requests_cleaned_total{service,what}     answers and rows that Clean has removed
//
// They count decisions, also those of transactions that are rolled back afterwards.
//
// # Concurrency
//
// A Store and its handlers are safe for concurrent use, by any number of processes. They start no
// goroutines.
//
// # What it is not
//
// A Func may be called several times for one request, and only what it does in its transaction
// happens once. Calls to other systems belong into a topology behind an outbox, or into two
// transactions with Request.External.
//
// It does not authenticate. A scope without tenant and client that the service has verified replays
// the answers of one client to another.
package pgrequests
