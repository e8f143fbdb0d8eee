// Package topology says what to compute: typed streams from topics through operators and processor
// nodes into topics, with stores on the way. It does not run anything. Package txn runs a topology
// exactly once; topology/topologytest runs it in memory for tests. The contract with those that run
// it is package topology/graph, which programs of users do not need.
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
// Topics and stores are typed values that are made once, so that a wrong type does not compile.
// Operators that keep the types of a stream are methods, those that change them are functions
// (stream, name, function). Every operator has a name, unique in the topology; one that owns a
// store has the store's. Names are the only identity: tasks, stores and internal topics are named
// after them and never after a position in the program, so a topology can be changed without losing
// its state. User functions can return an error; [Fail] gives it a [Class].
//
// [Builder.Build] returns every mistake at once as a [*BuildError], each with the line of the
// user's program that it is about.
//
// # Whole programs
//
// Three examples of this package are programs to begin with, each with its topics, types and
// functions in one file: WordCount (example_wordcount_test.go) counts what it splits, behind a
// repartition topic; Sales (example_sales_test.go) joins and groups tables; Sensors
// (example_sensors_test.go) has windows with late records, an event time and a dead-letter topic.
// There they run in memory. To run one on a broker, copy its declarations and give the topology to
// the command, which makes a program of it with everything that onceward can do:
//
//	func main() { os.Exit(cli.Run(wordCount)) } // of cmd/cli; or sales, or sensors
//
//	go run . run --brokers localhost:9092 --state-dir ./state
//
//	program     topics that have to be there     records to write, with keys
//	WordCount   lines, word-counts               lines: any key, and a line of text
//	Sales       customers, orders, sales         customers: ann {"country":"CH"}
//	                                             orders: 1 {"customer":"ann","cents":1000}
//	Sensors     readings, means, readings.dead   readings: roof {"at":"2026-01-31T08:00:10Z","celsius":20}
//
// A null key is refused by the codecs of all of them (kafka-console-producer.sh writes keys with
// --property parse.key=true). Internal topics are created by the start. `go run . describe` shows
// what was declared, and `go run . plan` with the flags of run what the next start would make of
// what there is.
//
// # Subtopologies and tasks
//
// A subtopology is a connected component of the graph of nodes and shared stores. It is named after
// the alphabetically first of its source topics and repartitionings. Between subtopologies records
// travel through topics only ([Stream.Repartition] makes an internal one). A task is one partition
// of a subtopology: it reads the partition of that number of every source, hence all of them have
// equally many, and it has a store of its own for every store that its nodes name ([Store]).
//
// Internal topics are <application>-<store>-changelog and <application>-<name>-repartition.
//
// # Processing
//
// [Topology.NewGraph] makes the nodes of one task. [Graph.Process] takes one record through them,
// depth first, and returns a [graph.Verdict]. What it promises:
//
//   - All or nothing. On success all state writes, outputs and counts of the record, and of the
//     punctuations that it fires, are there; after any failure none is, whatever node it happened
//     in and however far the record had come. The only thing that a failed record can leave is its
//     dead letter.
//   - A failure cannot be swallowed. When a node fails, the record has failed, even if the node
//     that emitted to it ignores the error. A store that cannot be read stops the task, even if the
//     handler ignores that.
//   - User code cannot take the process down: panics are recovered, and count as [Poison]. (A stack
//     overflow or a deadlock is beyond any library.)
//   - The same records in the same order, over the same state, give the same outputs, byte for
//     byte, as long as user functions are deterministic. Dead letters differ by the times that they
//     name.
//   - What the broker would refuse at commit time, when it costs the whole round, is refused here,
//     when it costs one record: sizes, null keys, timestamps. Unknown topics are refused when the
//     graph is made.
//
// A record costs no map and no reflection. It costs no allocation beyond those of codecs, user code
// and scans of stores: what is encoded lies in chunks of memory that many records share and that
// are never reused.
//
// # Keys
//
// A record is in the partition of its key, and a task has the state of the keys in its partition.
// An operator that may change the key ([Map], [SelectKey], [FlatMap]) leaves the record where it
// is. So the operators that keep state by key, named below, do not take such a stream:
// [Stream.Repartition] moves its records first, through a topic with a name of the user's. Build
// reports where it is missing.
//
//	keeps the key                                 may change the key
//	Filter, Peek, MapValues, FlatMapValues,       Map, SelectKey, FlatMap
//	MapHeaders, Split, Merge
//	ProcessValues, FixedKeyOutlet                 Process, Outlet
//
// [Stream.Copartitioned] and [Node.Copartitioned] are the promise of a program that the key is in
// its partition all the same.
//
// A key is in the partition that Kafka's default partitioner gives it. [PartitionBy] describes
// another partitioner, for sinks ([TopicOf.PartitionedBy]) and repartition topics. A stream of a
// topic with a partitioner is not partitioned by its keys, and no table is read from one.
//
// # Tables
//
// A [Table] is the newest value of each key and, at once, the stream of its changes ([Change]: the
// value before and after). It is kept in the [TimestampedStore] that it was declared with, each
// value with the timestamp of the record that it is made of:
//
//	                  from                           value of a key             its timestamp
//	TableFrom         a topic; null deletes          the last record's          that record's
//	ToTable           a stream                       the last record's          that record's
//	Count, Reduce,    a stream                       aggregate of its records   largest of its records
//	Aggregate
//	Cogroup           several streams, each with a   aggregate of the records   largest of its records
//	                  function (Fold)
//	CountTable, ...   a table, grouped by another    aggregate of the entries   largest of its changes
//	                  key with GroupTable            that are in the group
//	CountWindows,...  a stream, by key and window    aggregate of the records   largest of its records
//	                                                 in the window
//	CountSessions,... a stream, by key and session   aggregate of the records   end of the session
//	                                                 in the session
//	CogroupWindows,   as Cogroup, by key and window  as those of one stream     as those of one stream
//	CogroupSessions   or session
//
// The store of a topic has a changelog of its own, unless [RestoreFromTopic] says that the topic is
// as good.
//
// [Table.Filter], [MapTable], [JoinTables], [LeftJoinTables] and [OuterJoinTables] make tables of
// tables, and keep nothing: a change passes through them, and whoever looks up a key computes it
// from the stores at the beginning. Their functions are called for old values again, and have to
// return the same for the same. A join looks into the other table as it is at that moment, so that
// the result depends on the order in which the task takes the records of its topics (by timestamp,
// as far as they are there).
//
// [JoinStreamTable] and [LeftJoinStreamTable] give the records of a stream the row that a table has
// for their key at that moment. They keep nothing either, and a change of the table emits nothing.
//
// [JoinForeignKey] and [LeftJoinForeignKey] join the rows of a table with the row of another one
// that each names. The tables may have different tasks, so that the rows subscribe, and are
// answered, through two internal topics. The results are in no store.
//
// [JoinStreams], [LeftJoinStreams] and [OuterJoinStreams] join the records of two streams whose
// timestamps are near each other, as [JoinWindows] say. They keep the records of both streams for
// that time.
//
// [GlobalTableFrom] reads all partitions of a topic into a store of each process. [JoinGlobalTable]
// and [LeftJoinGlobalTable] look into it, by a key that is chosen from the record. No commit names
// the position of such a table, which makes the promise smaller: see there.
//
// Records with a null key, if its codec takes one, and of aggregations those with a null value, are
// left out and counted ("null-key", "null-value"); see also [SkipNullKeys]. A later record wins,
// also if its timestamp is smaller. Every record makes its changes at once; there is no cache that
// sums up several. In all this a table behaves as in Kafka Streams with a store, and without a
// record cache. In one thing it does not: the first change of a key has no old value, where there
// an aggregation says that it was the initial one, so that a second aggregation subtracts what was
// never added.
//
// [Table.Suppress] makes a table with fewer changes: the changes of a key that come within a time
// limit become one.
//
// A table becomes a stream again by [Table.Stream], [Table.Changes] or [Table.Into].
//
// # Windows
//
// [Tumbling], [Hopping] and [Sliding] make [Windows] of event time, and their [Windows.Grace] says
// how late a record may be. [CountWindows], [ReduceWindows] and [AggregateWindows] keep an
// aggregate for each key and window, under [Windowed] keys, for which [WindowedCodec] is the codec
// in topics, and [WindowedTextCodec] where people look. The clock of the node is the largest
// timestamp that it has got itself. It is part of the state of its store: a record that fails does
// not move it, and a restart does not set it back.
//
//	a [0, 10), b [10, 20), c [20, 30), ...    Tumbling(10).Grace(5)
//	a takes records while the clock is below 15, and closes with the first record at 15 or later
//
// A record that is too late for a window is counted as "late" for it. An aggregation passes on
// every update, as a table; [WindowedTable.Closed] passes on one last value of each window when it
// closes, and may be used beside it. The latter needs a second store, <store>-closing, to find what
// is over without reading what is not.
//
// # Time
//
// The time of a record is its timestamp in the topic that it is read from, or what an [EventTime]
// finds in it; of an invalid one, which is before the epoch, [OnInvalidTimestamp] says what
// becomes. What is made of a record has its time, unless said otherwise.
//
// The time of a task is its stream time: the largest timestamp of the records that it has
// processed. A node can have code run as time passes ([Punctuator]). [Setup.OnStreamTime] goes by
// the stream time: the same records give the same firings, whether they are read as they come or a
// year later, and where no record comes nothing fires. [Setup.OnWallClock] goes by the clock: it is
// for what has to happen although no record comes, and it makes results depend on when they were
// computed. Schedules are made in factories, for each task, so they are neither in the description
// nor in the fingerprint of a topology; they can be changed at any restart.
//
// # Failures
//
// The class of an error decides, by the [Policy] of its node or of the topology, about the record
// that failed, about those behind it, and about the task:
//
//	action       the record                            its key           the other keys
//	Retry        is tried again in its place           waits             wait
//	Park         waits in a store ([ParkKeys])         waits behind it   go on
//	Delay        goes through topics ([RetryTopics])   goes on           go on
//	DeadLetter   goes to the dead-letter topic         goes on           go on
//	Stop         stays                                 the task stops    the task stops
//
// The first three keep how often the record was tried and when it failed first, across restarts,
// outside of what the topology itself stores; after the last attempt comes one of the last two. A
// punctuation that fails is tried again, with the record that fired it, or stops the task. A dead
// letter keeps key, value, headers and timestamp of the record as they were, unless the broker
// would refuse them: what is too large is cut, a timestamp in the future gives way to the time of
// the failure, and headers have the original sizes and time. A redrive takes the time from there,
// so that a dead-letter topic may have the broker's (message.timestamp.type=LogAppendTime). Headers
// also tell where the record comes from and why it died ([graph.DeadLetterInfo]); where it died
// behind a [Stream.Repartition] with [KeepOrigin], they name the record of the input too. No text
// in them, and none of [graph.Failure.Error], quotes the record: errors are shown by their text
// only if their author vouches for it ([schemas.Reason]), and by their Go type otherwise.
//
// # Headers
//
// Headers travel on from a record to all that is made of it, so that correlation and causation ids,
// CloudEvents attributes (ce_*) and W3C traceparent reach those behind us; see [Record] for how to
// stop that. Dead-letter headers of a redriven record do not travel on. No header is added to
// ordinary outputs, unless they are not live: then they carry their [Mode], and so do dead letters.
// What internal topics note beside a record ([KeepOrigin], [RetryTopics]) is not seen by user code.
//
// # Nulls
//
// A null key or value is not an empty one. [Nullable] says how nulls are read and written.
//
// # Concurrency
//
// A [Topology] is immutable and safe for concurrent use. A [Builder] and a [Graph], with everything
// that a graph gives to user code ([Setup], [Context], [Emit], [Counter], stores), belong to one
// goroutine each. The package starts none.
//
// # What it is not
//
// There is no clock for user code, except for the value that a punctuation by the wall clock is
// given; no I/O and no broker. Versioned tables have no operators yet. docs/decisions says what
// they would reuse, and that what is stored stays as it is.
package topology
