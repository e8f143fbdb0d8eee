package txn_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestDocumentedPermissions compares the table of docs/security.md with what Permissions says of a
// topology with one of everything.
func TestDocumentedPermissions(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	again := topology.RepartitionWith(in, "name", schemas.String(), schemas.String())
	counts := topology.KeyValueStore("store", schemas.String(), schemas.Int64())
	topology.Process(again, "count", counts, countRecord).Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| resource | name | operations | for |\n|---|---|---|---|\n")
	var last txn.Permission
	var operations []string
	row := func() {
		if len(operations) > 0 {
			name := "`" + last.Name + "`"
			if last.Prefix {
				name += " (prefixed)"
			}
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", last.Resource, name, strings.Join(operations, ", "), last.Why)
		}
		operations = nil
	}
	for _, p := range txn.Permissions(top) {
		if p.Resource != last.Resource || p.Name != last.Name || p.Why != last.Why {
			row()
		}
		last = p
		operations = append(operations, p.Operation)
	}
	row()
	page, err := os.ReadFile(filepath.Join("..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+table.String()+"\n") {
		t.Errorf("docs/security.md does not have this table:\n%s", table.String())
	}
}

// TestTooOldBroker: a cluster below transaction.version 2 is refused in one line and nothing is
// created, whether the broker has never heard of the feature or is at a lower level.
func TestTooOldBroker(t *testing.T) {
	for _, test := range []struct {
		name  string
		opts  []kfake.Opt
		level int16 // to lower the feature to, -1 to leave it
		found int
	}{
		{"Kafka 3.9", []kfake.Opt{kfake.MaxVersions(kversion.V3_9_0())}, -1, 0},
		{"transaction.version 1", nil, 1, 1},
		{"transaction.version 0", nil, 0, 0},
	} {
		bubble(t, test.name, func(t *testing.T) {
			b := newBrokers(t, 1, append(test.opts, kfake.SeedTopics(1, "in", "out"))...)
			if test.level >= 0 {
				b.setFeature(t, "transaction.version", test.level)
			}
			dir := filepath.Join(t.TempDir(), "state")
			app, err := txn.New(countTopology(t), b.config(txn.Config{StateDir: dir, Logger: testLogger(t)}))
			if err != nil {
				t.Fatal(err)
			}
			err = app.Run(context.Background())
			want := fmt.Sprintf("broker 0 has transaction.version %d, and 2 is required: use Kafka 4.0 or newer with that feature "+
				"enabled (kafka-features.sh upgrade --feature transaction.version=2)", test.found)
			if err == nil || err.Error() != want {
				t.Errorf("the error is %v, want %s", err, want)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Error("the state directory was made")
			}
			if details, err := b.adm.ListTopics(t.Context()); err != nil || len(details) != 2 {
				t.Errorf("the topics are %v (%v), want in and out", details.Names(), err)
			}
		})
	}
}

// setFeature lowers a feature.
func (b *testBroker) setFeature(t *testing.T, name string, level int16) {
	t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = name, level, 3
	req.FeatureUpdates = append(req.FeatureUpdates, update)
	resp, err := req.RequestWith(t.Context(), b.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}
