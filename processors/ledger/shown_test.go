package ledger

import (
	"encoding/json"
	"testing"
)

// TestRowsAreShown: tools that show the stores see names in lower case, as elsewhere.
func TestRowsAreShown(t *testing.T) {
	for want, row := range map[string]any{
		`{"ledger":"acct-1","id":"c1"}`: ContributionKey[string]{"acct-1", "c1"},
		`{"amounts":[1],"timestamp":2}`: Posting{Amounts: []int64{1}, Timestamp: 2},
		`{"amounts":[1],"timestamp":2,"corrects":"a","reverses":"b","reversed_by":"c"}`: Posting{
			Amounts: []int64{1}, Timestamp: 2, Corrects: "a", Reverses: "b", ReversedBy: "c",
		},
		`{"count":1,"amounts":[2]}`: Sum{1, []int64{2}},
	} {
		if got, err := json.Marshal(row); err != nil || string(got) != want {
			t.Errorf("a row is shown as %s, %v, want %s", got, err, want)
		}
	}
}
