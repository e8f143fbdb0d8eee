// Package bench holds the measurements of the whole: workloads over the public API, and the tools
// that make and read load. The benchmarks in this package run on the embedded broker, whose cost is
// small and constant, so that they show the cost of the runtime.
//
// Package workload is what is measured, throughput and latency measure it; `onceward bench` is
// their command. Packages restore and state, each with a command in its directory run, measure the
// restore of state beside Kafka Streams, and the cost of state by its size. Package peers compares
// throughput, latency and recovery with Kafka Streams and with a plain loop. Packages load, topics
// and measure are what they share. COSTS.md says where a record's time goes, by package costs.
//
// The benchmarks of single parts are beside the code that they measure. The script hot runs those
// of a record's way with the ones of this package, compare compares two results of it (make
// bench-compare), and targets shows what has to reach a figure: that of the graph and that of the
// driver of tests, from targets.txt.
package bench
