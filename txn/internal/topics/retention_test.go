package topics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/internal/topics"
)

// TestRetentionOfExpiringChangelog: brokers delete nothing of the changelog of a store whose rows
// expire, neither by their clock nor by size, whatever the cluster's default; its owner may. A
// changelog that was made otherwise must keep records longer than the store, and DeletedByClock
// reports it.
func TestRetentionOfExpiringChangelog(t *testing.T) {
	const name = "app-seen-changelog"
	b := topology.NewBuilder("app")
	seen := topology.DedupeStore("seen", schemas.String(), schemas.String(), time.Hour)
	topology.Stateful(topology.From(b, topology.Topic("in", schemas.String(), schemas.String())), "keep", seen).Process(
		func(*topology.Setup) (topology.Handler[string, string], error) {
			return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
		})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t)
	plan, err := topics.Check(t.Context(), c.Cluster, top, topics.Options{})
	if err != nil {
		t.Fatal(err)
	}
	layout, err := plan.Ensure(t.Context(), c.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	if l := layout[name]; !l.Deletes || !l.Compacted || l.Retention != 0 || len(layout.DeletedByClock(top)) != 0 {
		t.Errorf("%+v", l)
	}
	found, _, err := c.Topics(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	if got := found[name].Settings["retention.bytes"].Value; got != "-1" {
		t.Errorf("it keeps %s bytes", got)
	}
	c.set(name, "retention.ms", "90000000")
	if layout, err = plan.Verify(t.Context(), c.Cluster, layout); err != nil || layout.DeletedByClock(top)[name] != 25*time.Hour {
		t.Errorf("a day longer than the store: %v, %v", layout.DeletedByClock(top), err)
	}
	c.set(name, "retention.ms", "89999999")
	_, err = topics.Check(t.Context(), c.Cluster, top, topics.Options{})
	if err == nil || !strings.Contains(err.Error(), "retention.ms is 89999999 and has to be -1, or at least 90000000: state would be lost") {
		t.Errorf("a shorter time: %v", err)
	}
	c.set(name, "retention.ms", "-1")
	c.set(name, "retention.bytes", "1000000")
	_, err = topics.Check(t.Context(), c.Cluster, top, topics.Options{})
	if err == nil || !strings.Contains(err.Error(), "retention.bytes is 1000000 and has to be -1: state would be lost") {
		t.Errorf("a limit in bytes: %v", err)
	}
}
