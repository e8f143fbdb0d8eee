package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/onceward/onceward/txn/admin"
)

// TestForensicVerdict: a difference that shows nothing is told as what it is, and never takes the
// place of one that shows something.
func TestForensicVerdict(t *testing.T) {
	first := &admin.ForensicDifference{Kind: admin.Missing, Key: []byte("k")}
	same := admin.ForensicStore{Task: "in_0", Store: "same", Rows: 3}
	differs := admin.ForensicStore{Task: "in_0", Store: "differs", Rows: 3, Differences: 1, First: first}
	unknown := admin.ForensicStore{Task: "in_1", Store: "unknown", Rows: 3, Differences: 1, First: first, NotComparable: "it is compacted"}
	for name, test := range map[string]struct {
		stores []admin.ForensicStore
		says   string
		alarm  bool
	}{
		"nothing": {[]admin.ForensicStore{same}, "", false},
		"unknown": {[]admin.ForensicStore{same, unknown}, "1 of 2 stores cannot be compared", false},
		"both":    {[]admin.ForensicStore{unknown, differs}, "1 of 2 stores: ", true},
	} {
		report := admin.ForensicReport{Stores: test.stores}
		err := forensicVerdict(report)
		if (err == nil) != (test.says == "") || err != nil && !strings.HasPrefix(err.Error(), test.says) ||
			errors.Is(err, errNotMade) != test.alarm {
			t.Errorf("%s: %v", name, err)
		}
		text := forensicText(rowEncoder{}, report)
		if strings.Contains(text, "it is compacted") != (test.stores[0].NotComparable != "" || test.says != "" && !test.alarm) {
			t.Errorf("%s: the text is\n%s", name, text)
		}
	}
}
