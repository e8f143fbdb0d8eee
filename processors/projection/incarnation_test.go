package projection_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// life reads the incarnation from the time of a record, in seconds.
func life(r event) (int64, error) {
	if r.Timestamp == 0 {
		return 0, schemas.Reason("no life")
	}
	return r.Timestamp / 1000, nil
}

// sendLives is sendAt with the incarnation before the version, as in 1.2:text.
func sendLives(d *processortest.Driver, events ...string) {
	for _, e := range events {
		incarnation, rest, _ := strings.Cut(e, ".")
		sendAt(d, int(incarnation[0]-'0'), rest)
	}
}

// TestD6Incarnations: a higher incarnation begins anew, with or without the delete of the one before.
func TestD6Incarnations(t *testing.T) {
	d := newWaiting(t, wide, projection.Incarnation(life))
	sendAt(d, 10, "1:a", "2:-")
	sendAt(d, 11, "1:b")
	sendAt(d, 10, "1:a", "3:x")
	sendAt(d, 11, "2:c")
	d.Want("changes", `{"version":1,"incarnation":10,"value":["a"]}`,
		`{"version":2,"incarnation":10,"deleted":true,"value":null}`, `{"version":1,"incarnation":11,"value":["b"]}`,
		`{"version":2,"incarnation":11,"value":["b","c"]}`)
	d.WantCounts("texts.applied=4 texts.stale=2")
	// The next life reveals a gap in itself alone; what waits for an earlier one becomes stale.
	sendAt(d, 11, "4:z")
	sendAt(d, 12, "2:e")
	d.Want("repairs", `{"from":3,"to":3,"incarnation":11}`, `{"from":1,"to":1,"incarnation":12}`)
	sendAt(d, 12, "1:d")
	d.Want("changes", `{"version":1,"incarnation":12,"value":["d"]}`, `{"version":2,"incarnation":12,"value":["d","e"]}`)
	noneWaits(t, d)
	if n := d.Count("texts", "stale"); n != 3 {
		t.Errorf("%d records are stale", n)
	}
	d.Pipe("events", "k", `"a"`, topologytest.Header("version", "1"), topologytest.At(time.UnixMilli(0)))
	d.WantDeadLetter("texts", topology.Validation, "no life")
}

// TestD6IncarnationWithoutFirst: the first record of an incarnation is applied whatever its version is.
func TestD6IncarnationWithoutFirst(t *testing.T) {
	d := newRouted(t, false, projection.Incarnation(func(r event) (int64, error) { return -r.Timestamp, nil }))
	at := func(ms int64) topologytest.PipeOption { return topologytest.At(time.UnixMilli(ms)) }
	for i, ms := range []int64{3, 3, 2, 3} {
		d.Pipe("events", "k", fmt.Sprintf("%q", fmt.Sprint(i)), topologytest.Header("version", fmt.Sprint(9+i)), at(ms))
	}
	d.Want("changes", `{"version":9,"incarnation":-3,"value":["0"]}`, `{"version":10,"incarnation":-3,"value":["0","1"]}`,
		`{"version":11,"incarnation":-2,"value":["2"]}`)
	d.WantCounts("texts.applied=3 texts.stale=1")
	if got := hex.EncodeToString([]byte(d.Rows("texts", 0)["k"])); got !=
		"01"+"0001"+"02"+"000000000000000b"+"fffffffffffffffe"+hex.EncodeToString([]byte(`["2"]`)) {
		t.Errorf("the row is %s", got)
	}
}
