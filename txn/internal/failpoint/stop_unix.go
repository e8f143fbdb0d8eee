//go:build onceward_failpoints && unix

package failpoint

import "syscall"

const stopSignal = syscall.SIGSTOP
