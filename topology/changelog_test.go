package topology_test

import (
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// TestEveryStoreHasAChangelog: protocol rule 2.8. Whatever way a store comes into a topology,
// alone, shared by nodes, of a node with several, behind a repartition topic or under another
// application's name, it has a changelog of its own.
func TestEveryStoreHasAChangelog(t *testing.T) {
	b := topology.NewBuilder("app")
	first := topology.KeyValueStore("first", schemas.String(), schemas.String())
	second := topology.KeyValueStore("second", schemas.String(), schemas.String())
	third := topology.KeyValueStore("third", schemas.String(), schemas.Int64())
	in := topology.From(b, wordsTopic)
	topology.Stateful(in, "several", first, second).Process(idle)
	topology.Stateful(in, "shares", second).Process(idle)
	topology.Process(repartition(in, "again"), "behind", third, drop).Into(outTopic)
	top := mustBuild(t, b)
	named, err := top.WithApplication("other")
	if err != nil {
		t.Fatal(err)
	}
	for prefix, top := range map[string]*topology.Topology{"app": top, "other": named} {
		stores, changelogs := map[string]bool{}, map[string]bool{}
		for _, sub := range top.Subtopologies() {
			for _, store := range sub.Stores {
				if want := prefix + "-" + store.Name + "-changelog"; store.ChangelogTopic != want {
					t.Errorf("store %s has the changelog %q, want %q", store.Name, store.ChangelogTopic, want)
				}
				stores[store.Name], changelogs[store.ChangelogTopic] = true, true
			}
		}
		if len(stores) != 3 || len(changelogs) != 3 {
			t.Errorf("%s: the stores are %v and the changelogs %v, want three of each", prefix, stores, changelogs)
		}
	}
}
