package inbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestClauses is requirement K3: the contract follows from the options.
func TestClauses(t *testing.T) {
	for name, test := range map[string]struct {
		opts  []inbox.Option
		texts []string
	}{
		"plain":    {nil, []string{"have the same key", "with the same payload", "without a limit"}},
		"globally": {[]inbox.Option{inbox.Globally(schemas.String(), schemas.JSON[Payment]())}, []string{"may have any key"}},
		"retained": {[]inbox.Option{inbox.Retain(time.Hour)}, []string{"is late"}},
		"missing":  {[]inbox.Option{inbox.AllowMissingID()}, []string{"as often as it comes"}},
	} {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		routed(b, test.opts...)
		topo, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		for _, c := range topo.Clauses() {
			said.WriteString(c.Text + "\n")
		}
		for _, text := range test.texts {
			if !strings.Contains(said.String(), text) {
				t.Errorf("%s: the contract does not say %q:\n%s", name, text, said.String())
			}
		}
		if name == "retained" && strings.Contains(said.String(), "without a limit") {
			t.Errorf("%s: the contract says too much:\n%s", name, said.String())
		}
	}
}
