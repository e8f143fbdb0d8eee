package txn_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/txn"
)

// TestOutageIsNotAStop: while the brokers are away the application says that it is reconnecting,
// and why, and not that it stops; then it goes on.
func TestOutageIsNotAStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 2, "in", "out")
		app, stop := start(t, countTopology(t), b.config(txn.Config{StateDir: t.TempDir(), Workers: 1}))
		feed(t, b, 200)
		b.read(t, "out", 200)
		waitFor(t, "the tasks", running(app, 2))
		state := func(want txn.State) func() bool {
			return func() bool {
				got := app.Status().State
				if got == txn.Stopping || got == txn.Stopped {
					t.Fatalf("in an outage it says that it is %s", got)
				}
				return got == want
			}
		}
		b.network.Host("app").Down()
		waitFor(t, "the outage to be said", state(txn.Reconnecting))
		if got := app.Status().Reason; got == "" {
			t.Error("the status does not say why")
		}
		if status, body := get(app, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "the application is reconnecting: ") {
			t.Errorf("/readyz answers %d %s", status, body)
		}
		b.network.Host("app").Up()
		waitFor(t, "it to go on", state(txn.Running))
		if got := app.Status().Reason; got != "" {
			t.Errorf("it runs and has the reason %q", got)
		}
		feed(t, b, 200)
		check(t, b.read(t, "out", 400), 20)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
