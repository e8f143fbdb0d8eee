package topology_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// origins notes what nodes see of the origin of records.
type origins struct{ seen []string }

// note declares a node that notes of each record, unless a check fails it, its value, where it
// comes from, in whose turn it is, when the broker appended it, and its headers.
func (o *origins) note(s words, name string, checks ...func(r word) error) words {
	node := topology.Stateful(s, name)
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		return func(c *topology.Context, r word) error {
			for _, check := range checks {
				if err := check(r); err != nil {
					return err
				}
			}
			appended, _ := r.AppendTime()
			o.seen = append(o.seen, fmt.Sprintf("%s of %s in %s at %d%v", r.Value, placeOf(r.Source()), placeOf(c.Source()), appended,
				keysOf(r.Headers)))
			return emit(c, r)
		}, nil
	})
	return out.Stream()
}

// want compares what was noted since the last time.
func (o *origins) want(tb testing.TB, seen ...string) {
	tb.Helper()
	if !slices.Equal(o.seen, seen) {
		tb.Errorf("it is seen\n%s\nwant\n%s", strings.Join(o.seen, "\n"), strings.Join(seen, "\n"))
	}
	o.seen = nil
}

func placeOf(topic string, partition int32, offset int64) string {
	return fmt.Sprintf("%s[%d]@%d", topic, partition, offset)
}

func keysOf(headers []topology.Header) (keys []string) {
	for _, h := range headers {
		keys = append(keys, h.Key)
	}
	return keys
}

// again sends s through a repartition topic with one partition.
func again(s words, name string, opts ...topology.RepartitionOption) words {
	return topology.RepartitionWith(s, name, schemas.String(), schemas.String(), append(opts, topology.Partitions(1))...)
}

func driveOrigins(tb testing.TB, b *topology.Builder, opts ...topologytest.Option) *topologytest.Driver {
	tb.Helper()
	d, err := topologytest.New(mustBuild(tb, b), opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func pipeWord(tb testing.TB, d *topologytest.Driver, topic, key, value string, opts ...topologytest.PipeOption) {
	tb.Helper()
	if err := d.PipeRaw(topic, []byte(key), []byte(value), opts...); err != nil {
		tb.Fatal(err)
	}
}

// TestKeepOrigin is requirement J1: behind repartition topics that keep the origin a record comes
// from where it was read, and nothing that user code or a producer writes passes for that. Neither
// it nor an output has the header.
func TestKeepOrigin(t *testing.T) {
	keep, lose := []topology.RepartitionOption{topology.KeepOrigin()}, []topology.RepartitionOption(nil)
	for name, test := range map[string]struct {
		hops [][]topology.RepartitionOption
		want string
	}{
		"lost":        {[][]topology.RepartitionOption{lose}, "app-hop0-repartition[0]@1"},
		"kept":        {[][]topology.RepartitionOption{keep}, "words[1]@0"},
		"kept twice":  {[][]topology.RepartitionOption{keep, keep}, "words[1]@0"},
		"lost before": {[][]topology.RepartitionOption{lose, keep}, "app-hop0-repartition[0]@1"},
		"lost behind": {[][]topology.RepartitionOption{keep, lose}, "app-hop1-repartition[0]@1"},
	} {
		t.Run(name, func(t *testing.T) {
			var o origins
			b := topology.NewBuilder("app")
			s := topology.From(b, wordsTopic)
			last := ""
			for i, opts := range test.hops {
				s = topology.MapHeaders(s, fmt.Sprint("forge", i), func(r word) ([]topology.Header, error) {
					return append(r.Headers, topology.Header{Key: graph.HeaderSource, Value: []byte("forged 7 7")}), nil
				})
				last = fmt.Sprint("hop", i)
				s = again(s, last, opts...)
			}
			o.note(s, "see").Into(outTopic)
			d := driveOrigins(t, b, topologytest.Partitions(2))
			for _, value := range []string{"first", "second"} {
				pipeWord(t, d, "words", "k", value, topologytest.ToPartition(int32(len(value)-5)), topologytest.Header("trace", "1"),
					topologytest.Header(graph.HeaderSource, "foreign 8 8"))
			}
			first := strings.Replace(strings.Replace(test.want, "[1]", "[0]", 1), "n[0]@1", "n[0]@0", 1)
			turn := " in app-" + last + "-repartition"
			o.want(t, "first of "+first+turn+"[0]@0 at 0[trace]", "second of "+test.want+turn+"[0]@1 at 0[trace]")
			out, err := d.OutputRaw("out")
			if err != nil || len(out) != 2 || len(out[1].Headers) != 1 {
				t.Errorf("the outputs are %v, %v", out, err)
			}
			for i, opts := range test.hops {
				raw, err := d.OutputRaw(fmt.Sprint("app-hop", i, "-repartition"))
				if err != nil || len(raw) != 2 || len(raw[1].Headers) != 1+len(opts) {
					t.Errorf("the topic of hop %d has %v, %v", i, raw, err)
				}
			}
		})
	}
}

// TestKeepOriginInFlight is requirement J1: the option can be given and taken away while records
// are in the topic. Each is read by what it says of itself, and by where it is if that is nothing,
// or no position.
func TestKeepOriginInFlight(t *testing.T) {
	const long = "00000000000000000017"
	build := func(opts ...topology.RepartitionOption) (*origins, *topology.Topology) {
		var o origins
		b := topology.NewBuilder("app")
		o.note(again(topology.From(b, wordsTopic), "again", opts...), "see").Into(outTopic)
		return &o, mustBuild(t, b)
	}
	_, with := build(topology.KeepOrigin())
	_, without := build()
	if with.Fingerprint() != without.Fingerprint() || len(graph.Compare(with.Description(), without.Description())) > 0 {
		t.Error("the option makes another topology")
	}
	tests := map[string]string{
		"words 3 17": "words[3]@17 in %s at 0", "words 3 17 5": "words[3]@17 in %s at 5", "": "[0]@0 in %s at 0",
		"words 0 0": "words[0]@0 in %s at 0", "words 2147483647 9223372036854775807 253402300799999": "words[2147483647]@9223372036854775807 " +
			"in %s at 253402300799999",
	}
	for _, malformed := range []string{
		"words", "words 3", "words x 1", "words 3 x", "words 3 -1", "words -1 3", "words 2147483648 3", "words 3 9223372036854775808", " 3 17",
		"w/rds 3 17", "words 3 17 x", "words 3 17 0", "words 3 17 253402300800000", "words 3 17 5 6", "words  3 17", "words 3 17 ", "words 3 " + long,
		strings.Repeat("w", 250) + " 3 17",
	} {
		tests[malformed] = "%[1]s in %[1]s at 0"
	}
	for _, opts := range [][]topology.RepartitionOption{nil, {topology.KeepOrigin()}} {
		o, top := build(opts...)
		d, err := topologytest.New(top)
		if err != nil {
			t.Fatal(err)
		}
		offset := 0
		for header, want := range tests {
			pipeWord(t, d, "app-again-repartition", "k", "v", topologytest.Header("trace", "1"), topologytest.Header(graph.HeaderSource, header))
			o.want(t, "v of "+fmt.Sprintf(want, fmt.Sprint("app-again-repartition[0]@", offset))+"[trace]")
			offset++
		}
		pipeWord(t, d, "app-again-repartition", "k", "v")
		own := fmt.Sprint("app-again-repartition[0]@", offset)
		o.want(t, "v of "+own+" in "+own+" at 0[]")
	}
}

// TestKeepOriginOfMany is requirement J1: what is made of one record has its origin, also of an
// aggregate, and what is made of none, or of many, has none, and not that of the record that was at
// work.
func TestKeepOriginOfMany(t *testing.T) {
	var o origins
	b := topology.NewBuilder("app")
	source := topology.From(b, wordsTopic)
	node := topology.Stateful(source, "tick")
	out := topology.Outlet[string, string](node, "out")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		emit := out.In(t)
		t.OnStreamTime(time.Second, func(c *topology.Context, _ time.Time) error { return emit(c, word{Key: "k", Value: "tick"}) })
		return func(c *topology.Context, r word) error {
			return errors.Join(emit(c, word{Key: "k", Value: "one"}), emit(c, topology.WithValue(r, "two")))
		}, nil
	})
	count := topology.Count(source, topology.TimestampedStore("counts", schemas.String(), schemas.Int64())).Stream()
	counted := topology.MapValues(count, "counted", func(v topology.Option[int64]) (string, error) {
		n, _ := v.Get()
		return "count " + strconv.FormatInt(n, 10), nil
	})
	second := topology.Tumbling(time.Second)
	windows := topology.CountWindows(source, second, topology.WindowStore("windows", schemas.String(), schemas.Int64(), second.Retention()))
	closed := topology.Map(windows.Closed(), "closing", func(topology.Record[topology.Windowed[string], int64]) (word, error) {
		return word{Key: "k", Value: "closed"}, nil
	})
	for i, s := range []words{out.Stream(), counted, closed} {
		o.note(again(s, fmt.Sprint("hop", i), topology.KeepOrigin()), fmt.Sprint("see", i))
	}
	d := driveOrigins(t, b)
	for i := range 2 {
		pipeWord(t, d, "words", "k", "v", topologytest.At(time.Unix(int64(2*i), 0)))
	}
	slices.Sort(o.seen)
	o.want(t,
		"closed of [0]@0 in app-hop2-repartition[0]@0 at 0[]",
		"count 1 of words[0]@0 in app-hop1-repartition[0]@0 at 0[]",
		"count 2 of words[0]@1 in app-hop1-repartition[0]@1 at 0[]",
		"one of words[0]@0 in app-hop0-repartition[0]@0 at 0[]",
		"one of words[0]@1 in app-hop0-repartition[0]@2 at 0[]",
		"tick of [0]@0 in app-hop0-repartition[0]@4 at 0[]",
		"two of words[0]@0 in app-hop0-repartition[0]@1 at 0[]",
		"two of words[0]@1 in app-hop0-repartition[0]@3 at 0[]",
	)
}

// TestKeepOriginOfLate is requirement J1: a record that is delayed in front of the topic, or parked
// behind it, comes from where it was read.
func TestKeepOriginOfLate(t *testing.T) {
	var o origins
	broken := map[string]bool{"delayed": true, "parked": true}
	fails := func(value string) func(r word) error {
		return func(r word) error {
			if r.Value == value && broken[value] {
				return errBroken
			}
			return nil
		}
	}
	b := topology.NewBuilder("app")
	front := topology.From(b, wordsTopic, topology.RetryTopics(time.Second)).Peek("front", fails("delayed"),
		topology.OnError(topology.Transient, delayPolicy(3)))
	behind := again(front, "again", topology.KeepOrigin(), topology.ParkKeys()).Peek("behind", fails("parked"),
		topology.OnError(topology.Transient, topology.Policy{Action: topology.Park, Backoff: time.Minute, BackoffMax: time.Minute}))
	o.note(behind, "see").Into(outTopic)
	d := driveOrigins(t, b)
	for _, record := range []string{"a=delayed", "b=parked", "b=held", "c=good"} {
		key, value, _ := strings.Cut(record, "=")
		pipeWord(t, d, "words", key, value)
	}
	o.want(t, "good of words[0]@3 in app-again-repartition[0]@2 at 0[]")
	clear(broken)
	for _, by := range []time.Duration{time.Second, time.Minute} {
		if err := d.Restart(); err != nil {
			t.Fatal(err)
		}
		if err := d.Advance(by); err != nil {
			t.Fatal(err)
		}
	}
	o.want(t, "delayed of words[0]@0 in app-again-repartition[0]@3 at 0[]",
		"parked of words[0]@1 in app-again-repartition[0]@0 at 0[]", "held of words[0]@2 in app-again-repartition[0]@1 at 0[]")
}

// TestKeepOriginOfAppendTime is requirement J1: the time of the broker goes along, where the topic
// of the input has it.
func TestKeepOriginOfAppendTime(t *testing.T) {
	var o origins
	b := topology.NewBuilder("app")
	o.note(again(o.note(topology.From(b, wordsTopic), "front"), "again", topology.KeepOrigin()), "behind")
	top := mustBuild(t, b)
	front := openTask(t, top, graph.TaskID{Subtopology: "words"}, baseConfig())
	behind := openTask(t, top, graph.TaskID{Subtopology: "again"}, baseConfig())
	for clock, at := range map[graph.TimestampType]int64{graph.CreateTime: 0, graph.LogAppendTime: 7} {
		in := front.input("words", []byte("k"), []byte("v"))
		in.Offset, in.Timestamp, in.TimestampType = 5, 7, clock
		out := want(t, front.graph.Process(in), graph.Accept).Outputs[0]
		copied := behind.input(out.Topic, out.Key, out.Value)
		copied.Offset, copied.Timestamp, copied.Headers = 6, out.Timestamp, out.Headers
		want(t, behind.graph.Process(copied), graph.Accept)
		o.want(t, fmt.Sprint("v of words[0]@5 in words[0]@5 at ", at, "[]"), fmt.Sprint("v of words[0]@5 in app-again-repartition[0]@6 at ", at, "[]"))
	}
}

// TestKeepOriginTooLarge: what the topic does not take with the header is a dead letter of the
// input.
func TestKeepOriginTooLarge(t *testing.T) {
	for _, opts := range [][]topology.RepartitionOption{nil, {topology.KeepOrigin()}} {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		again(topology.From(b, wordsTopic), "again", opts...).Into(outTopic)
		d := driveOrigins(t, b, topologytest.MaxMessageBytes("app-again-repartition", 200))
		pipeWord(t, d, "words", "k", strings.Repeat("v", 110))
		letters, err := d.DeadLetters()
		if err != nil || len(letters) != len(opts) {
			t.Fatalf("there are %d letters with %d options, %v", len(letters), len(opts), err)
		}
		for _, l := range letters {
			if l.Info.Node != "again-repartition-sink" || l.Info.Origin.Topic != "words" {
				t.Errorf("the letter says %+v", l.Info)
			}
		}
	}
}

// TestKeepOriginClause_K3: the contract says what dead letters tell.
func TestKeepOriginClause_K3(t *testing.T) {
	b := topology.NewBuilder("app")
	source := topology.From(b, wordsTopic)
	again(source, "lost")
	again(source, "kept", topology.KeepOrigin())
	clauses := mustBuild(t, b).Clauses()
	if len(clauses) != 1 || clauses[0].Node != "kept-repartition-source" || clauses[0].Aspect != topology.OnPoison {
		t.Errorf("the clauses are %+v", clauses)
	}
}

// dyingBehind is a driver of an application in which records die by their values: in front of a
// repartition topic that keeps the origin, or behind it.
func dyingBehind(tb testing.TB, application string, o *origins, opts ...topologytest.Option) *topologytest.Driver {
	tb.Helper()
	dies := func(value string) func(r word) error {
		return func(r word) error {
			if strings.HasPrefix(r.Value, value) {
				return topology.Fail(topology.Validation, schemas.Reason("told to die"))
			}
			return nil
		}
	}
	b := topology.NewBuilder(application, topology.DeadLetters("dead"))
	front := topology.From(b, wordsTopic).Peek("front", dies("front"))
	o.note(again(front, "again", topology.KeepOrigin()), "behind", dies("behind")).Into(outTopic)
	return driveOrigins(tb, b, append(opts, topologytest.Partitions(2))...)
}

func oneLetter(tb testing.TB, d *topologytest.Driver) topologytest.DeadLetter {
	tb.Helper()
	letters, err := d.DeadLetters()
	if err != nil || len(letters) != 1 {
		tb.Fatalf("there are %d letters, %v", len(letters), err)
	}
	return letters[0]
}

// redriven are the headers of a letter as a redrive writes them.
func redriven(l topologytest.DeadLetter) (opts []topologytest.PipeOption) {
	for _, h := range l.Headers {
		if !strings.HasPrefix(h.Key, "__streams.errors.") && h.Key != graph.HeaderLastTimestamp {
			opts = append(opts, topologytest.Header(h.Key, string(h.Value)))
		}
	}
	return append(opts, topologytest.ToPartition(0))
}

// TestKeepOriginOfDeadLetters is requirement G3: the letter of a record that died behind the topic
// says where it was read, and where it died, which stays its identity and is where a redrive writes
// it. It says so through further deaths, and in no other application.
func TestKeepOriginOfDeadLetters(t *testing.T) {
	const internal = "app-again-repartition"
	var o origins
	d := dyingBehind(t, "app", &o)
	pipeWord(t, d, "words", "k", "good", topologytest.ToPartition(1))
	pipeWord(t, d, "words", "k", "behind", topologytest.ToPartition(1), topologytest.Header("trace", "1"))
	o.seen = nil
	first := oneLetter(t, d)
	source := graph.DeadLetterSource{Topic: "words", Partition: 1, Offset: 1}
	check := func(l topologytest.DeadLetter, deaths int, of graph.DeadLetterSource, origin, died string) {
		t.Helper()
		in := map[string]string{}
		for _, h := range l.Headers {
			in[h.Key] += string(h.Value)
		}
		if i := l.Info; i.Source != of || i.Deaths != deaths || placeOf(i.Origin.Topic, i.Origin.Partition, i.Origin.Offset) != origin ||
			i.ID != graph.DeadLetterID(i.Application, i.Origin) || in[graph.HeaderStreamsTopic] != died {
			t.Errorf("the letter says %+v, and that it died in %s", i, in[graph.HeaderStreamsTopic])
		}
		if in["trace"] != "1" || (in[graph.HeaderSource] != "") != (of.Topic != "") {
			t.Errorf("the letter has the headers %v", in)
		}
	}
	check(first, 1, source, internal+"[0]@1", internal)

	pipeWord(t, d, internal, "k", "behind", redriven(first)...)
	second := oneLetter(t, d)
	check(second, 2, source, internal+"[0]@1", internal)
	if len(second.Headers) != len(first.Headers) {
		t.Errorf("the letters have %d and %d headers", len(first.Headers), len(second.Headers))
	}
	pipeWord(t, d, internal, "k", "fixed", redriven(second)...)
	o.want(t, "fixed of words[1]@1 in "+internal+"[0]@3 at 0[trace]")

	// Somebody redrives it to the topic of the input. It is the same record to this application,
	// and one that it has read there to another.
	pipeWord(t, d, "words", "k", "front", redriven(first)...)
	check(oneLetter(t, d), 2, source, internal+"[0]@1", "words")
	other := dyingBehind(t, "other", &o)
	pipeWord(t, other, "words", "k", "front", redriven(first)...)
	check(oneLetter(t, other), 2, graph.DeadLetterSource{}, "words[0]@0", "words")
	pipeWord(t, other, "words", "k", "passes", redriven(first)...)
	o.want(t, "passes of words[0]@1 in other-again-repartition[0]@0 at 0[trace]")
}

// TestKeepOriginOfOddDeadLetters (G3): what is no position is not in a letter, and that a record
// comes from none is; a letter that is cut has it, and that of a record whose output is refused.
func TestKeepOriginOfOddDeadLetters(t *testing.T) {
	const internal = "app-again-repartition"
	var o origins
	for header, kept := range map[string]bool{"words 1 7": true, "": true, "words 1": false} {
		d := dyingBehind(t, "app", &o)
		pipeWord(t, d, internal, "k", "behind", topologytest.Header(graph.HeaderSource, header))
		l := oneLetter(t, d)
		i := slices.IndexFunc(l.Headers, func(h topology.Header) bool { return h.Key == graph.HeaderSource })
		if (i >= 0) != kept || kept && string(l.Headers[i].Value) != header || (l.Info.Source.Topic != "") != (header == "words 1 7") {
			t.Errorf("%q: the letter says %+v, with the headers %v", header, l.Info, keysOf(l.Headers))
		}
		pipeWord(t, d, internal, "k", "fixed", redriven(l)...)
		want := map[string]string{"words 1 7": "words[1]@7", "": "[0]@0", "words 1": internal + "[0]@1"}[header]
		o.want(t, "fixed of "+want+" in "+internal+"[0]@1 at 0[]")
	}

	d := dyingBehind(t, "app", &o, topologytest.MaxMessageBytes("dead", 16<<10))
	pipeWord(t, d, "words", "k", "behind"+strings.Repeat("x", 20<<10), topologytest.ToPartition(1))
	if l := oneLetter(t, d); l.Info.Cut == "" || l.Info.Source.Partition != 1 {
		t.Errorf("the letter that was cut says %+v", l.Info)
	}

	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	again(topology.From(b, wordsTopic), "again", topology.KeepOrigin()).Into(outTopic)
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "again"}, baseConfig())
	in := k.input(internal, []byte("k"), []byte("v"))
	in.Headers = []topology.Header{{Key: graph.HeaderSource, Value: []byte("words 1 7")}}
	info, err := graph.ParseDeadLetter(want(t, k.graph.Refuse(in, "too large"), topology.DeadLetter).Outputs[0].Headers)
	if err != nil || info.Source.Offset != 7 || info.Origin.Topic != internal {
		t.Errorf("the letter says %+v, %v", info, err)
	}
}
