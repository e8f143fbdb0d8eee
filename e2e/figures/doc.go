// Package figures measures on real Kafka what users feel of the runtime's speed: latency under
// load, and how long partitions stand still when an instance is killed, replaced or restarted. Its
// tests hold the last three to generous bounds; `make figures` measures all four at length and
// prints a table and a JSON file.
//
// Everything is seen from outside: instances are processes of their own, a kill is SIGKILL, and a
// partition goes on when a read_committed reader has an output whose event was due after the kill.
// Package bench/latency does the measuring; the load never pauses. At the end of each scenario
// every event must have come exactly once, so that no figure is bought with a loss.
//
// TestWorkloads and TestEvidence give a broker to package bench/throughput. TestRestore, TestPeers
// and TestSweep give one to packages bench/restoretime and bench/comparison, for comparisons with
// Kafka Streams. The tests check only the results of these packages, and no times.
//
// TestFailover and TestCopyWithKills make processes fail many times and have reports of their own:
// see `make failover` and `make copy`.
//
// # Scenarios
//
//   - latency: one instance under steady load, on a broker that has run it for two minutes. Target
//     at 10,000 events/s: p50 8 ms, p99 50 ms.
//   - restart: one instance is killed and started again at once with its identity and state.
//     Target: the first new commit within 1 s of the start plus the replay of the tail.
//   - takeover: one of two instances is killed and stays away. Target: its partitions go on within
//     the session timeout plus 2 s plus the restore. The transactions that it left open end by
//     their own timeout, which therefore has to be the shorter one.
//   - failover: an instance fails again and again while others watch it, and without. It is killed,
//     its host vanishes, it is frozen and comes back, or a broker is killed with it. Some scenarios
//     have standbys. Targets after kill -9: readers of the output see nothing for at most 0.5 s,
//     and all partitions go on within 2 s. `make failover` has its own report, which also says
//     where the time goes.
//   - rolling: three instances that remain members over a restart are restarted one after the
//     other. Target: no partition pauses for more than 2 s.
//
// The bounds that the tests assert are no targets. They are wide enough for a slow and busy
// machine, and narrow enough to notice that a restart has waited for a transaction timeout or a
// session.
package figures
