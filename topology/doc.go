// Package topology says what to compute: typed streams from topics through operators and processor nodes
// into topics, with stores on the way. It does not run anything. Package txn runs a topology exactly once;
// topology/topologytest runs it in memory for tests.
//
//	var (
//		Orders = topology.Topic("orders", schemas.String(), schemas.JSON[Order]())
//		Large  = topology.Topic("large-orders", schemas.String(), schemas.JSON[Order]())
//	)
//
//	b := topology.NewBuilder("order-watch", topology.DeadLetters("orders.dead"))
//	orders := topology.From(b, Orders)
//	orders.Filter("large", isLarge).Into(Large)
//	t, err := b.Build()
//
// # Declaring
//
// Topics and stores are typed values that are made once, so that a wrong type does not compile. Operators
// that keep the types of a stream are methods, those that change them are functions (stream, name,
// function). Every operator has a name, unique in the topology. Names are the only identity: tasks, stores
// and internal topics are named after them and never after a position in the program, so a topology can be
// changed without losing its state. User functions can return an error; [Fail] gives it a [Class].
//
// [Builder.Build] returns every mistake at once as a [*BuildError], each with the line of the user's
// program that it is about.
//
// # Subtopologies and tasks
//
// A subtopology is a connected component of the graph of nodes and shared stores. It is named after the
// alphabetically first of its source topics and repartitionings. Between subtopologies records travel
// through topics only ([Repartition] makes an internal one). A task is one partition of a subtopology: it
// reads the partition of that number of every source, hence all of them have equally many, and it has a
// store of its own for every store that its nodes name: a [StoreOf] or one of the other kinds ([TypedStore]).
//
// Internal topics are <application>-<store>-changelog and <application>-<name>-repartition.
//
// # Processing
//
// [Topology.NewGraph] makes the nodes of one task. [Graph.Process] takes one record through them, depth
// first, and returns a [Verdict]. What it promises:
//
//   - All or nothing. On success all state writes, outputs and counts of the record, and of the punctuations
//     that it fires, are there; after any failure none is, whatever node it happened in and however far the
//     record had come. The only thing that a failed record can leave is its dead letter.
//   - A failure cannot be swallowed. When a node fails, the record has failed, even if the node that
//     emitted to it ignores the error. A store that cannot be read stops the task, even if the handler
//     ignores that.
//   - User code cannot take the process down: panics are recovered, and count as [Poison]. (A stack
//     overflow or a deadlock is beyond any library.)
//   - The same records in the same order, over the same state, give the same outputs, byte for byte, as
//     long as user functions are deterministic. Dead letters differ by the times that they name.
//   - What the broker would refuse at commit time, when it costs the whole round, is refused here, when it
//     costs one record: sizes, null keys, timestamps. Unknown topics are refused when the graph is made.
//
// A record costs no map, no reflection, and no allocation beyond those of codecs and user code: what is
// encoded lies in chunks of memory that many records share and that are never reused.
//
// # Time
//
// The time of a task is its stream time: the largest timestamp of the records that it has processed. A node can
// have code run as time passes ([Punctuator]). [Setup.OnStreamTime] goes by the stream time: the same records
// give the same firings, whether they are read as they come or a year later, and where no record comes nothing
// fires. [Setup.OnWallClock] goes by the clock: it is for what has to happen although no record comes, and it
// makes results depend on when they were computed. Schedules are made in factories, for each task, so they are
// neither in the description nor in the fingerprint of a topology; they can be changed at any restart.
//
// # Failures
//
// The class of an error decides, by the [Policy] of its node or of the topology, about the record that failed,
// about those behind it, and about the task:
//
//	action       the record                            its key           the other keys
//	Retry        is tried again in its place           waits             wait
//	Park         waits in a store ([ParkKeys])         waits behind it   go on
//	Delay        goes through topics ([RetryTopics])   goes on           go on
//	DeadLetter   goes to the dead-letter topic         goes on           go on
//	Stop         stays                                 the task stops    the task stops
//
// The first three keep how often the record was tried and when it failed first, across restarts, outside of what
// the topology itself stores; after the last attempt comes one of the last two. A punctuation that fails is tried
// again, with the record that fired it, or stops the task. A dead letter keeps key, value, headers and timestamp of the record as they
// were, unless the broker would refuse them: what is too large is cut, a timestamp in the future gives way
// to the time of the failure, and headers have the original sizes and time. They also tell where the record
// comes from and why it died ([DeadLetterInfo]). No text in them, and none of [Failure.Error], quotes the
// record: errors are shown by their text only if their author vouches for it ([schemas.Reason]), and by
// their Go type otherwise.
//
// # Headers
//
// Headers travel on from a record to all that is made of it, so that correlation and causation ids,
// CloudEvents attributes (ce_*) and W3C traceparent reach those behind us; see [Record] for how to stop
// that. Dead-letter headers of a redriven record do not travel on. No header is added to ordinary outputs.
//
// # Nulls
//
// A null key or value is not an empty one. [Nullable] says how nulls are read and written.
//
// # Concurrency
//
// A [Topology] is immutable and safe for concurrent use. A [Builder] and a [Graph], with everything that a
// graph gives to user code ([Setup], [Context], [Emit], [Counter], stores), belong to one goroutine each.
// The package starts none.
//
// # What it is not
//
// There is no clock for user code, except for the value that a punctuation by the wall clock is given; no I/O and
// no broker. Only key-value stores have processors that use them; windowed operators, joins and timers are not there.
package topology
