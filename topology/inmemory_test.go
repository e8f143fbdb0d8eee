package topology_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestInMemory: where the rows of a store are is a part of the topology, for a store of every kind
// and for the operator that it is given to. The Store that InMemory is called on stays as it is.
func TestInMemory(t *testing.T) {
	onDisk := topology.KeyValueStore("rows", schemas.String(), schemas.Int64())
	build := func(store topology.AnyStore) *topology.Topology {
		b := topology.NewBuilder("app")
		topology.Stateful(topology.From(b, wordsTopic), "node", store).Process(idle)
		return mustBuild(t, b)
	}
	for kind, store := range map[string]topology.AnyStore{
		"key-value":   onDisk.InMemory(),
		"timestamped": topology.TimestampedStore("rows", schemas.String(), schemas.Int64()).InMemory(),
		"window":      topology.WindowStore("rows", schemas.String(), schemas.Int64(), time.Hour).InMemory(),
		"session":     topology.SessionStore("rows", schemas.String(), schemas.Int64(), time.Hour).InMemory(),
		"dedupe":      topology.DedupeStore("rows", schemas.String(), schemas.Int64(), time.Hour).InMemory(),
		"versioned":   topology.VersionedStore("rows", schemas.String(), schemas.Int64(), time.Hour).InMemory(),
	} {
		sub := build(store).Subtopologies()[0]
		if names := sub.InMemory(); len(names) != 1 || !sub.Stores[0].InMemory || sub.Stores[0].ChangelogTopic != "app-rows-changelog" {
			t.Errorf("a %s store: %v are in memory, and the store is %+v", kind, names, sub.Stores[0])
		}
	}
	with, without := build(onDisk.InMemory()), build(onDisk)
	if names := without.Subtopologies()[0].InMemory(); len(names) != 0 {
		t.Errorf("InMemory has changed the store that it was called on: %v", names)
	}
	if with.Fingerprint() == without.Fingerprint() {
		t.Error("the fingerprint does not know where the rows are")
	}
	wantDifferences(t, graph.Compare(without.Description(), with.Description()), []string{"store rows: rows on disk becomes in memory"})

	b := topology.NewBuilder("operators")
	s := topology.From(b, wordsTopic)
	windows := topology.Tumbling(time.Minute)
	topology.Count(s, topology.TimestampedStore("counts", schemas.String(), schemas.Int64()).InMemory())
	topology.CountWindows(s, windows, topology.WindowStore("per-minute", schemas.String(), schemas.Int64(), windows.Retention()).InMemory())
	topology.ToTable(s, leftTable.InMemory())
	if names := mustBuild(t, b).Subtopologies()[0].InMemory(); len(names) != 3 {
		t.Errorf("%v are in memory, want all three", names)
	}
}

// TestInMemoryMistakes: one name is one store, and two kinds of tables keep their rows on the disk.
func TestInMemoryMistakes(t *testing.T) {
	b := topology.NewBuilder("mistakes")
	s := topology.From(b, wordsTopic)
	store := topology.KeyValueStore("rows", schemas.String(), schemas.Int64())
	topology.Stateful(s, "disk", store).Process(idle)
	topology.Stateful(s, "memory", store.InMemory()).Process(idle)
	topology.GlobalTableFrom(b, topology.Topic("rates", schemas.String(), schemas.Int64()),
		topology.TimestampedStore("rate", schemas.String(), schemas.Int64()).InMemory())
	topology.TableFrom(b, pricesTopic, pricesTable.InMemory(), topology.RestoreFromTopic())
	_, err := b.Build()
	wantMistakes(t, err,
		"rate: store rate: the rows of a global table are on the disk",
		"memory: store rows is in memory here and on disk in node disk",
		"price-table: store price-table: RestoreFromTopic is for rows on the disk",
	)
}
