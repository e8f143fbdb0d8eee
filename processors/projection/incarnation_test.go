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

// TestD6Incarnations: a higher incarnation begins anew, with or without the delete of the one
// before.
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

// TestD6IncarnationWithoutFirst: the first record of an incarnation is applied whatever its version
// is.
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

// sizeOfLife reads the incarnation from the length of the text: three letters are life 0.
func sizeOfLife(r event) (int64, error) { return int64(len(r.Value.Or(""))) - 3, nil }

// TestD6IncarnationsBelowZero: what has waited for a life before 0, without a row, is stale when
// life 0 begins.
func TestD6IncarnationsBelowZero(t *testing.T) {
	d := newWaiting(t, limits(projection.AcceptLatest), projection.Incarnation(sizeOfLife))
	sendAt(d, 10, "3:xx", "2:aaa", "1:aaa")
	noneWaits(t, d)
	want := []string{`{"version":1,"value":["aaa"]}`, `{"version":2,"value":["aaa","aaa"]}`}
	d.Want("changes", want...)
	d.WantCounts("texts.applied=2 texts.parked=2 texts.released=1 texts.repairs=2 texts.stale=1")
}

// TestD6PassedIsNotAccepted: a row does not go back to what an earlier build has left in the queue.
func TestD6PassedIsNotAccepted(t *testing.T) {
	for _, then := range []projection.GapPolicy{projection.FailFast, projection.AcceptLatest} {
		d := newWaiting(t, limits(then), projection.Incarnation(sizeOfLife))
		sendAt(d, 10, "3:xx")
		const applied = "\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01" + `["aaa"]`
		d.SetRow("texts", "k", applied)
		tick(d, 18)
		if got := d.Rows("texts", 0)["k"]; got != applied {
			t.Errorf("%s: the row is %q", then, got)
		}
		d.Want("abandoned")
		noneWaits(t, d)
		if got := d.Count("texts", "stale"); got != 1 {
			t.Errorf("%s: %d records are stale", then, got)
		}
	}
}
