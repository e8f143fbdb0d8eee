package effect

import (
	"encoding/json"
	"testing"
)

// TestTimersAreShown: tools that show the store see names in lower case, as elsewhere.
func TestTimersAreShown(t *testing.T) {
	if got, err := json.Marshal(dueKey{At: 5, ID: "e1"}); err != nil || string(got) != `{"at":5,"id":"e1"}` {
		t.Errorf("the key of a timer is shown as %s, %v", got, err)
	}
}
