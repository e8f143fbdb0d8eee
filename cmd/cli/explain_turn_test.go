package cli

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/evidence"
)

// TestExplainTurn is requirement J1: of what was kept back, or had come through an internal topic,
// it is said where it is from, and in which turn it was decided about.
func TestExplainTurn(t *testing.T) {
	for want, e := range map[string]evidence.Entry{
		"  from in[1]@7, time ":                         {Topic: "in", Partition: 1, Offset: 7},
		"  from in[1]@7, in the turn of in[1]@9, time ": {Topic: "in", Partition: 1, Offset: 7, Deferred: true, Turn: "in[1]@9"},
		"  from in[1]@7, in the turn of no record, time ": {
			Topic: "in", Partition: 1, Offset: 7, Deferred: true},
		"  in the turn of app-x-repartition[1]@9, time ": {Turn: "app-x-repartition[1]@9"},
		"  from in[1]@7, in the turn of app-x-repartition[0]@3, time ": {
			Topic: "in", Partition: 1, Offset: 7, Turn: "app-x-repartition[0]@3"},
		"  in the turn of no record, time ": {Deferred: true},
	} {
		x := explanation{Decisions: []decided{{Entry: e}}}
		if text := x.text("audit"); !strings.Contains(text, "\n"+want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
}
