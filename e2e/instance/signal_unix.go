//go:build unix

package instance

import "syscall"

// The signals that freeze a process, and end that.
const (
	stopSignal     = syscall.SIGSTOP
	continueSignal = syscall.SIGCONT
)
