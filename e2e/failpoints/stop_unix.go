//go:build onceward_failpoints && unix

package failpoints

import "syscall"

const stopSignal = syscall.SIGSTOP
