//go:build onceward_failpoints

package txn_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/txn"
)

// instances returns what the console of an instance shows of each, by its name.
func (s *peerScene) instances(asked string) map[string]consoleInstance {
	s.t.Helper()
	document, _ := shownBy(s.t, s.apps[asked])
	out := map[string]consoleInstance{}
	for _, i := range document.Instances {
		out[i.Instance] = i
	}
	return out
}

// TestConsoleShowsAllInstances: the page of any instance has what each of them reports, and where
// the plan has each task.
func TestConsoleShowsAllInstances(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		secret := secretFile(t, "a secret of all instances")
		s := pairOf(t, func(_ string, cfg *txn.Config) { cfg.Peers.SecretFile = secret })
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		for asked := range s.apps {
			document, _ := shownBy(t, s.apps[asked])
			if document.Instance != asked || document.Alone != "" || document.Instances[0].Instance != asked {
				t.Errorf("the page of %s is that of %q (%s), and begins with %q", asked, document.Instance, document.Alone, document.Instances[0].Instance)
			}
			found := s.instances(asked)
			if len(found) != 2 {
				t.Fatalf("%s shows %v", asked, found)
			}
			for name, i := range found {
				want := map[bool]string{true: "here", false: "answering"}[name == asked]
				if i.State != want || i.Report == nil {
					t.Fatalf("%s shows %s as %s (%s), want %s with a report", asked, name, i.State, i.Why, want)
				}
				records := 0.0
				for _, r := range i.Report.Counts.Records {
					records += r.Count
				}
				if status := i.Report.Status; status.Instance != name || len(status.Tasks) != 2 || records != 2 || i.Report.Counts.Commits == 0 {
					t.Errorf("%s shows of %s the status %+v with %g records", asked, name, status, records)
				}
			}
			owners := map[string]int{}
			for _, p := range document.Planned {
				owners[p.Instance]++
			}
			if owners["one"] != 2 || owners["two"] != 2 {
				t.Errorf("by the plan that %s shows, the instances have %v tasks", asked, owners)
			}
		}
	})
}

// TestConsoleWhileAnInstanceIsAway: an instance whose packets are lost is away, with its last report
// and since when. It does not hold up the page, and answers again when it can.
func TestConsoleWhileAnInstanceIsAway(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.instances("one")
		time.Sleep(2 * time.Second)
		s.cut()
		cut := time.Now()
		s.await("that it is away", func() bool { return s.instances("one")["two"].State == "away" })
		began := time.Now()
		two := s.instances("one")["two"]
		if took := time.Since(began); took != 0 {
			t.Errorf("the page waits %s for an instance that is away", took)
		}
		if two.Why == "" || two.Report == nil || len(two.Report.Status.Tasks) != 2 || two.Since.Before(cut) {
			t.Errorf("two is shown as %+v", two)
		}
		s.network.Unblock(s.names["one"], s.names["two"])
		s.network.Unblock(s.names["two"], s.names["one"])
		s.await("that it answers", func() bool { return s.instances("one")["two"].State == "answering" })
	})
}

// TestConsoleAfterADeath: an instance that is gone is shown as such, and its tasks where they are.
func TestConsoleAfterADeath(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, nil)
		s.instances("one")
		s.hosts["two"].Kill()
		s.abandon("two")
		s.await("all tasks at the one that lives", func() bool { return s.has("one", 4) })
		found := s.instances("one")
		if two := found["two"]; two.State != "left" || two.LeftAt.IsZero() || two.Report != nil {
			t.Errorf("two is shown as %+v", two)
		}
		if one := found["one"]; len(one.Report.Status.Tasks) != 4 {
			t.Errorf("one is shown with %d tasks", len(one.Report.Status.Tasks))
		}
	})
}

// TestConsoleWithoutPeers: the page shows one instance, and says why.
func TestConsoleWithoutPeers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newPeerScene(t)
		for _, instance := range []string{"one", "two"} {
			s.start(instance, func(cfg *txn.Config) { cfg.Peers.Listen = txn.PeersOff })
		}
		s.await("two tasks each", s.balanced)
		document, _ := shownBy(t, s.apps["one"])
		if len(document.Instances) != 1 || !strings.Contains(document.Alone, "Peers are off") {
			t.Errorf("the page shows %+v (%s)", document.Instances, document.Alone)
		}
	})
}

// TestConsoleShowsRows: with contents, the page of any instance has the row of a key from the
// instance that has it. By default it has no row.
func TestConsoleShowsRows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := pairOf(t, func(_ string, cfg *txn.Config) { cfg.Console.Contents = true })
		s.feedAll()
		s.await("the counts", func() bool { return s.atEnd(1, "one", "two") })
		for asked, app := range s.apps {
			for p := range int32(4) {
				owner, _ := s.ownerOf(p)
				status, text := get(app, fmt.Sprintf("/console/rows/counts?key=p%d&partition=%d", p, p))
				if row := fmt.Sprintf(`"rows":[{"key":"p%d","value":"1"}]`, p); status != http.StatusOK || !strings.Contains(text, row) || !strings.Contains(text, fmt.Sprintf(`"instance":%q`, owner)) {
					t.Errorf("%s answers %d %s, want %s of %s", asked, status, text, row, owner)
				}
			}
			if document, _ := shownBy(t, app); !slices.Equal(document.Stores, []string{"counts"}) {
				t.Errorf("%s offers the stores %q", asked, document.Stores)
			}
		}
	})
	document, _ := consoleOf(t, txn.Config{})
	status, _ := get(letteredApp(t, txn.Console{}), "/console/rows/counts?key=p0&partition=0")
	if status != http.StatusForbidden || len(document.Stores) > 0 {
		t.Errorf("by default the page answers %d, and offers the stores %q", status, document.Stores)
	}
}
