// Package virtual runs Kafka clients against embedded brokers on virtual time: a network and
// brokers (kfake) inside a testing/synctest bubble, with the faults of a real network.
//
// # What it is for
//
// A test that waits for a session timeout of 45 s takes milliseconds, and no deadline in it depends
// on the speed of the machine. [Test] starts a bubble. [NewNetwork] makes a network in it,
// [NewKafka] the brokers, and [Host.Dial] is the dialer of a client on the host of that name: pass
// it to txn.Config.Dialer or kgo.Dialer.
//
//	virtual.Test(t, func(t *testing.T) {
//		network := virtual.NewNetwork(t, seed)
//		kafka := virtual.NewKafka(t, network, 1, kfake.SeedTopics(2, "in", "out"))
//		...
//	})
//
// # Contract
//
//   - Every connection carries Kafka frames, in order in each direction. A frame arrives after the
//     latency of the [Weather]. With the share that the weather says, a frame is lost together with
//     its connection.
//   - [Network.Add] installs the rules of package proxy: delay, hold, drop or cut the frames of an
//     API key.
//   - [Host.Cut] resets the connections of a host. [Host.Stall] lets nothing arrive in either
//     direction, without an error (a half-open connection or a stopped process), until
//     [Host.Resume]. [Host.Down] also refuses new connections, until [Host.Up]. [Host.Kill] is the
//     end of a process: its connections end, and what it has sent may still arrive. [Network.Block]
//     separates one host from one broker.
//   - A client that hangs up does not take back its requests: what it has sent reaches the broker.
//     This makes requests late instead of lost, which is what fencing has to bear.
//   - [Kafka.DelayMarkers] lets the coordinator answer EndTxn before the markers are written, as a
//     real broker does. [Kafka.Stop] makes a broker unreachable, its data kept; [Kafka.MoveLeaders]
//     and [Kafka.MoveCoordinators] move partitions and coordinators.
//   - [Kafka.LoseMarkers] lets markers be lost, so that transactions hang: their coordinators have
//     ended them, and partitions hold them open.
//   - The brokers refuse a batch whose transaction is over, as a real broker does. kfake alone
//     would open a transaction for it that nothing ends. They refuse to remove a static member
//     under a member id that it does not have; kfake alone would remove it.
//   - [Host.Listen] returns a listener for streams from other hosts, such as calls of HTTP, and
//     [Host.Dial] makes them. The weather, [Network.Block] and the faults of both hosts apply to a
//     stream. Rules do not, because a stream has no frames.
//   - All random decisions come from the seed. Each connection has a generator of its own, so that
//     one more frame on a connection does not change the decisions on the others. The scheduler of
//     Go, select and maps are still free: a seed names a schedule and does not replay it bit for
//     bit. Repeat a seed to see a failure again.
//   - [Network.Trace] has what happened, with the virtual time.
//
// # Concurrency
//
// Methods may be called from any goroutine of the bubble. Each connection and each stream has
// goroutines of its own. All of them end when the test ends, because the cleanup of [NewNetwork]
// ends the connections and the streams, and waits.
//
// # Limits
//
// kfake has no replication, no compaction in the background, and no log truncation. These need a
// real broker. Compression with zstd is not possible in a bubble: its decoder has goroutines that
// belong to the process. TLS works over these connections, but a frame can then not be read, and
// the rules see none.
package virtual
