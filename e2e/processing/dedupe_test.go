//go:build unix

package processing

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/txn"
)

// TestConcurrentCopies is requirements C1 and C9: three copies of each payment, in several
// partitions and under several keys, while instances come and go and one loses its state. Each is
// accepted once, every other copy is called what it is, and the balances are those of what was
// accepted. Rows of the failure matrix: concurrent duplicate on two instances; lost state
// directory.
func TestConcurrentCopies(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		const payments = 600
		e := newCopiesScene(t, c, inbox.Forever(), inbox.Globally(schemas.String(), schemas.JSON[payment]()))
		dirs := []string{t.TempDir(), t.TempDir()}
		worked := func(s txn.Status) bool { return s.Totals.Records > 0 }
		one := e.start(dirs[0])
		e.feed(copiesOf(0, payments/4))
		one.Until("work at the first instance", worked) // before a second one can take all of it
		two := e.start(dirs[1])
		e.feed(copiesOf(payments/4, 3*payments/8))
		two.Until("tasks at the second instance", func(s txn.Status) bool {
			return slices.ContainsFunc(s.Tasks, func(t txn.TaskStatus) bool { return t.State == txn.TaskRunning })
		})
		e.feed(copiesOf(3*payments/8, payments/2))
		e.until(3 * payments / 2)
		if err := one.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dirs[0]); err != nil {
			t.Fatal(err)
		}
		e.feed(copiesOf(payments/2, 3*payments/4))
		one = e.start(dirs[0])
		// Copies of what was accepted long ago, and of new payments.
		e.feed(copiesOf(0, payments/4))
		e.feed(copiesOf(3*payments/4, payments))
		two.Until("work at the second instance", worked)
		out := e.until(3*payments + 3*payments/4)

		accepted := map[string]payment{}
		want := map[string]int64{}
		for _, r := range out[e.accepted] {
			p := e.decode(r)
			if _, twice := accepted[p.ID]; twice {
				t.Errorf("%s is accepted twice", p.ID)
			}
			accepted[p.ID] = p
			want[string(r.Key)] += p.Amount
		}
		if len(accepted) != payments {
			t.Errorf("%d payments are accepted, want %d", len(accepted), payments)
		}
		for topic, same := range map[string]bool{e.duplicates: true, e.conflicts: false} {
			for _, r := range out[topic] {
				if p := e.decode(r); (p == accepted[p.ID]) != same {
					t.Errorf("%+v is in %s, and %+v is accepted", p, topic, accepted[p.ID])
				}
			}
		}
		e.checkBalances(want)
		for _, a := range []*instance.App{one, two} {
			if err := a.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

// checkBalances compares the last balance of each account. A balance is written in the transaction
// of what was accepted.
func (e *copiesScene) checkBalances(want map[string]int64) {
	e.t.Helper()
	got := map[string]int64{}
	for _, r := range e.Records(e.t, e.balances) {
		var b ledger.Balance
		if err := json.Unmarshal(r.Value, &b); err != nil {
			e.t.Fatal(err)
		}
		got[string(r.Key)] = b.Amounts[0]
	}
	if !maps.Equal(got, want) {
		e.t.Errorf("the balances are %v, want %v", got, want)
	}
}

// TestRetentionIsCompared: an inbox whose dedupe window is shorter than the retention of its topic
// keeps the application from starting, and nothing is created. If that is tolerated, the log has a
// warning. Requirement C8.
func TestRetentionIsCompared(t *testing.T) {
	t.Parallel()
	cluster.Scenario(t, func(t *testing.T, c *cluster.Cluster) {
		e := newCopiesScene(t, c, inbox.Retain(time.Hour), inbox.Globally(schemas.String(), schemas.JSON[payment]()))
		const finding = "retention.ms is 604800000 and has to be at most 3600000: node inbox recognises a record for 1h0m0s"
		err := e.start(t.TempDir()).Wait()
		if err == nil || !strings.Contains(err.Error(), "topic "+e.in+": "+finding) {
			t.Errorf("the application ended with %v", err)
		}
		names, err := c.Admin().ListTopics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names.Names() {
			if strings.HasPrefix(name, e.application+"-") {
				t.Errorf("%s was created", name)
			}
		}
		e.options = append(e.options, inbox.TolerateLongerTopics())
		a := e.start(t.TempDir())
		e.feed(copiesOf(1, 2))
		e.until(3)
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(e.log.String(), finding) {
			t.Errorf("the log says nothing:\n%s", e.log)
		}
	})
}
