// Package bench holds the measurements of the whole: workloads over the public API, and the tools that make and read load. The
// benchmarks in this package run on the embedded broker, whose cost is small and constant, so that they show the cost of the
// runtime.
//
// The tools are in directories of their own, each with a command in its directory run: latency measures an application under
// steady load, restore the restore of state beside Kafka Streams, state the cost of state by its size. Packages load and measure
// are what they share.
package bench
