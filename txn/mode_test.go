package txn_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestModeIsChecked is requirement I2: a replay does not share the state of the live application, and a look
// at records is nothing that an application commits.
func TestModeIsChecked(t *testing.T) {
	b := topology.NewBuilder("payments")
	topology.From(b, topology.Topic("in", schemas.String(), schemas.String())).
		Into(topology.Topic("out", schemas.String(), schemas.String()))
	payments, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		mode        topology.Mode
		application string
		wrong       string
	}{
		{topology.Live, "", ""},
		{topology.Replay, "payments-2", ""},
		{topology.Replay, "", "Application"},
		{topology.Replay, "payments", "Application"},
		{topology.Backfill, "", ""},
		{topology.Repair, "", ""},
		{topology.Forensic, "payments-2", "Mode"},
		{topology.Forensic + 1, "payments-2", "Mode"},
	}
	for _, test := range tests {
		_, err := txn.New(payments, txn.Config{
			Brokers: []string{"localhost:9092"}, StateDir: t.TempDir(), Application: test.application, Mode: test.mode,
		})
		wrong := ""
		if mistake, ok := errors.AsType[*txn.ConfigError](err); ok {
			wrong = mistake.Field
		}
		if wrong != test.wrong || (err == nil) != (wrong == "") {
			t.Errorf("%s as application %q: %v", test.mode, test.application, err)
		}
	}
}
