package pgtest

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
)

// Killed runs the test program as a child process, with more environment, until the child has
// killed itself ([KillSelf]). A child that ends in another way fails the test.
func Killed(t testing.TB, environment ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.Env = append(os.Environ(), environment...)
	process, err := cluster.Launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-process.Ended()
	if err := process.Err(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the child has ended by itself: %v\n%s", err, stderr.String())
	}
}

// KillSelf ends this process with SIGKILL, and does not return.
func KillSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal arrives
}
