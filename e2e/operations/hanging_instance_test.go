//go:build onceward_failpoints

package operations_test

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/e2e/instance"
	"github.com/onceward/onceward/txn"
)

// TestInstanceBesideHangingTransaction: rule 13.7. An aborted transaction of the instance's first
// transactional id hangs in the output. The instance does not produce under that id, and its record
// never appears, also when the instance has repaired the transaction. The negative control leaves
// the look out: the next commit of the id makes the aborted record appear.
func TestInstanceBesideHangingTransaction(t *testing.T) {
	t.Parallel()
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: map[string]string{unverified: "false"}, ShortLived: true})
	for name, tc := range map[string]struct {
		broken          []string
		repairs, appear bool
	}{
		"found":             {},
		"repaired":          {repairs: true},
		"without the look!": {broken: []string{"look"}, appear: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHangingScene(t, c)
			s.hang(s.own(0), "own-aborted", ending{known: []int32{2}, lost: []int32{0}})
			cfg := instance.On(c, "instance", txn.Config{
				StateDir: t.TempDir(), Workers: 1, Instance: "instance", RepairTransactions: tc.repairs,
				Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
			})
			l := instance.Start(t, s.top, cfg.WithFailpoints(nil, tc.broken...))
			in := c.Client(t)
			n := int64(0)
			feed := func() {
				t.Helper()
				for range 5 { // rounds of both turns
					n += 20
					for i := range 20 {
						r := &kgo.Record{Topic: s.in, Key: fmt.Appendf(nil, "key-%d", i), Value: []byte("v")}
						if err := in.ProduceSync(t.Context(), r).FirstErr(); err != nil {
							t.Fatal(err)
						}
					}
					l.Until("the records", func(status txn.Status) bool { return status.Totals.Records == n })
				}
			}
			feed()
			if got := slices.Contains(s.visible(s.out), "own-aborted"); got != tc.appear {
				t.Errorf("the aborted record appears: %t, want %t", got, tc.appear)
			}
			if got, want := len(l.Status().Hanging), 1; !tc.repairs && !tc.appear && got != want {
				t.Errorf("%d transactions are told as hanging, want %d", got, want)
			}
			if got := len(s.visible(s.out)); tc.repairs && int64(got) != n {
				t.Errorf("after the repair readers see %d records, want %d", got, n)
			}
			l.End()
		})
	}
}
