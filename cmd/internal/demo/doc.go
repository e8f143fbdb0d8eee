// Package demo is the payment capture drill. It generates events with all kinds of faults, and runs
// a pipeline over them in another process. It kills that process again and again while its
// transactions are open. Then it compares the output with a recomputation from the generated
// events.
//
// The recomputation ([recount]) shares no code with the pipeline: it knows the events as the
// generator made them, keeps plain maps, and decodes nothing but outputs. With the build tag
// onceward_broken_dedupe the pipeline passes duplicates on; the demo then has to fail, which shows
// that the comparison can.
package demo
