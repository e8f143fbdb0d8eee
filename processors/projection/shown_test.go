package projection

import (
	"encoding/json"
	"testing"

	"github.com/onceward/onceward/topology"
)

// TestWaitingRowsAreShown: tools that show the stores see names in lower case, as elsewhere.
func TestWaitingRowsAreShown(t *testing.T) {
	at := position{Version: 3}
	headers := []topology.Header{{Key: "h", Value: []byte{1}}}
	kept := topology.Some(topology.Deferred{Topic: "orders", Partition: 0, Offset: 7, Mode: topology.Replay})
	for want, row := range map[string]any{
		`{"key":"k","at":{"version":3}}`:                                                        parkedKey[string]{"k", at},
		`{"key":"k","at":{"incarnation":2,"version":3}}`:                                        parkedKey[string]{"k", position{2, 3}},
		`{"key":"k","definition":2}`:                                                            definedKey[string]{"k", 2},
		`{"records":1,"highest":{"version":3},"since":5}`:                                       queue{Records: 1, Highest: at, Since: 5},
		`{"value":"v","timestamp":5}`:                                                           parked[string]{Value: "v", Timestamp: 5},
		`{"value":"v","timestamp":5,"headers":[{"key":"h","value":"AQ=="}]}`:                    parked[string]{Value: "v", Timestamp: 5, Headers: headers},
		`{"value":"v","timestamp":5,"topic":"orders","partition":0,"offset":7,"mode":"REPLAY"}`: parked[string]{Value: "v", Timestamp: 5, Deferred: kept},
		`{"value":"v","timestamp":5,"mode":"LIVE"}`:                                             parked[string]{Value: "v", Timestamp: 5, Deferred: topology.Some(topology.Deferred{})},
	} {
		if got, err := json.Marshal(row); err != nil || string(got) != want {
			t.Errorf("a row is shown as %s, %v, want %s", got, err, want)
		}
	}
}
