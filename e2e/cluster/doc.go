// Package cluster gives tests a Kafka cluster: the embedded broker, brokers on virtual time, or a
// real Apache Kafka, behind one type, so that one scenario runs on all of them.
//
// # What it is for
//
// The embedded broker (kfake, in process, with its data on disk) is fast and needs nothing but Go,
// but it has no replication, no delay between the answer to EndTxn and the transaction markers, and
// never answers CONCURRENT_TRANSACTIONS. What it cannot show has to be shown on the real one. A
// process tests on one kind: on the embedded broker, or, where the environment asks for it, on real
// Kafka. [Each] runs a scenario on the kind of the process, so `make test` has its one half and
// `make test-kafka` the other, and nothing runs twice. The observations ([Cluster.ReadAll],
// [Cluster.OpenTransactions], [Cluster.CommittedOffsets] and so on) ask the broker by protocol
// requests only, never the broker's memory and never the code under test.
//
// # Virtual time
//
// [Scenario] runs a scenario on the embedded brokers of package virtual, in a bubble of
// testing/synctest, and on real Kafka in a process that tests on it; [OnVirtual] only does the
// former. Waits cost nothing there, so that scenarios keep the timeouts of production. Applications
// need the [Cluster.Dialer] of a host and no control socket: package instance sees to both.
// [Virtual] is for tests that choose the seed, the number of brokers or their settings.
//
// # Real Kafka
//
// One node that is broker and controller, of exactly [KafkaVersion], on loopback only, with its
// data in a temporary directory. [Options].SeparateController makes two processes of it, of which
// the broker's alone is taken down, and [Options].Brokers several brokers of it, of which
// [Cluster.KillBroker] takes one down. [Options].Host has the brokers listen on another address of
// this machine, which hosts in network namespaces reach. Java 17 or newer runs it; Maven copies the
// jars that pom.xml names into the user's cache directory once. Environment variables:
//
//   - ONCEWARD_REQUIRE_KAFKA=1 has the process test on real Kafka. A missing Java, or missing jars
//     without a Maven to get them, is a failure then.
//   - ONCEWARD_KAFKA_BROKERS=host:port,... has it do so too, on that cluster instead of one that it
//     starts (plain text, no authentication). Only tests that want a broker of their own start one,
//     and are skipped where there is no Java. The cluster must allow topics to be created and
//     deleted; whatever starts with a name that [Cluster.Name] gave out is deleted at the end of
//     its test.
//   - ONCEWARD_KAFKA_JARS=directory is a directory that has the jars already; Maven is not used.
//
// Without the first two nothing starts a JVM, wherever Java is installed: tests on real Kafka are
// skipped, and one line per package on standard error says so. With one of them, tests on the
// embedded broker are skipped.
//
// Java formats the storage of the first broker of a kind, and the next ones in the process get a
// copy of it under ids of their own. What is not measured takes [Options].ShortLived.
//
// Only what is absent is skipped. A download that fails, a broker that does not start and a cluster
// that does not answer are failures, with the end of the broker's log in the error.
//
// # Other programs
//
// Tests that run more of Kafka's programs, or programs of their own against Kafka's libraries, get
// them with [Java], which treats what is missing like a missing broker. [Launch] ties a child
// process to the test process as the broker is tied.
//
// # Lifetimes
//
// A package that calls [Kafka] or [Each] has one real broker for all its tests, because starting
// one takes seconds: its TestMain calls [Main], which stops the broker after the last test, passed
// or failed. Tests keep apart by names from [Cluster.Name]. A test that kills or restarts its
// broker takes one of its own from [Own]. Every [Embedded] broker belongs to its test alone.
// [Start] and [Cluster.Close] are for a broker that no other test may use, such as one that is
// measured.
//
// Close asks a real broker to stop and kills it if it does not, and a controller of its own after
// it. On Linux the kernel also kills them together with the process that started them, whatever
// ended that one. Elsewhere a test process that ends without Main's end (SIGKILL, a panic, a test
// timeout) leaves its broker running. The temporary directories ([TempDir]) of such a process are
// removed by a process that makes one of the same kind at least an hour later.
//
// # Concurrency
//
// The methods of a Cluster may be called from any goroutine. The ones that take the broker down or
// up exclude each other; what runs against the broker meanwhile sees what a client of a restarting
// broker sees.
//
// # What it is not
//
// It is not a client library, its security set-up ([Options].SASL) is for tests of clients, and it
// does not measure: the waits here poll. Only the end-to-end tests and the tests of examples may
// import it.
package cluster
