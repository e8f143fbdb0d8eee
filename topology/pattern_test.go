package topology_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// fromEvents reads the topics that begin with "events.".
func fromEvents(b *topology.Builder, opts ...topology.SourceOption) words {
	return topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String(), opts...)
}

// countEvents counts the records of all topics by key.
func countEvents(b *topology.Builder) {
	store := topology.TimestampedStore("counts", schemas.String(), schemas.Int64())
	topology.Count(fromEvents(b).Repartition("events-by-key", topology.Partitions(2)), store).
		Into(topology.Topic("counted", schemas.String(), schemas.Int64()))
}

// TestPattern: the records of all topics come to one table, whatever their numbers of partitions. A
// topic that is created later is read from its first record, and one that does not match is no
// topic.
func TestPattern(t *testing.T) {
	b := topology.NewBuilder("app")
	countEvents(b)
	d := topologytest.Start(t, mustBuild(t, b), topologytest.TopicPartitions("events.eu", 3), topologytest.TopicPartitions("other.eu", 3))
	pipe := func(topic, key string) error {
		return topologytest.Pipe(d.Driver, topology.Topic(topic, schemas.String(), schemas.String()), key, "value")
	}
	out := topologytest.Out(d, topology.Topic("counted", schemas.String(), schemas.Int64()))
	for range 2 {
		if err := pipe("events.eu", "a"); err != nil {
			t.Fatal(err)
		}
	}
	out.Want(topologytest.KV("a", int64(1)), topologytest.KV("a", int64(2)))
	for topic, want := range map[string]string{
		"events.us": "a pattern matches the topic, and it does not exist",
		"other.eu":  "the topology does not read it; it reads app-events-by-key-repartition, events.eu",
	} {
		if err := pipe(topic, "a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a record for %s: %v, want %q", topic, err, want)
		}
	}
	if err := d.CreateTopic("events.us", 1); err != nil {
		t.Fatal(err)
	}
	if err := pipe("events.us", "a"); err != nil {
		t.Fatal(err)
	}
	out.Want(topologytest.KV("a", int64(3)))
	d.Restart()
	if err := pipe("events.eu", "b"); err != nil {
		t.Fatal(err)
	}
	out.Want(topologytest.KV("b", int64(1)))
	for _, name := range []string{"events.us", "other.eu", "app-events.x-changelog"} {
		if err := d.CreateTopic(name, 1); err == nil {
			t.Errorf("topic %s is created", name)
		}
	}
}

// TestPatternTasks: each topic is a subtopology of its own, and the topics change neither
// fingerprint nor description.
func TestPatternTasks(t *testing.T) {
	b := topology.NewBuilder("app")
	countEvents(b)
	built := mustBuild(t, b)
	describe := func(t *topology.Topology) string {
		var all []string
		for _, sub := range t.Subtopologies() {
			for _, s := range sub.Sources {
				all = append(all, fmt.Sprintf("%s reads %s by %q", sub.Name, s.Topic, s.Pattern))
			}
		}
		return strings.Join(all, "\n")
	}
	const downstream = `events-by-key reads app-events-by-key-repartition by ""`
	if got := describe(built); got != downstream {
		t.Errorf("without topics the tasks are\n%s", got)
	}
	bound, err := built.WithTopics([]string{"events.us", "events.eu"})
	if err != nil {
		t.Fatal(err)
	}
	want := downstream + "\n" + `events.eu reads events.eu by "events\\..*"` + "\n" + `events.us reads events.us by "events\\..*"`
	if got := describe(bound); got != want {
		t.Errorf("the tasks are\n%s\nwant\n%s", got, want)
	}
	if got := bound.Topics(); !slices.Equal(got, []string{"counted", "events.eu", "events.us"}) {
		t.Errorf("the topics are %v", got)
	}
	if bound.Fingerprint() != built.Fingerprint() || indented(t, bound.Description()) != indented(t, built.Description()) {
		t.Error("fingerprint or description depend on the topics")
	}
	if _, err := built.NewGraph(graph.TaskID{Subtopology: "events.eu"}, nil, baseConfig()); err == nil {
		t.Error("a graph is made for a topic that is not read")
	}
	for _, names := range [][]string{{"events"}, {"xevents.eu"}, {"app-rounds"}} {
		if _, err := built.WithTopics(names); err == nil {
			t.Errorf("the topics %v are accepted", names)
		}
	}
	for _, partitions := range []int32{1, 7} { // whatever the inputs have, and also without any
		counts, err := bound.ResolvePartitions(map[string]int32{"events.eu": partitions, "events.us": 2})
		if err != nil || counts["app-events-by-key-repartition"] != 2 {
			t.Errorf("the partitions are %v (%v), want those that are declared", counts, err)
		}
	}
}

// TestPatternPrefix: the prefix is the beginning of all names that match.
func TestPatternPrefix(t *testing.T) {
	for expression, want := range map[string]string{
		`events\..*`: "events.", `^events\..*$`: "events.", `events`: "events", `.*`: "", `eu|us`: "", `(?i)events.*`: "", `events(-eu|-us)`: "events-",
	} {
		b := topology.NewBuilder("app")
		topology.FromPattern(b, "source", expression, schemas.String(), schemas.String()).Into(outTopic)
		if expression == ".*" { // which matches the sink
			continue
		}
		if got := mustBuild(t, b).Patterns(); len(got) != 1 || got[0].Prefix != want || got[0].Expression != expression {
			t.Errorf("%s: the patterns are %+v, want the prefix %q", expression, got, want)
		}
	}
}

// TestPatternMistakes makes each mistake alone, and looks for its text and its place.
func TestPatternMistakes(t *testing.T) {
	store := topology.TimestampedStore("rows", schemas.String(), schemas.Int64())
	const together = "its records come together with those of a pattern, and each topic of the source by pattern events ("
	tests := map[string]struct {
		want string
		make func(b *topology.Builder) (line int)
	}{
		"wrong expression": {"the pattern is no regular expression of Go: ", func(b *topology.Builder) int {
			line := next()
			topology.FromPattern(b, "events", `a)|(b`, schemas.String(), schemas.String())
			return line
		}},
		"empty": {"the pattern is empty", func(b *topology.Builder) int {
			line := next()
			topology.FromPattern(b, "events", "", schemas.String(), schemas.String())
			return line
		}},
		"name": {"name of the source: it is empty", func(b *topology.Builder) int {
			line := next()
			topology.FromPattern(b, "", "a.*", schemas.String(), schemas.String())
			return line
		}},
		"start": {"a source by pattern reads each topic from its first record", func(b *topology.Builder) int {
			line := next()
			topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String(), topology.StartLatest())
			return line
		}},
		"parks": {"ParkKeys needs a store", func(b *topology.Builder) int {
			line := next()
			topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String(), topology.ParkKeys())
			return line
		}},
		"retries": {"RetryTopics: ", func(b *topology.Builder) int {
			line := next()
			topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String(), topology.RetryTopics(time.Second))
			return line
		}},
		"restores": {"RestoreFromTopic: ", func(b *topology.Builder) int {
			line := next()
			topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String(), topology.RestoreFromTopic())
			return line
		}},
		"own sink": {`the pattern events\..* matches events.out, which is the topic of the sink events.out-sink (`, func(b *topology.Builder) int {
			line := next()
			s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			s.Into(topology.Topic("events.out", schemas.String(), schemas.String()))
			return line
		}},
		"other source": {`the pattern events\..* matches events.eu, which is read by a source of its own (`, func(b *topology.Builder) int {
			topology.From(b, topology.Topic("events.eu", schemas.String(), schemas.String()))
			line := next()
			topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			return line
		}},
		"repartitioning": {`the pattern events\..* matches events.by-key, which is the name of a repartitioning (`, func(b *topology.Builder) int {
			line := next()
			s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			s.Repartition("events.by-key", topology.Partitions(1))
			return line
		}},
		"global table": {`the pattern events\..* matches events.rows, which is the topic of the global table rows (`, func(b *topology.Builder) int {
			topology.GlobalTableFrom(b, topology.Topic("events.rows", schemas.String(), schemas.Int64()), store)
			line := next()
			topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			return line
		}},
		"dead letters": {`the pattern d.* matches dead, which is the dead-letter topic of this topology`, func(b *topology.Builder) int {
			line := next()
			topology.FromPattern(b, "events", `d.*`, schemas.String(), schemas.String())
			return line
		}},
		"state": {"it keeps state, and each topic of the source by pattern events (", func(b *topology.Builder) int {
			s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String()).Copartitioned()
			line := next()
			topology.Count(s, store)
			return line
		}},
		"other stream": {together, func(b *topology.Builder) int {
			s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			line := next()
			other := topology.From(b, wordsTopic)
			s.Merge("both", other)
			return line
		}},
		"two patterns": {together, func(b *topology.Builder) int {
			s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			line := next()
			other := topology.FromPattern(b, "words", `words\..*`, schemas.String(), schemas.String())
			s.Merge("both", other)
			return line
		}},
		"number of partitions": {"the number of partitions does not follow from a pattern, because each topic of the source by pattern events (",
			func(b *topology.Builder) int {
				s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
				line := next()
				s.Repartition("by-key")
				return line
			}},
		"same name": {"the name is taken by the node declared at ", func(b *topology.Builder) int {
			topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			line := next()
			topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			return line
		}},
		"park policy": {"errors of class transient park or delay the record, and the source by pattern events-source (", func(b *topology.Builder) int {
			s := topology.FromPattern(b, "events", `events\..*`, schemas.String(), schemas.String())
			line := next()
			s.Peek("look", ignore, topology.OnError(topology.Transient, topology.Policy{
				Action: topology.Park, Attempts: 2, Backoff: time.Second, BackoffMax: time.Second, Then: topology.DeadLetter,
			}))
			return line
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := topology.NewBuilder("app", topology.DeadLetters("dead"))
			line := test.make(b)
			mistakes := mistakesOf(t, b)
			if !slices.ContainsFunc(mistakes, func(m *topology.Mistake) bool {
				return strings.HasPrefix(m.Err.Error(), test.want) && strings.HasSuffix(m.File, "pattern_test.go") && (m.Line == line || line == 0)
			}) {
				t.Errorf("the mistakes are %v, want %q in line %d", mistakes, test.want, line)
			}
		})
	}
}

// TestPatternAllows: what is no mistake. A number of partitions that follows from another topic
// needs no option, operators without state follow directly, and two patterns may be apart.
func TestPatternAllows(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	moved := fromEvents(b).Repartition("moved")
	table := topology.TableFrom(b, topology.Topic("rows", schemas.String(), schemas.String()),
		topology.TimestampedStore("rows", schemas.String(), schemas.String()))
	topology.JoinStreamTable(moved, table, "join", func(_, v, row string) (string, error) { return v + row, nil }).Into(outTopic)
	topology.FromPattern(b, "words", `words-.*`, schemas.String(), schemas.String()).Filter("long", pass).Into(secondTopic)
	if got := mustBuild(t, b).Patterns(); len(got) != 2 || got[0].Name != "events" || got[1].Name != "words" {
		t.Errorf("the patterns are %+v", got)
	}
}

// TestPatternIsPartOfTheTopology: another pattern is another topology, and a difference with a
// name.
func TestPatternIsPartOfTheTopology(t *testing.T) {
	built := func(expression string) *topology.Topology {
		b := topology.NewBuilder("app")
		topology.FromPattern(b, "events", expression, schemas.String(), schemas.String()).Into(outTopic)
		return mustBuild(t, b)
	}
	before, after := built("a.*"), built("b.*")
	if before.Fingerprint() == after.Fingerprint() {
		t.Error("two patterns have one fingerprint")
	}
	var texts []string
	for _, d := range graph.Compare(before.Description(), after.Description()) {
		texts = append(texts, d.String())
	}
	if got := strings.Join(texts, "\n"); !strings.Contains(got, "source events: pattern a.* becomes b.*") {
		t.Errorf("the differences are\n%s", got)
	}
}

// TestTwoPatternsOfOneTopic: neither reads it.
func TestTwoPatternsOfOneTopic(t *testing.T) {
	b := topology.NewBuilder("app")
	topology.FromPattern(b, "first", "a.*", schemas.String(), schemas.String()).Into(outTopic)
	topology.FromPattern(b, "second", ".*z", schemas.String(), schemas.String()).IntoNamed("again", outTopic)
	built := mustBuild(t, b)
	if got := built.PatternsOf("a-z"); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("it is matched by %v", got)
	}
	if _, err := built.WithTopics([]string{"a-z"}); err == nil || !strings.Contains(err.Error(), "matched by 2 sources") {
		t.Errorf("the error is %v", err)
	}
}
