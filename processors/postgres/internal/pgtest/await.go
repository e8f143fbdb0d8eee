package pgtest

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// awaitMax bounds a wait for what is bound to happen.
const awaitMax = 3 * time.Minute

// Await waits for a condition. what completes the message of the failure: "it does not happen that
// ...".
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	patience, cancel := context.WithTimeout(t.Context(), awaitMax)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-patience.Done():
			all := make([]byte, 1<<20)
			t.Logf("%s", all[:runtime.Stack(all, true)]) // what the code under test waits for
			t.Fatal("it does not happen that " + what)
		}
	}
}
