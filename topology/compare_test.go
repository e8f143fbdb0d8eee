package topology_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// compared is a topology whose parts a test changes one at a time.
type compared struct {
	topic, second string
	value         schemas.Codec[string]
	store         topology.AnyStore
	node, outlet  string
	opts          []topology.BuilderOption
	source        []topology.SourceOption
	into          topology.TopicOf[string, string]
}

func (c compared) describe(tb testing.TB) graph.Description {
	tb.Helper()
	b := topology.NewBuilder("compared", c.opts...)
	s := topology.From(b, topology.Topic(c.topic, schemas.String(), c.value), c.source...)
	if c.second != "" {
		s = s.Merge("both", topology.From(b, topology.Topic(c.second, schemas.String(), c.value)))
	}
	n := topology.Stateful(s, c.node, c.store)
	n.Process(idle)
	topology.Outlet[string, string](n, c.outlet).Stream().Into(c.into)
	return mustBuild(tb, b).Description()
}

func base() compared {
	return compared{
		topic: "words", value: schemas.String(), store: topology.KeyValueStore("counts", schemas.String(), schemas.Int64()),
		node: "node", outlet: "out", into: outTopic,
	}
}

// TestCompare changes one thing at a time, and looks at everything that is said about it, in both
// directions.
func TestCompare(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *compared)
		want   []string
		back   []string
	}{
		"nothing": {change: func(*compared) {}},
		"value codec": {
			change: func(c *compared) { c.value = schemas.JSON[string]() },
			want:   []string{"source words: formats (string, string) becomes (string, json)"},
			back:   []string{"source words: formats (string, json) becomes (string, string)"},
		},
		"store codec": {
			change: func(c *compared) { c.store = topology.KeyValueStore("counts", schemas.String(), schemas.String()) },
			want:   []string{"store counts: formats (string, int64) becomes (string, string)"},
			back:   []string{"store counts: formats (string, string) becomes (string, int64)"},
		},
		"store layout": {
			change: func(c *compared) {
				c.store = topology.WindowStore("counts", schemas.String(), schemas.Int64(), time.Hour)
			},
			want: []string{"store counts: layout keyvalue becomes window"},
			back: []string{"store counts: layout window"},
		},
		"store in memory": {
			change: func(c *compared) {
				c.store = topology.KeyValueStore("counts", schemas.String(), schemas.Int64()).InMemory()
			},
			want: []string{"store counts: rows on disk becomes in memory"},
			back: []string{"store counts: rows in memory becomes on disk"},
		},
		"store lost on restart": {
			change: func(c *compared) {
				c.store = topology.KeyValueStore("counts", schemas.String(), schemas.Int64()).LostOnRestart()
			},
			want: []string{"store counts: rows on disk becomes in memory and lost on restart"},
			back: []string{"store counts: rows in memory and lost on restart becomes on disk"},
		},
		"another store": {
			change: func(c *compared) { c.store = topology.KeyValueStore("totals", schemas.String(), schemas.Int64()) },
			want: []string{
				"node node: wiring processor with counts to out out-sink becomes processor with totals to out out-sink",
				"store counts is gone: a store", "store totals is new: a store",
			},
			back: []string{
				"node node: wiring processor with totals to out out-sink becomes processor with counts to out out-sink",
				"store counts is new: a store", "store totals is gone: a store",
			},
		},
		"an earlier source renames the subtopology": {
			change: func(c *compared) { c.second = "also" },
			want: []string{
				"node also-source is new: a source", "node both is new: a processor",
				"node words-source: wiring source of words to node becomes source of words to both",
				"source also is new: a topic", "source words: subtopology words becomes also",
				"store counts: subtopology words becomes also",
			},
			back: []string{
				"node also-source is gone: a source", "node both is gone: a processor",
				"node words-source: wiring source of words to both becomes source of words to node",
				"source also is gone: a topic", "source words: subtopology also becomes words",
				"store counts: subtopology also becomes words",
			},
		},
		"start": {
			change: func(c *compared) { c.source = append(c.source, topology.StartLatest()) },
			want:   []string{"source words: start earliest becomes latest"},
			back:   []string{"source words: start latest becomes earliest"},
		},
		"node": {
			change: func(c *compared) { c.node = "other" },
			want: []string{
				"node node is gone: a processor", "node other is new: a processor",
				"node words-source: wiring source of words to node becomes source of words to other",
			},
			back: []string{
				"node node is new: a processor", "node other is gone: a processor",
				"node words-source: wiring source of words to other becomes source of words to node",
			},
		},
		"sink codec": {
			change: func(c *compared) { c.into = topology.Topic("out", schemas.String(), schemas.JSON[string]()) },
			want:   []string{"node out-sink: formats (string, string) becomes (string, json)"},
			back:   []string{"node out-sink: formats (string, json) becomes (string, string)"},
		},
		"dead letters": {
			change: func(c *compared) { c.opts = append(c.opts, topology.DeadLetters("dead")) },
			want:   []string{"dead-letter topic dead is new: a topic"},
			back:   []string{"dead-letter topic dead is gone: a topic"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			other := base()
			test.change(&other)
			before, after := base().describe(t), other.describe(t)
			wantDifferences(t, graph.Compare(before, after), test.want)
			wantDifferences(t, graph.Compare(after, before), test.back)
		})
	}
}

// wantDifferences compares texts by how they begin: what follows a layout's name is not this test's
// business.
func wantDifferences(t *testing.T, got []graph.Difference, want []string) {
	t.Helper()
	same := len(got) == len(want)
	var texts []string
	for i, d := range got {
		texts = append(texts, d.String())
		same = same && strings.HasPrefix(d.String(), want[i])
	}
	if !same {
		t.Errorf("differences:\n%s\nwant:\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

// TestCompareSuppressions: another time limit is told.
func TestCompareSuppressions(t *testing.T) {
	describe := func(until topology.Suppression) graph.Description {
		b := topology.NewBuilder("suppressed")
		suppressed(b, until).Into(resultTopic)
		return mustBuild(t, b).Description()
	}
	later := describe(topology.UntilTimeLimit(time.Second).MaxRecords(7))
	wantDifferences(t, graph.Compare(describe(topology.UntilTimeLimit(time.Minute)), later), []string{
		"node limit: suppression until time limit 1m0s becomes until time limit 1s, max records 7",
	})
}

// TestCompareGraces: another grace of a join is told.
func TestCompareGraces(t *testing.T) {
	describe := func(grace time.Duration) graph.Description {
		b := topology.NewBuilder("grace")
		graceWords(b, grace).Into(resultTopic)
		return mustBuild(t, b).Description()
	}
	wantDifferences(t, graph.Compare(describe(5*ms), describe(10*ms)), []string{"node join: grace 5ms becomes 10ms"})
}

// TestCompareWindows: another length of windows is told, although the store may be the same.
func TestCompareWindows(t *testing.T) {
	describe := func(w topology.Windows) graph.Description {
		b := topology.NewBuilder("compared")
		topology.CountWindows(topology.From(b, wordsTopic), w, hourStore("counts")).Into(hoursTopic)
		return mustBuild(t, b).Description()
	}
	wantDifferences(t, graph.Compare(describe(hourly), describe(topology.Tumbling(time.Hour).Grace(2*time.Minute))), []string{
		"node counts: windows size 1h0m0s, advance 1h0m0s, grace 1m0s becomes size 1h0m0s, advance 1h0m0s, grace 2m0s",
	})
}
