package admin_test

import (
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// TestForensicRefusesGlobalTables claims that a topology with a global table is refused before
// anything is read: the client has no broker.
func TestForensicRefusesGlobalTables(t *testing.T) {
	b := topology.NewBuilder("rated", topology.DeadLetters("dead"))
	rates := topology.Topic("rates", schemas.String(), schemas.String())
	topology.GlobalTableFrom(b, rates, topology.TimestampedStore("rate-table", schemas.String(), schemas.String()))
	topology.From(b, topology.Topic("in", schemas.String(), schemas.String())).
		Into(topology.Topic("out", schemas.String(), schemas.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	_, err = new(admin.Client).Forensic(t.Context(), top, admin.ForensicOptions{Scratch: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "global table rate-table") {
		t.Errorf("Forensic returned %v, want a refusal that names the table", err)
	}
}
