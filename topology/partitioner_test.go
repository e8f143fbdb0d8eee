package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// byLength sends a record to the partition with the number of the bytes of its value, "default" to
// that of its key, and "none" and "less" to none. It panics for "panic".
func byLength(asked *[]string) topology.Partitioner[topology.Option[string], string] {
	return topology.PartitionBy("by-length", func(topic string, key topology.Option[string], value string, partitions int32) int32 {
		if asked != nil {
			*asked = append(*asked, fmt.Sprintf("%s %s %s of %d", topic, key.Or("null"), value, partitions))
		}
		switch value {
		case "default":
			return topology.ByKey
		case "none":
			return partitions
		case "less":
			return topology.ByKey - 1
		case "panic":
			panic("asked to")
		}
		return int32(len(value))
	})
}

// TestPartitioner: a record goes where its partitioner says, in a sink and in a repartition topic,
// and a partitioner that is wrong costs that record only.
func TestPartitioner(t *testing.T) {
	text, maybe := schemas.String(), topology.Nullable(schemas.String())
	in := topology.Topic("in", maybe, text)
	for name, test := range map[string]struct {
		declare func(s topology.Stream[topology.Option[string], string], asked *[]string)
		topic   string
		node    string
	}{
		"sink": {func(s topology.Stream[topology.Option[string], string], asked *[]string) {
			s.Into(topology.Topic("out", maybe, text).PartitionedBy(byLength(asked)))
		}, "out", "out-sink"},
		"one of several sinks": {func(s topology.Stream[topology.Option[string], string], asked *[]string) {
			out := topology.Topic("out", maybe, text).PartitionedBy(byLength(asked))
			s.IntoOneOf("choose", func(topology.Record[topology.Option[string], string]) (topology.TopicOf[topology.Option[string], string], error) {
				return topology.Topic("out", maybe, text), nil
			}, []topology.TopicOf[topology.Option[string], string]{out})
		}, "out", "choose.out"},
		"repartition": {func(s topology.Stream[topology.Option[string], string], asked *[]string) {
			s.Repartition("moved", byLength(asked)).Into(topology.Topic("out", maybe, text))
		}, "app-moved-repartition", "moved-repartition-sink"},
		"repartition with codecs": {func(s topology.Stream[topology.Option[string], string], asked *[]string) {
			topology.RepartitionWith(s, "moved", maybe, text, byLength(asked), topology.KeepOrigin())
		}, "app-moved-repartition", "moved-repartition-sink"},
	} {
		t.Run(name, func(t *testing.T) {
			b := topology.NewBuilder("app", topology.DeadLetters("dead"))
			var asked []string
			test.declare(topology.From(b, in), &asked)
			k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "in", Partition: 3}, topology.GraphConfig{
				Partitions: func(string) int32 { return 6 }, Now: baseConfig().Now,
			})
			process := func(key []byte, value string) graph.Verdict {
				r := k.input("in", key, []byte(value))
				r.Partition = 3
				return k.graph.Process(r)
			}
			for _, c := range []struct {
				key   []byte
				value string
				want  int32
			}{
				{[]byte("a"), "", 0}, {[]byte("a"), "four!", 5}, {nil, "xx", 2},
				{[]byte("a"), "default", graph.PartitionOf([]byte("a"), 6)}, {nil, "default", 3},
			} {
				v := want(t, process(c.key, c.value), graph.Accept)
				if len(v.Outputs) != 1 || v.Outputs[0].Topic != test.topic || v.Outputs[0].Partition != c.want {
					t.Errorf("%s %q: written %v, want partition %d of %s", keyText(c.key), c.value, v.Outputs, c.want, test.topic)
				}
			}
			for value, class := range map[string]topology.Class{
				"none": topology.Validation, "less": topology.Validation, "panic": topology.Poison,
			} {
				v := want(t, process([]byte("a"), value), graph.DeadLetter)
				if len(v.Outputs) != 1 || v.Outputs[0].Topic != "dead" || v.Failure.Class != class || v.Failure.Node != test.node {
					t.Errorf("%s: written %v; %s failure of %s: %v", value, v.Outputs, v.Failure.Class, v.Failure.Node, v.Failure)
				}
			}
			want(t, process([]byte("b"), "after"), graph.Accept)
			if got, first := strings.Join(asked[:3], "; "), fmt.Sprintf("%[1]s a  of 6; %[1]s a four! of 6; %[1]s null xx of 6", test.topic); got != first {
				t.Errorf("asked %s, want %s", got, first)
			}
		})
	}
}

// keyText is a key in a message.
func keyText(b []byte) string { return text(b) }

// TestPartitionerOfATopic: producers and the driver ask the topic itself.
func TestPartitionerOfATopic(t *testing.T) {
	in := topology.Topic("in", topology.Nullable(schemas.String()), schemas.String())
	partitioned := in.PartitionedBy(byLength(nil))
	for value, want := range map[string]int32{"xx": 2, "default": topology.ByKey} {
		if got, err := partitioned.Partition(topology.Some("a"), value, 4); got != want || err != nil {
			t.Errorf("%s: %d, %v, want %d", value, got, err, want)
		}
	}
	if got, err := in.Partition(topology.Some("a"), "xx", 4); got != topology.ByKey || err != nil {
		t.Errorf("without a partitioner: %d, %v", got, err)
	}
	for _, value := range []string{"none", "less"} {
		if _, err := partitioned.Partition(topology.Some("a"), value, 4); err == nil {
			t.Errorf("%s: no error", value)
		}
	}
	b := topology.NewBuilder("app")
	topology.MapValuesWithRecord(topology.From(b, partitioned), "place", func(r topology.Record[topology.Option[string], string]) (string, error) {
		_, partition, _ := r.Source()
		return fmt.Sprintf("%s in %d", r.Value, partition), nil
	}).Into(topology.Topic("out", topology.Nullable(schemas.String()), schemas.String()))
	d, err := topologytest.New(mustBuild(t, b), topologytest.TopicPartitions("in", 4))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"xx", "default"} {
		if err := topologytest.Pipe(d, partitioned, topology.Some("a"), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := topologytest.Pipe(d, partitioned, topology.Some("a"), "xx", topologytest.ToPartition(3)); err != nil {
		t.Fatal(err)
	}
	if err := topologytest.Pipe(d, partitioned, topology.Some("a"), "none"); err == nil {
		t.Error("a record of no partition is piped")
	}
	raw, err := d.OutputRaw("out")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := lines(raw), fmt.Sprintf(`out "a"="xx in 2"; out "a"="default in %d"; out "a"="xx in 3"`, graph.PartitionOf([]byte("a"), 4)); got != want {
		t.Errorf("written %s, want %s", got, want)
	}
}

// TestPartitionerMistakes: what would break the partitioning is refused, and so is a partitioner
// that is wrong itself.
func TestPartitionerMistakes(t *testing.T) {
	text := schemas.String()
	choose := func(string, string, string, int32) int32 { return 0 }
	by := topology.PartitionBy("first", choose)
	b := topology.NewBuilder("mistakes")
	s := topology.From(b, wordsTopic)
	partitioned := topology.From(b, topology.Topic("apart", text, text).PartitionedBy(by))
	table := topology.ToTable(s, leftTable)
	topology.Count(partitioned.Peek("peek", ignore), countTable)
	topology.JoinStreamTable(s.Repartition("moved", by), table, "join", plus)
	topology.JoinStreamTable(s.Merge("merge", partitioned), table, "join-merged", plus)
	topology.TableFrom(b, topology.Topic("rows", text, text).PartitionedBy(by), topology.TimestampedStore("rows", text, text))
	topology.GlobalTableFrom(b, topology.Topic("globals", text, text).PartitionedBy(by), topology.TimestampedStore("globals", text, text))
	table.Into(topology.Topic("changes", text, text).PartitionedBy(by))
	table.IntoNamed("named", topology.Topic("named-changes", text, text).PartitionedBy(by))
	topology.GroupTable(table, "grouped", text, text, func(k, v string) (string, string, error) { return v, k, nil }, by)
	topology.From(b, topology.Topic("words", text, text).PartitionedBy(by))
	s.Into(topology.Topic("twice", text, text))
	s.IntoNamed("again", topology.Topic("twice", text, text).PartitionedBy(by))
	s.Into(topology.Topic("unnamed", text, text).PartitionedBy(topology.PartitionBy("", choose)))
	s.Into(topology.Topic("nothing", text, text).PartitionedBy(topology.PartitionBy[string, string]("nothing", nil)))
	s.Repartition("zero", topology.Partitioner[string, string]{})
	s.Repartition("numbers", topology.PartitionBy("numbers", func(string, string, int64, int32) int32 { return 0 }))

	// These are right.
	kept := topology.TimestampedStore("kept", text, text)
	topology.Reduce(s.Repartition("kept", by).Copartitioned(), kept, newest)
	topology.Reduce(topology.RepartitionWith(partitioned, "back", text, text), topology.TimestampedStore("back", text, text), newest)
	table.Stream().Into(topology.Topic("stream", text, topology.Nullable(text)).PartitionedBy(
		topology.PartitionBy("of-options", func(string, string, topology.Option[string], int32) int32 { return 0 })))
	topology.From(b, topology.Topic("apart", text, text).PartitionedBy(by)).Into(outTopic)

	var got []string
	for _, m := range mistakesOf(t, b) {
		got = append(got, m.Node+": "+m.Err.Error())
	}
	for i, want := range []string{
		"count-table: the records of apart (", "join: the records of moved-repartition (", "join-merged: the records of apart (",
		"rows: the topic has a partitioner", "globals: the topic has a partitioner", "changes-sink: the topic has a partitioner",
		"named: the topic has a partitioner", "grouped: partitioner first: a group", "words: the topic is read twice",
		"unnamed-sink: name of the partitioner: ", "nothing-sink: partitioner nothing: the function is nil",
		"zero: name of the partitioner: ", "numbers: partitioner numbers is topology.Partitioner[string,int64]",
		"again: topic twice has the partitioner first here and Kafka's partitioner in node twice-sink (",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Fatalf("mistakes:\n%s\nwant number %d to begin with %s", strings.Join(got, "\n"), i, want)
		}
	}
	if len(got) != 14 || !strings.Contains(got[0], "partitioned by the partitioner first") {
		t.Errorf("mistakes:\n%s", strings.Join(got, "\n"))
	}
}

// TestPartitionerOfAForeignJoin: the topics of a join by a foreign key are partitioned as its
// tables.
func TestPartitionerOfAForeignJoin(t *testing.T) {
	text := schemas.String()
	b := topology.NewBuilder("mistakes")
	left := topology.TableFrom(b, leftTopic, leftTable)
	right := topology.TableFrom(b, otherTopic, topology.TimestampedStore("other-table", text, text))
	topology.JoinForeignKey(left, right, "join", func(_, v string) (topology.Option[string], error) { return topology.Some(v), nil },
		func(_, l, r string) (string, error) { return l + r, nil },
		topology.PartitionBy("first", func(string, string, string, int32) int32 { return 0 }))
	if got := mistakesOf(t, b); len(got) != 1 || !strings.Contains(got[0].Err.Error(), "partitioner first: the topics of a join") {
		t.Errorf("mistakes: %v", got)
	}
}

// TestPartitionerIsPartOfTheTopology: its name is in the description, in the contract and in the
// fingerprint.
func TestPartitionerIsPartOfTheTopology(t *testing.T) {
	text := schemas.String()
	choose := func(string, string, string, int32) int32 { return 0 }
	describe := func(opts ...topology.Partitioner[string, string]) *topology.Topology {
		b := topology.NewBuilder("app")
		out, s := topology.Topic("out", text, text), topology.From(b, wordsTopic)
		if len(opts) == 0 {
			s = s.Repartition("moved")
		} else {
			out, s = out.PartitionedBy(opts[0]), s.Repartition("moved", opts[0])
		}
		s.Into(out)
		return mustBuild(t, b)
	}
	plain, first := describe(), describe(topology.PartitionBy("first", choose))
	second := describe(topology.PartitionBy("second", choose))
	if plain.Fingerprint() == first.Fingerprint() || first.Fingerprint() == second.Fingerprint() {
		t.Error("the fingerprint does not depend on the partitioner")
	}
	if again := describe(topology.PartitionBy("first", func(string, string, string, int32) int32 { return 1 })); again.Fingerprint() != first.Fingerprint() {
		t.Error("the fingerprint depends on the function")
	}
	wantDifferences(t, graph.Compare(plain.Description(), first.Description()), []string{
		"node moved-repartition-sink: partitioner that of Kafka becomes first", "node out-sink: partitioner that of Kafka becomes first",
		"source app-moved-repartition: partitioner that of Kafka becomes first",
	})
	wantDifferences(t, graph.Compare(first.Description(), second.Description()), []string{
		"node moved-repartition-sink: partitioner first becomes second", "node out-sink: partitioner first becomes second",
		"source app-moved-repartition: partitioner first becomes second",
	})
	var nodes []string
	for _, c := range first.Clauses() {
		if c.Aspect == topology.KeyAssumption && strings.Contains(c.Text, "the partitioner first chooses") {
			nodes = append(nodes, c.Node)
		}
	}
	if got := strings.Join(nodes, " "); got != "moved-repartition-sink moved-repartition-source out-sink" {
		t.Errorf("the contract names the partitioner for %s", got)
	}
}
