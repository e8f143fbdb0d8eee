// Package bench holds the measurements of the whole: workloads over the public API, and the tools
// that make and read load. The benchmarks in this package run on the embedded broker, whose cost is
// small and constant, so that they show the cost of the runtime.
//
// Package workload is what is measured, throughput and latency measure it; `onceward-bench` is
// their command. Packages restoretime and statecost, each with a command in its directory run,
// measure the restore of state beside Kafka Streams, and the cost of state by its size. Package
// comparison compares throughput, latency and recovery with Kafka Streams and with a plain loop.
// Packages load, benchtopics and measure are what they share. COSTS.md says where a record's time
// goes, by package costs.
//
// The benchmarks of single parts are beside the measured code. The script hot runs those of a
// record's way with the ones of this package. compare compares two of its results (make
// bench-compare). targets shows the benchmarks with a target in targets.txt: that of the graph and
// that of the test driver.
package bench
