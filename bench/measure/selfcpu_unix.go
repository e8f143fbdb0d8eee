//go:build unix

package measure

import (
	"syscall"
	"time"
)

// SelfCPU is the processor time of this process so far, its own and that of the kernel for it.
func SelfCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
