//go:build onceward_failpoints && unix

package instance

import "syscall"

const stopSignal = syscall.SIGSTOP
