// Package leaktest looks for goroutines that outlive tests. It is goleak with patience: goleak
// looks for less than half a second, which a busy machine can need for what was closed just now,
// such as the readers of connections.
//
// A goroutine that does not end is found as by goleak, only later. What a package's tests may leave
// behind is said with goleak's options.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Patience is how long a goroutine may take to end. It only decides how long a leak takes to show.
const Patience = 30 * time.Second

// Main runs a package's tests, looks for what they have left running, and exits the process. Call
// it from TestMain, which has nothing to do afterwards. Tests that fail may well leave something
// running, so it looks only after a success.
func Main(m *testing.M, leaks ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		if err := Find(Patience, leaks...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines outlive the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// None fails the test if goroutines go on that the options do not name; goleak.IgnoreCurrent names
// those that were there before.
func None(t testing.TB, leaks ...goleak.Option) {
	t.Helper()
	if err := Find(Patience, leaks...); err != nil {
		t.Error(err)
	}
}

// Find returns an error that has the stacks of the goroutines that are still there when the
// patience is over. It looks once, as goleak does, when that is zero.
func Find(patience time.Duration, leaks ...goleak.Option) (err error) {
	deadline := time.Now().Add(patience)
	for err = goleak.Find(leaks...); err != nil && time.Now().Before(deadline); err = goleak.Find(leaks...) {
	}
	return err
}
