//go:build !linux

package cluster

import "syscall"

// dieWithParent has nothing to offer here: other systems have no signal on the parent's death. The
// child stays in this process's group, so that at least an interrupt from the terminal reaches it.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
