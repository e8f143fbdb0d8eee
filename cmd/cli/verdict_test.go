package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/txn/admin"
)

// TestVerdict: the worst of all outcomes decides about the exit code, in whatever order they come.
func TestVerdict(t *testing.T) {
	equal, unjudged := admin.Verification{}, admin.Verification{Unjudged: 1}
	differs := admin.Verification{Differences: 1}
	failed := admin.Verification{Err: errors.New("the network")}
	skipped := admin.Verification{Skipped: admin.ErrFromSource}
	table := admin.Verification{Differences: 1}
	table.Task.Subtopology = "globals/rates"
	lost := admin.Verification{Err: fmt.Errorf("%w: it is gone", admin.ErrChangelog)}
	for _, tc := range []struct {
		outcomes []admin.Verification
		code     int
	}{
		{[]admin.Verification{equal, equal}, codeDone},
		{[]admin.Verification{equal, skipped}, codeDone},
		{[]admin.Verification{skipped}, codeFailed},
		{[]admin.Verification{skipped, unjudged}, codeFailed},
		{[]admin.Verification{table, skipped, unjudged}, codeIntegrity},
		{[]admin.Verification{equal, unjudged}, codeFailed},
		{[]admin.Verification{failed, equal}, codeFailed},
		{[]admin.Verification{lost, failed}, codeIntegrity},
		{[]admin.Verification{failed, lost}, codeIntegrity},
		{[]admin.Verification{differs, failed}, codeIntegrity},
		{[]admin.Verification{unjudged, differs}, codeIntegrity},
	} {
		err := verdict(tc.outcomes)
		if code := codeOf(err); err == nil && tc.code != codeDone || err != nil && code != tc.code {
			t.Errorf("%+v: %v, want the exit code %d", tc.outcomes, err, tc.code)
		}
	}
}

// TestBalancesVerdict: a difference weighs more than what could not be checked, and damage more
// than any other reason for that.
func TestBalancesVerdict(t *testing.T) {
	equal := checkedPartition{Checked: ledger.Checked{Ledgers: 2}}
	differs := checkedPartition{Checked: ledger.Checked{Ledgers: 2, Differences: 1}}
	failed := checkedPartition{err: errors.New("the disk")}
	damaged := checkedPartition{err: fmt.Errorf("%w: a row", state.ErrCorrupt)}
	for _, tc := range []struct {
		outcomes []checkedPartition
		code     int
		says     string
	}{
		{[]checkedPartition{equal, equal}, codeDone, ""},
		{[]checkedPartition{failed, equal}, codeFailed, "1 of 2 partitions could not be checked, one of them because: the disk"},
		{[]checkedPartition{failed, damaged}, codeIntegrity, "2 of 2 partitions could not be checked"},
		{[]checkedPartition{damaged, failed}, codeIntegrity, "because: stored state is corrupt: a row"},
		{[]checkedPartition{failed, differs, equal}, codeIntegrity, "1 of 4: the balance is not what"},
	} {
		err := balancesVerdict(tc.outcomes)
		if code := codeOf(err); err == nil && tc.code != codeDone || err != nil && (code != tc.code || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%+v: %v, want the exit code %d", tc.outcomes, err, tc.code)
		}
	}
}
