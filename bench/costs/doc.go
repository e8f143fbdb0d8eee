// Package costs divides a CPU profile of the workload ledger among the steps that a record takes:
// it fills the table of bench/COSTS.md.
//
// A sample belongs to the step of its innermost function that belongs to a step, with the calls of
// that function in libraries and in the runtime. A read of state is a step of the processor that
// reads. All other samples are the rest, and so is the scheduler between goroutines. So the sum is
// always the whole profile. A renamed function would move into the rest; a test finds the functions
// of every step in the present code.
package costs
