// Package costs divides a CPU profile of the workload ledger among the steps that a record takes:
// it fills the table of bench/COSTS.md.
//
// A sample belongs to the step of its innermost function that is one of a step; what such a
// function calls in libraries and in the runtime is part of it. A read of state is a step of the
// processor that reads. Whatever no step names is told as the rest, and so is what the scheduler
// does between goroutines, so that the sum is always the whole profile. A function that gets
// another name would move into the rest; a test finds the functions of every step in the code as it
// is.
package costs
