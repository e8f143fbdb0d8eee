package topology_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// goldenTopologies are described in testdata/describe, one file each.
var goldenTopologies = func() map[string]func(b *topology.Builder) {
	all := maps.Clone(plainTopologies)
	maps.Copy(all, tableTopologies)
	return all
}()

// plainTopologies are those with streams and nodes only.
var plainTopologies = map[string]func(b *topology.Builder){
	"copy":   func(b *topology.Builder) { topology.From(b, wordsTopic).Into(outTopic) },
	"filter": func(b *topology.Builder) { topology.From(b, wordsTopic).Filter("short", pass).Into(outTopic) },
	"chain": func(b *topology.Builder) {
		s := topology.Map(topology.From(b, wordsTopic), "trim", func(r word) (word, error) { return r, nil })
		s = topology.MapValuesWithRecord(s, "upper", upper)
		s = topology.FlatMap(s, "letters", func(word, func(word) error) error { return nil })
		s = topology.SelectKey(s, "by-letter", upper)
		s.Peek("log", ignore).Into(outTopic)
	},
	"split": func(b *topology.Builder) {
		split := topology.From(b, wordsTopic).Split("language")
		split.Case("english", pass).Into(outTopic)
		split.Case("french", pass).Into(secondTopic)
		split.Otherwise("other")
	},
	"merge": func(b *topology.Builder) {
		topology.From(b, wordsTopic).Merge("both", topology.From(b, otherTopic)).Into(outTopic)
	},
	"fan-out": func(b *topology.Builder) {
		s := topology.From(b, wordsTopic)
		s.Into(secondTopic)
		s.Filter("long", pass).Into(outTopic)
		s.Peek("log", ignore)
	},
	"repartition": func(b *topology.Builder) {
		s := topology.SelectKey(topology.From(b, wordsTopic), "by-word", upper)
		topology.RepartitionWith(s, "words-by-word", schemas.String(), schemas.String()).Into(outTopic)
	},
	"repartition-twice": func(b *topology.Builder) {
		s := topology.RepartitionWith(topology.From(b, wordsTopic), "first", schemas.String(), schemas.String())
		topology.RepartitionWith(s, "second", schemas.String(), schemas.String()).Into(outTopic)
	},
	"repartition-fixed": func(b *topology.Builder) {
		topology.RepartitionWith(topology.From(b, wordsTopic), "three", schemas.String(), schemas.String(),
			topology.Partitions(3)).Into(outTopic)
	},
	"repartition-joined": func(b *topology.Builder) {
		moved := topology.RepartitionWith(topology.From(b, otherTopic), "moved", schemas.String(), schemas.String())
		topology.From(b, wordsTopic).Merge("all", moved).Into(outTopic)
	},
	"named-sinks": func(b *topology.Builder) {
		s := topology.From(b, wordsTopic)
		s.Filter("long", pass).IntoNamed("long-out", outTopic)
		s.Filter("short", pass).IntoNamed("short-out", outTopic)
	},
	"loop": func(b *topology.Builder) {
		split := topology.From(b, wordsTopic).Split("again")
		split.Case("once-more", pass).Into(wordsTopic, topology.Feedback())
		split.Otherwise("done").Into(outTopic)
	},
	"diamond": func(b *topology.Builder) {
		s := topology.From(b, wordsTopic)
		s.Filter("left", pass).Merge("together", s.Filter("right", pass)).Into(outTopic)
	},
	"store": func(b *topology.Builder) {
		topology.Process(topology.From(b, wordsTopic), "count", countStore, drop).Into(outTopic)
	},
	"partitioner": func(b *topology.Builder) {
		by := topology.PartitionBy("by-region", func(string, string, string, int32) int32 { return 0 })
		topology.From(b, wordsTopic).Repartition("moved", by).Into(outTopic.PartitionedBy(by))
	},
	"pattern": func(b *topology.Builder) {
		s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
		s.Filter("short", pass).Into(outTopic)
		topology.Count(s.Repartition("events-by-key", topology.Partitions(3)), topology.TimestampedStore("counts", schemas.String(), schemas.Int64()))
	},
	"fixed-key": func(b *topology.Builder) {
		node := topology.Stateful(topology.From(b, wordsTopic), "inbox", seenStore)
		node.Process(idle)
		accepted := topology.FixedKeyOutlet[string](node, "accepted").Stream()
		topology.Outlet[string, string](node, "conflicts").Stream().Into(secondTopic)
		topology.Count(accepted, topology.TimestampedStore("accepted-counts", schemas.String(), schemas.Int64()))
	},
	"outlets": func(b *topology.Builder) {
		n := topology.Stateful(topology.From(b, wordsTopic), "inbox", seenStore, payloadStore)
		n.Process(idle)
		topology.Outlet[string, string](n, "accepted").Stream().Into(outTopic)
		topology.Outlet[string, string](n, "conflicts").Stream().Into(secondTopic)
		topology.Outlet[string, int64](n, "unused")
	},
	"shared-store": func(b *topology.Builder) {
		topology.Stateful(topology.From(b, wordsTopic), "writer", payloadStore).Process(idle)
		topology.Stateful(topology.From(b, otherTopic), "reader", payloadStore).Process(idle)
	},
	"apart": func(b *topology.Builder) {
		topology.From(b, wordsTopic).Into(outTopic)
		topology.From(b, otherTopic).Into(secondTopic)
	},
	"joined-by-topic": func(b *topology.Builder) {
		topology.From(b, wordsTopic).Into(otherTopic)
		topology.From(b, otherTopic).Into(outTopic)
	},
	"window-store": func(b *topology.Builder) {
		store := topology.WindowStore("minutes", schemas.String(), schemas.Int64(), time.Hour)
		topology.Process(topology.From(b, wordsTopic), "per-minute", store,
			func(*topology.Context, state.Window[string, int64], word, topology.Emit[string, string]) error {
				return nil
			},
		).Into(outTopic)
	},
	"session-store": func(b *topology.Builder) {
		store := topology.SessionStore("visits", schemas.String(), schemas.Int64(), time.Hour)
		topology.Stateful(topology.From(b, wordsTopic), "visit", store).Process(idle)
	},
	"versioned-store": func(b *topology.Builder) {
		store := topology.VersionedStore("history", schemas.String(), schemas.Int64(), time.Hour)
		topology.Stateful(topology.From(b, wordsTopic), "remember", store).Process(idle)
	},
	"dedupe-store": func(b *topology.Builder) {
		store := topology.DedupeStore("ids", schemas.String(), schemas.Int64(), time.Hour)
		topology.Stateful(topology.From(b, wordsTopic), "dedupe", store).Process(idle)
	},
	"in-memory-store": func(b *topology.Builder) {
		store := topology.KeyValueStore("recent", schemas.String(), schemas.Int64()).InMemory()
		topology.Stateful(topology.From(b, wordsTopic), "remember", store).Process(idle)
	},
	"lost-store": func(b *topology.Builder) {
		store := topology.KeyValueStore("recent", schemas.String(), schemas.Int64()).LostOnRestart()
		topology.Stateful(topology.From(b, wordsTopic), "remember", store).Process(idle)
	},
	"timestamped-store": func(b *topology.Builder) {
		store := topology.TimestampedStore("latest", schemas.String(), schemas.Int64())
		topology.Stateful(topology.From(b, wordsTopic), "latest", store).Process(idle)
	},
	"starts": func(b *topology.Builder) {
		late := topology.From(b, topology.Topic("late", schemas.String(), schemas.String()), topology.StartLatest())
		topology.From(b, wordsTopic, topology.StartAt(now)).Merge("both", late).Into(outTopic)
	},
	"nulls": func(b *topology.Builder) {
		from := topology.Topic("in", topology.Nullable(schemas.String()), topology.Nullable(schemas.String()))
		topology.From(b, from).Into(topology.Topic("copy", topology.Nullable(schemas.String()), topology.Nullable(schemas.String())))
	},
}

// TestGoldenDescriptions compares every form of every description with its file. Run it with
// -rewrite to rewrite the files, and review the changes: users read these texts, and other tools
// draw them.
func TestGoldenDescriptions(t *testing.T) {
	described := map[string]bool{}
	datadriven.Walk(t, "testdata/describe", func(t *testing.T, path string) {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		declare, ok := goldenTopologies[name]
		if !ok {
			t.Fatalf("there is no topology %s", name)
		}
		described[name] = true
		b := topology.NewBuilder(name, topology.DeadLetters("dead"))
		declare(b)
		built := mustBuild(t, b)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "text":
				return built.Describe()
			case "mermaid":
				return built.Description().Mermaid()
			case "dot":
				return built.Description().DOT()
			case "json":
				return indented(t, built.Description())
			}
			d.Fatalf(t, "there is no form %s", d.Cmd)
			return ""
		})
	})
	for _, name := range slices.Sorted(maps.Keys(goldenTopologies)) {
		if !described[name] {
			t.Errorf("testdata/describe/%s.txt is missing: make it with the commands of another one, and run this test with -rewrite", name)
		}
	}
	if len(described) < 20 {
		t.Errorf("%d topologies are described", len(described))
	}
}

func indented(t *testing.T, d graph.Description) string {
	t.Helper()
	var s bytes.Buffer
	enc := json.NewEncoder(&s)
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		t.Fatal(err)
	}
	return s.String()
}

// TestDescriptionIsWhole: what is described can be read again, and nothing of the structure is
// missing: two topologies with one description have one fingerprint.
func TestDescriptionIsWhole(t *testing.T) {
	for name, declare := range goldenTopologies {
		b := topology.NewBuilder(name)
		declare(b)
		built := mustBuild(t, b)
		var read graph.Description
		if err := json.Unmarshal([]byte(indented(t, built.Description())), &read); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, want := indented(t, read), indented(t, built.Description()); got != want {
			t.Errorf("%s: read again it is\n%s\nwant:\n%s", name, got, want)
		}
		if n := strings.Count(built.Describe(), "\n      --> ") + strings.Count(built.Describe(), "    Sink: "); n != countNodes(read) {
			t.Errorf("%s: the text has %d nodes, the description %d", name, n, countNodes(read))
		}
	}
}

func countNodes(d graph.Description) (n int) {
	for _, sub := range d.Subtopologies {
		n += len(sub.Nodes)
	}
	return n + 2*len(d.GlobalTables) // each is a source and a processor in the text
}

// TestPicturesDrawEveryEdge: both pictures have the same lines, and every name that they use is
// declared.
func TestPicturesDrawEveryEdge(t *testing.T) {
	for name, declare := range goldenTopologies {
		b := topology.NewBuilder(name)
		declare(b)
		built := mustBuild(t, b)
		edges := 0
		for _, sub := range built.Description().Subtopologies {
			for _, n := range sub.Nodes {
				edges += len(n.Next) + len(n.Stores) + len(n.GlobalTables)
			}
		}
		edges += len(built.Description().GlobalTables)
		mermaid, dot := built.Description().Mermaid(), built.Description().DOT()
		if n := strings.Count(mermaid, " --> ") + strings.Count(mermaid, " -.- "); n != edges {
			t.Errorf("%s: Mermaid has %d lines, want %d:\n%s", name, n, edges, mermaid)
		}
		if n := strings.Count(dot, " -> "); n != edges {
			t.Errorf("%s: DOT has %d lines, want %d:\n%s", name, n, edges, dot)
		}
		declared := map[string]bool{}
		for line := range strings.Lines(mermaid) {
			id, _, isNode := strings.Cut(strings.TrimSpace(line), "[")
			if round, _, ok := strings.Cut(id, "("); ok {
				id, isNode = round, true
			}
			if isNode && !strings.Contains(line, " --> ") {
				declared[strings.TrimSpace(id)] = true
			}
		}
		for line := range strings.Lines(mermaid) {
			fields := strings.Fields(line)
			if !strings.Contains(line, " --> ") && !strings.Contains(line, " -.- ") {
				continue
			}
			for _, id := range []string{fields[0], fields[len(fields)-1]} {
				if !declared[id] {
					t.Errorf("%s: Mermaid uses %s, which is not declared:\n%s", name, id, mermaid)
				}
			}
		}
	}
}
