package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/onceward/onceward/txn/admin"
)

// TestVerdict: the worst of all outcomes decides about the exit code, in whatever order they come.
func TestVerdict(t *testing.T) {
	equal, unjudged := admin.Verification{}, admin.Verification{Unjudged: 1}
	differs := admin.Verification{Differences: 1}
	failed := admin.Verification{Err: errors.New("the network")}
	lost := admin.Verification{Err: fmt.Errorf("%w: it is gone", admin.ErrChangelog)}
	for _, tc := range []struct {
		outcomes []admin.Verification
		code     int
	}{
		{[]admin.Verification{equal, equal}, codeDone},
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
