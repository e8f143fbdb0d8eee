package cluster

import "syscall"

// dieWithParent makes the kernel kill the child when the thread that started it ends.
//
// The child stays in this process's group, so that an interrupt from the terminal, or a runner that kills the
// whole group, reaches it too.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
