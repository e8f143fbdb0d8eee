package operations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/e2e/cluster"
	"github.com/onceward/onceward/txn/admin"
	"github.com/onceward/onceward/txn/security"
)

// TestHangingTransactions: committed and aborted transactions of the application and of somebody else, of which a broker has lost markers,
// are found, decided by evidence, and repaired, and readers of committed records see exactly what was committed.
func TestHangingTransactions(t *testing.T) {
	c := cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: map[string]string{unverified: "false"}, ShortLived: true})
	s := newHangingScene(t, c)
	// Each partition of the output is held by one transaction.
	wants := []struct {
		id, verdict string
		own         bool
		hangs       []string
	}{
		{s.hang(s.own(0), "own-committed", ending{commit: true, known: []int32{2}, lost: []int32{0}, offset: 7, changelog: true}), "commit", true,
			[]string{s.app + "-counts-changelog[0]", s.out + "[0]", "__consumer_offsets"}},
		{s.hang(s.own(1), "own-aborted", ending{known: []int32{2}, lost: []int32{0}}), "abort", true, []string{s.out + "[0]"}},
		{s.hang("somebody", "foreign-committed", ending{commit: true, known: []int32{2}, lost: []int32{1}}), "commit", false, []string{s.out + "[1]"}},
		{s.hang("another", "foreign-aborted", ending{known: []int32{2}, lost: []int32{1}}), "abort", false, []string{s.out + "[1]"}},
	}
	a := s.operator(s.Brokers(), security.Config{})
	open, err := a.Transactions(t.Context())
	if err != nil || open.Unasked != "" {
		t.Fatal(open.Unasked, err)
	}
	for _, want := range wants {
		i := slices.IndexFunc(open.Transactions, func(tx admin.Transaction) bool { return tx.ID == want.id })
		if i < 0 {
			t.Errorf("%s is not found", want.id)
			continue
		}
		tx := open.Transactions[i]
		if tx.Ongoing || tx.Verdict != want.verdict || tx.Own != want.own || len(tx.Partitions) != len(want.hangs) {
			t.Errorf("%+v, want %+v", tx, want)
			continue
		}
		for i, p := range tx.Partitions {
			if at := fmt.Sprintf("%s[%d]", p.Topic, p.Partition); !strings.HasPrefix(at, want.hangs[i]) {
				t.Errorf("%s hangs in %s, want %s", tx.ID, at, want.hangs[i])
			}
		}
	}
	if len(open.Transactions) != len(wants) {
		t.Errorf("%d are open, want %d: %+v", len(open.Transactions), len(wants), open.Transactions)
	}
	if _, stable := s.stable(); stable {
		t.Error("the offsets are stable before the repair")
	}
	if got := s.visible(s.out); !slices.Equal(got, []string{"foreign-committed", "own-committed"}) { // of partition 2
		t.Errorf("before the repair readers see %q", got)
	}

	dry, err := a.RepairTransactions(t.Context(), admin.RepairOptions{DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, stable := s.stable(); stable {
		t.Error("a dry run has repaired the offsets")
	}
	report, err := a.RepairTransactions(t.Context(), admin.RepairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(dry.Transactions) != len(wants) || len(report.Transactions) != len(wants) {
		t.Errorf("the dry run has %d transactions, the repair %d", len(dry.Transactions), len(report.Transactions))
	}
	for i, done := range report.Transactions {
		if done.Left != "" || !slices.Equal(done.Written, dry.Transactions[i].Written) {
			t.Errorf("%s: left %q, written %v, and the dry run said %v", done.ID, done.Left, done.Written, dry.Transactions[i].Written)
		}
	}
	if got := s.visible(s.out); !slices.Equal(got, []string{"foreign-committed", "foreign-committed", "own-committed", "own-committed"}) {
		t.Errorf("after the repair readers see %q", got)
	}
	if got := s.visible(s.app + "-counts-changelog"); !slices.Equal(got, []string{"own-committed"}) {
		t.Errorf("after the repair the changelog has %q", got)
	}
	if at, stable := s.stable(); !stable || at != 7 {
		t.Errorf("after the repair the offset is %d, stable %t", at, stable)
	}
	left, err := a.Transactions(t.Context())
	if err != nil || len(left.Transactions) != 0 {
		t.Errorf("after the repair %+v are open, %v", left.Transactions, err)
	}
	// The producers go on.
	for i, id := range []string{s.own(0), "somebody"} {
		s.hang(id, fmt.Sprint("next-", i), ending{commit: true, known: []int32{0, 1}})
	}
	if got := s.visible(s.out); len(got) != 8 {
		t.Errorf("after the next transactions readers see %q", got)
	}
}
