package transition

import (
	"encoding/json"
	"testing"
)

// TestRowsAreShown: tools that show the stores see names in lower case, as elsewhere.
func TestRowsAreShown(t *testing.T) {
	for want, row := range map[string]any{
		`{"state":"paid","version":2,"timestamp":3,"first":1,"before":["placed"]}`: Aggregate[string]{"paid", 2, 3, 1, []string{"placed"}},
		`{"state":"paid","version":1,"timestamp":3,"first":1}`:                     Aggregate[string]{"paid", 1, 3, 1, nil},
		`{"aggregate":"order-1","id":"s1"}`:                                        FactKey[string]{"order-1", "s1"},
		`{"id":"s1","from":"","to":"placed","version":1,"timestamp":3}`:            Fact[string]{"s1", "", "placed", 1, 3},
	} {
		if got, err := json.Marshal(row); err != nil || string(got) != want {
			t.Errorf("a row is shown as %s, %v, want %s", got, err, want)
		}
	}
}
