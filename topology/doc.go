// Package topology declares what to compute: typed streams from topics through operators and
// processor nodes into topics, with stores. It runs nothing. Package txn runs a topology exactly
// once; topology/topologytest runs it in memory for tests. Package topology/graph is the contract
// between a topology and its runtime; programs of users do not need it.
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
// Topics and stores are typed values that a program makes once, so the compiler finds a wrong type.
// Operators that keep the types of a stream are methods. Operators that change them are functions
// (stream, name, function). Every operator has a name that is unique in the topology; an operator
// that owns a store has the name of the store.
//
// Names are the only identity. Tasks, stores and internal topics are named after them, and never
// after a position in the program. So a topology can change without losing its state. User
// functions can return an error; [Fail] gives it a [Class].
//
// [Builder.Build] returns all mistakes at once as a [*BuildError]. Each one names the line of the
// user's program.
//
// # Whole programs
//
// Three examples of this package are programs to begin with. Each has its topics, types and
// functions in one file:
//   - WordCount (example_wordcount_test.go) counts the words of lines, behind a repartition topic.
//   - Sales (example_sales_test.go) joins and groups tables.
//   - Sensors (example_sensors_test.go) has windows with late records, an event time and a
//     dead-letter topic.
//
// The examples run in memory. To run one on a broker, copy its declarations and pass the topology
// to package cmd/cli, which makes a program with all commands of onceward:
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
// The codecs of all three refuse a null key (kafka-console-producer.sh writes keys with --property
// parse.key=true). The first start creates internal topics. `go run . describe` prints the
// declarations. `go run . plan` with the flags of run prints what the next start would do with the
// existing topics and state.
//
// # Subtopologies and tasks
//
// A subtopology is a connected component of the graph of nodes and shared stores. Its name is the
// alphabetically first name of its source topics and repartitionings. Records travel between
// subtopologies through topics only; [Stream.Repartition] makes an internal one.
//
// A source by pattern ([FromPattern]) makes one subtopology of each topic that it matches, with the
// name of the topic. [Topology.WithTopics] says which topics these are.
//
// A task is one partition number of a subtopology. It reads the partition of that number of every
// source, so all sources need the same number of partitions. A task has its own instance of every
// store that its nodes name ([Store]).
//
// Internal topics are <application>-<store>-changelog and <application>-<name>-repartition.
//
// # Processing
//
// [Topology.NewGraph] makes the nodes of one task. [Graph.Process] takes one record through them,
// depth first, and returns a [graph.Verdict]. Its promises:
//
//   - All or nothing. A success keeps all state writes, outputs and counts of the record, and of
//     the punctuations that it fires. A failure keeps none, whichever node failed and however far
//     the record had come. A failed record can leave only its dead letter.
//   - A failure cannot be swallowed. When a node fails, the record fails, even if the node that
//     emitted to it ignores the error. A store that cannot be read stops the task, even if the
//     handler ignores the error.
//   - User code cannot end the process: panics are recovered and count as [Poison]. (No library can
//     recover from a stack overflow or a deadlock.)
//   - Processing is deterministic if user functions are. The same records in the same order over
//     the same state give the same outputs, byte for byte. Dead letters differ in the times that
//     they contain.
//   - The graph checks sizes, null keys and timestamps that a broker would refuse at commit time.
//     Such a mistake costs one record here; at commit time it would cost the whole round. NewGraph
//     refuses unknown topics.
//
// A record costs no map and no reflection. It costs no allocation beyond those of codecs, user code
// and scans of stores. The outputs of one record lie in memory that the next record uses again. A
// source whose codecs lend ([schemas.Lender]) decodes without an allocation and without a copy.
//
// # Keys
//
// A record is in the partition of its key, and a task has the state of the keys in its partition.
// An operator that may change the key ([Map], [SelectKey], [FlatMap]) leaves the record where it
// is. So the operators that keep state by key (see below) refuse such a stream.
// [Stream.Repartition] moves its records first, through a topic that the user names. Build reports
// a missing Repartition.
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
// A [Table] is the newest value of each key. It is also the stream of its changes ([Change]: the
// value before and after). Its rows are in the [TimestampedStore] that it was declared with. Each
// value has the timestamp of the record that it comes from:
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
// In a [VersionedStore] a table also has its earlier values, ordered by their timestamps.
//
// The store of a topic has its own changelog, unless [RestoreFromTopic] says that the topic can
// replace it.
//
// [Store.InMemory] keeps the rows of a store in memory, and none on the disk. Its changelog
// restores it at each start. [Store.LostOnRestart] has no changelog either: for rows that can be
// missing.
//
// [Table.Filter], [MapTable], [JoinTables], [LeftJoinTables] and [OuterJoinTables] make tables from
// tables and store nothing. A change passes through them. A lookup of a key computes its value from
// the stores of the first tables. The functions of these operators are called again for old values,
// and must return the same result for the same arguments. A join looks up the current row of the
// other table. So its result depends on the order in which the task takes the records of its
// topics: by timestamp, as far as records are available.
//
// [JoinStreamTable] and [LeftJoinStreamTable] join each record of a stream with the current row of
// its key in a table. With a versioned table they use the row at the time of the record, and
// [JoinStreamTableWithGrace] and [LeftJoinStreamTableWithGrace] wait for late changes of the table.
// The joins without a grace store nothing. A change of the table emits nothing.
//
// [JoinForeignKey] and [LeftJoinForeignKey] join each row of a table with the row of another table
// whose key it names. The two tables may have different tasks: rows subscribe and get answers
// through two internal topics. No store has the results.
//
// [JoinStreams], [LeftJoinStreams] and [OuterJoinStreams] join records of two streams whose
// timestamps are near each other; [JoinWindows] defines how near. They keep the records of both
// streams for that time.
//
// [GlobalTableFrom] reads all partitions of a topic into a store of each process. [JoinGlobalTable]
// and [LeftJoinGlobalTable] look up a key there that a function takes from the record. No commit
// contains the position of a global table, so its promises are smaller: see [GlobalTableFrom].
//
// Records with a null key, if the codec accepts one, are left out and counted as "null-key"; see
// also [SkipNullKeys]. Aggregations also leave out null values ("null-value"). A later record
// replaces an earlier one, even if its timestamp is smaller. Every record emits its changes at
// once; no cache merges them.
//
// So a table behaves as one of Kafka Streams that has a store and no record cache, with one
// exception: the first change of a key has no old value. Kafka Streams reports the initial value of
// an aggregation there, and a second aggregation then subtracts a value that was never added.
//
// [Table.Suppress] makes a table with fewer changes: it merges the changes of a key within a time
// limit.
//
// [Table.Stream], [Table.Changes] and [Table.Into] make a stream of a table again.
//
// # Windows
//
// [Tumbling], [Hopping] and [Sliding] make [Windows] of event time. [Windows.Grace] sets how late a
// record may be. [CountWindows], [ReduceWindows] and [AggregateWindows] keep an aggregate for each
// key and window, under [Windowed] keys. [WindowedCodec] encodes such keys for topics,
// [WindowedTextCodec] for people.
//
// The clock of the node is the largest timestamp that the node has received. It is part of the
// state of its store: a failed record does not move it, and a restart does not set it back.
//
//	a [0, 10), b [10, 20), c [20, 30), ...    Tumbling(10).Grace(5)
//	a takes records while the clock is below 15, and closes with the first record at 15 or later
//
// A record that is too late for a window is counted as "late" for that window. An aggregation emits
// every update, as a table does. [WindowedTable.Closed] emits one last value of each window when it
// closes; both can be used together. Closed needs a second store, <store>-closing, which finds the
// closed windows without reading the open ones.
//
// # Time
//
// The time of a record is its timestamp in its source topic, or the time that an [EventTime] finds
// in it. A time before the epoch is invalid; [OnInvalidTimestamp] decides about such a record. An
// output has the time of its input record, unless the handler sets another time.
//
// The stream time of a task is the largest timestamp of the records that it has processed. A node
// can run code as time passes ([Punctuator]):
//   - [Setup.OnStreamTime] follows the stream time. The same records give the same firings, whether
//     they are read at once or a year later. Without records nothing fires.
//   - [Setup.OnWallClock] follows the wall clock. It is for work that must happen although no
//     record comes. Its results depend on when they were computed.
//
// Factories make the schedules, for each task. So schedules are neither in the description nor in
// the fingerprint of a topology, and every restart can change them.
//
// # Failures
//
// When a record fails, the class of its error and the [Policy] of its node or of the topology
// select an action. The action decides about the record, about the records behind it, and about the
// task:
//
//	action       the record                            its key           the other keys
//	Retry        is tried again in its place           waits             wait
//	Park         waits in a store ([ParkKeys])         waits behind it   go on
//	Delay        goes through topics ([RetryTopics])   goes on           go on
//	DeadLetter   goes to the dead-letter topic         goes on           go on
//	Stop         stays                                 the task stops    the task stops
//
// The runtime keeps the number of attempts and the time of the first failure for the first three
// actions, across restarts and outside of the topology's stores. The last attempt is followed by
// one of the last two actions. A punctuation that fails is tried again, with the record that fired
// it, or stops the task.
//
// A dead letter keeps key, value, headers and timestamp of the record, unless the broker would
// refuse them. A part that is too large is cut. A timestamp in the future is replaced by the time
// of the failure. Headers have the original sizes and the original time. A redrive takes the time
// from the headers, so a dead-letter topic may use the time of the broker
// (message.timestamp.type=LogAppendTime).
//
// Headers also name the origin of the record and the cause of the failure ([graph.DeadLetterInfo]).
// Behind a [Stream.Repartition] with [KeepOrigin], they name the input record too. No text in
// headers or in [graph.Failure.Error] quotes the record: an error appears with its text only if its
// author vouches for the text ([schemas.Reason]), and with its Go type otherwise.
//
// # Headers
//
// Outputs inherit the headers of their input record. So correlation and causation ids, CloudEvents
// attributes (ce_*) and W3C traceparent reach consumers; [Record] says how to stop that. Outputs do
// not inherit the dead-letter headers of a redriven record. The graph adds no header to ordinary
// live outputs. Outputs and dead letters of other modes carry their [Mode]. User code does not see
// the headers that internal topics add to a record ([KeepOrigin], [RetryTopics]).
//
// # Nulls
//
// A null key or value is not an empty one. [Nullable] sets how nulls are read and written.
//
// # Concurrency
//
// A [Topology] is immutable and safe for concurrent use. A [Builder] and a [Graph] belong to one
// goroutine each. So does everything that a graph passes to user code: [Setup], [Context], [Emit],
// [Counter], stores. The package starts no goroutine.
//
// # What it is not
//
// User code has no clock, except for the time that a wall-clock punctuation gets. There is no I/O
// and no broker.
package topology
