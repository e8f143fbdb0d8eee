// Package demo is the payment capture drill: it generates events with everything that goes wrong in
// life, runs a pipeline over them in a process of its own, kills that process again and again while
// its transactions are open, and compares what came out with a recomputation from the generated
// events.
//
// The recomputation ([recount]) shares no code with the pipeline: it knows the events as the
// generator made them, keeps plain maps, and decodes nothing but outputs. With the build tag
// onceward_broken_dedupe the pipeline passes duplicates on; the demo then has to fail, which shows
// that the comparison can.
package demo
