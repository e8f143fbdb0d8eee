//go:build onceward_failpoints

package operations_test

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
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

// TestInstanceEndsBeforeItRepairs: rule 13.7. A committed transaction of the instance's first
// transactional id hangs in the output, and no marker of it is left. An incarnation asks the
// coordinator, initialises the id, which removes what the coordinator knows, and ends. The next one
// repairs by what is in the state directory. The negative control removes that: nothing is repaired.
func TestInstanceEndsBeforeItRepairs(t *testing.T) {
	t.Parallel()
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: map[string]string{unverified: "false"}, ShortLived: true})
	for name, removed := range map[string]bool{"repaired": false, "without the file!": true} {
		t.Run(name, func(t *testing.T) {
			s := newHangingScene(t, c)
			s.hang(s.own(0), "own-committed", ending{commit: true, known: []int32{2}, lost: []int32{0}})
			all := kadm.Offsets{}
			all.AddOffset(s.out, 2, -1, -1)
			if deleted, err := c.Admin().DeleteRecords(t.Context(), all); err != nil || deleted.Error() != nil {
				t.Fatal(err, deleted.Error())
			}
			dir := t.TempDir()
			life := func(repairs bool) *instance.App {
				return instance.Start(t, s.top, instance.On(c, "instance", txn.Config{
					StateDir: dir, Workers: 1, Instance: "instance", RepairTransactions: repairs, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
				}))
			}
			verdict := func(want string) func(txn.Status) bool {
				return func(status txn.Status) bool { return len(status.Hanging) == 1 && status.Hanging[0].Verdict == want }
			}
			l := life(false)
			l.Until("the finding", verdict("commit"))
			l.End()
			file := filepath.Join(dir, "transactions.json")
			if _, err := os.Stat(file); err != nil {
				t.Fatal(err)
			}
			if removed {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			l = life(true)
			defer l.End()
			if removed {
				l.Until("the verdict", verdict("unknown"))
				return
			}
			l.Until("the repair", func(status txn.Status) bool { return status.State == txn.Running && len(status.Hanging) == 0 })
			if got := s.visible(s.out); !slices.Equal(got, []string{"own-committed"}) {
				t.Errorf("after the repair readers see %q", got)
			}
		})
	}
}
