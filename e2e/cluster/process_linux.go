package cluster

import "syscall"

// dieWithParent makes the kernel kill the child when the thread that started it ends. What the
// caller wants besides is kept.
//
// The child stays in this process's group, so that an interrupt from the terminal, or a runner that
// kills the whole group, reaches it too.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
