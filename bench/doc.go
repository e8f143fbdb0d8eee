// Package bench holds the measurements of the whole: workloads over the public API, and the tools that make and read load. The
// benchmarks in this package run on the embedded broker, whose cost is small and constant, so that they show the cost of the runtime.
package bench
