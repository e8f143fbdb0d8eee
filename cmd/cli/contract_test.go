package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestContractOfFailures is requirement K3: the contract does not promise an order that records
// lose when they fail.
func TestContractOfFailures(t *testing.T) {
	for name, test := range map[string]struct {
		action topology.Action
		option topology.SourceOption
		says   string
	}{
		"retry": {topology.Retry, topology.StartEarliest(), ""},
		"delay": {
			topology.Delay, topology.RetryTopics(time.Second, time.Minute), "is delayed is overtaken by later ones, those of its key included\n" +
				"in: a record that is delayed waits 1s, then 1m0s before it is tried again, in topics of its own",
		},
		"park": {topology.Park, topology.ParkKeys(), "are overtaken by those of other keys"},
	} {
		policy := topology.Policy{Action: test.action, Attempts: 3, Then: topology.Stop}
		if test.action != topology.Delay {
			policy.Backoff, policy.BackoffMax = time.Second, time.Second
		}
		b := topology.NewBuilder("app", topology.OnError(topology.Transient, policy))
		text := topology.Topic("in", schemas.String(), schemas.String())
		topology.From(b, text, test.option).Into(topology.Topic("out", schemas.String(), schemas.String()))
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		order := ""
		for _, s := range contractOf(top).Sections {
			if s.Title == "out of order" {
				order = strings.Join(s.Lines, "\n")
			}
		}
		if !strings.Contains(order, "in the order of their offsets") || strings.Contains(order, "overtaken") != (test.says != "") ||
			!strings.Contains(order, test.says) {
			t.Errorf("%s: it says\n%s", name, order)
		}
	}
}
