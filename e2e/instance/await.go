package instance

import (
	"errors"
	"testing"
	"time"
)

// Patience bounds every wait. It only decides how long a failure takes to show.
const Patience = 90 * time.Second

// Await waits until missing returns no error any more. That is called again at once, so it has to
// take a moment by itself. alive returns an error if there is no life that could still bring it
// about; Await fails the test then, and after [Patience].
func Await(t testing.TB, what string, alive, missing func() error) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	for {
		err := alive() // before the look: what it has come to counts
		why := missing()
		switch {
		case why == nil:
			return
		case err != nil:
			t.Fatalf("before %s: %v\n%v", what, err, why)
		case time.Now().After(deadline):
			t.Fatalf("%s: not within %s:\n%v", what, Patience, why)
		}
	}
}

// pollInterval is how often something is looked at that is waited for.
const pollInterval = 20 * time.Millisecond

// await waits for something that a life has to come to, and says else what there is.
func await(t testing.TB, what string, alive func() error, is func() bool, now func() string) {
	t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	Await(t, what, alive, func() error {
		if is() {
			return nil
		}
		<-tick.C
		return errors.New("there is " + now())
	})
}

// Closed reports whether a channel is, on which nothing is sent.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
