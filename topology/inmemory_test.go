package topology_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
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

// TestLostOnRestart: a store of any kind that is lost on restart has no changelog, and the topology
// says so. The Store that LostOnRestart is called on stays as it is.
func TestLostOnRestart(t *testing.T) {
	onDisk := topology.KeyValueStore("rows", schemas.String(), schemas.Int64())
	build := func(store topology.AnyStore) *topology.Topology {
		b := topology.NewBuilder("app")
		topology.Stateful(topology.From(b, wordsTopic), "node", store).Process(idle)
		return mustBuild(t, b)
	}
	for kind, store := range map[string]topology.AnyStore{
		"key-value":   onDisk.LostOnRestart(),
		"in memory":   onDisk.InMemory().LostOnRestart().InMemory(),
		"timestamped": topology.TimestampedStore("rows", schemas.String(), schemas.Int64()).LostOnRestart(),
		"window":      topology.WindowStore("rows", schemas.String(), schemas.Int64(), time.Hour).LostOnRestart(),
		"session":     topology.SessionStore("rows", schemas.String(), schemas.Int64(), time.Hour).LostOnRestart(),
		"dedupe":      topology.DedupeStore("rows", schemas.String(), schemas.Int64(), time.Hour).LostOnRestart(),
		"versioned":   topology.VersionedStore("rows", schemas.String(), schemas.Int64(), time.Hour).LostOnRestart(),
	} {
		top := build(store)
		sub := top.Subtopologies()[0]
		if len(sub.InMemory()) != 1 || len(sub.LostOnRestart()) != 1 || len(sub.Restored()) != 0 || sub.Stores[0].Topic() != "" {
			t.Errorf("a %s store: %v is in memory, %v is lost, and the store is %+v", kind, sub.InMemory(), sub.LostOnRestart(), sub.Stores[0])
		}
		if topics := top.InternalTopics(); len(topics) > 0 {
			t.Errorf("a %s store: the internal topics are %v", kind, topics)
		}
	}
	lost, inMemory, plain := build(onDisk.LostOnRestart()), build(onDisk.InMemory()), build(onDisk)
	if sub := plain.Subtopologies()[0]; len(sub.Restored()) != 1 || len(sub.LostOnRestart()) > 0 {
		t.Errorf("LostOnRestart has changed the store that it was called on: %+v", sub.Stores)
	}
	if lost.Fingerprint() == inMemory.Fingerprint() || lost.Fingerprint() == plain.Fingerprint() {
		t.Error("the fingerprint does not know that the rows are lost")
	}
}

// TestLostOnRestartMistakes: every operator refuses a store that is lost, with one mistake. So does
// a second node that names the store otherwise.
func TestLostOnRestartMistakes(t *testing.T) {
	const refused = "LostOnRestart is for Stateful, Process and ProcessValues"
	b := topology.NewBuilder("mistakes")
	s := topology.From(b, wordsTopic)
	store := topology.KeyValueStore("rows", schemas.String(), schemas.Int64())
	timestamped := func(name string) topology.Store[state.Timestamped[string, int64]] {
		return topology.TimestampedStore(name, schemas.String(), schemas.Int64()).LostOnRestart()
	}
	texts := func(name string) topology.Store[state.Timestamped[string, string]] {
		return topology.TimestampedStore(name, schemas.String(), schemas.String()).LostOnRestart()
	}
	topology.Stateful(s, "memory", store.InMemory()).Process(idle)
	topology.Stateful(s, "lost", store.LostOnRestart()).Process(idle)
	topology.GlobalTableFrom(b, topology.Topic("rates", schemas.String(), schemas.Int64()), timestamped("rate"))
	topology.TableFrom(b, pricesTopic, pricesTable.LostOnRestart(), topology.RestoreFromTopic())
	table := topology.ToTable(s, leftTable)
	topology.ToTable(s, texts("table"))
	topology.Count(s, timestamped("count"))
	topology.CountTable(topology.GroupTable(table, "groups", schemas.String(), schemas.String(),
		func(k, v string) (string, string, error) { return k, v, nil }), timestamped("of-groups"))
	windows := topology.Tumbling(time.Minute)
	topology.CountWindows(s, windows, topology.WindowStore("windows", schemas.String(), schemas.Int64(), windows.Retention()).LostOnRestart())
	sessions := topology.Sessions(time.Minute)
	topology.CountSessions(s, sessions, topology.SessionStore("sessions", schemas.String(), schemas.Int64(), sessions.Retention()).LostOnRestart())
	_, err := b.Build()
	wantMistakes(t, err,
		"rate: store rate: the rows of a global table are on the disk; leave InMemory and LostOnRestart out",
		"price-table: store price-table: "+refused,
		"table: store table: "+refused,
		"count: store count: "+refused,
		"of-groups: store of-groups: "+refused,
		"windows: store windows: "+refused,
		"sessions: store sessions: "+refused,
		"lost: store rows is in memory and lost on restart here and in memory in node memory",
	)
}
