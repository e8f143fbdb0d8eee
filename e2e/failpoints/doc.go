// Package failpoints makes programs that tests start fail at points of the runtime, or of a redrive. The environment of the program says where
// and how; package txn knows nothing of it.
//
// [Variable] arms points:
//
//	point=action[,skip=N][,times=N][;point=action...]
//
// where action is
//
//	kill             SIGKILL to the own process
//	freeze           SIGSTOP to the own process: whoever has armed it sends SIGCONT
//	error            the outcome of the request is not known
//	refuse           the broker refused. The same as error where the difference means nothing
//	delay:DURATION   the goroutine waits until DURATION is over or the context of the caller ends
//	stall:DURATION   the goroutine waits, whatever the context does
//
// skip lets the first N hits pass; after times (default 1) more, the point does nothing. Each hit that acts is written to standard error
// as "failpoint POINT ACTION", before it acts, so that a test can count what it has caused. [BrokenVariable] names mechanisms that do not
// work, separated by commas, for negative controls.
//
// [Arm] does the same to an application in the process of a test, where the test says what a kill and a freeze are.
//
// Programs need the build tag onceward_failpoints. Without it they run as long as both variables are empty.
package failpoints

const (
	// Variable arms points. The value "list" has [List] print the names of all.
	Variable = "ONCEWARD_FAILPOINT"
	// BrokenVariable names the mechanisms that do not work.
	BrokenVariable = "ONCEWARD_BROKEN"
)
