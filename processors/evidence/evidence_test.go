package evidence_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/decision"
	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

var (
	ordersTopic = topology.Topic("orders", schemas.String(), schemas.String())
	audit       = evidence.Topic("audit")
)

// judge declares a processor that accepts every record, and fails at the first attempt at "again".
func judge(b *topology.Builder) decision.Outlet { return judgeOf(topology.From(b, ordersTopic)) }

func judgeOf(s topology.Stream[string, string]) decision.Outlet { return judgeNamed(s, "judge") }

func judgeNamed(s topology.Stream[string, string], name string) decision.Outlet {
	node := topology.Stateful(s, name)
	out := decision.Declare(node)
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		log := out.In(t)
		return func(c *topology.Context, r topology.Record[string, string]) error {
			if r.Value == "again" && c.Attempt() == 1 {
				return topology.Fail(topology.Transient, schemas.Reason("asked to"))
			}
			if log == nil {
				return nil
			}
			err := log(c, decision.Decision{
				Outcome: "accepted", Reason: "because", Store: "judged", Row: []byte(r.Key), Subject: "s1",
				Before: topology.Some(int64(0)), After: topology.Some(int64(1)),
			})
			if err == nil && r.Value == "fail" {
				err = topology.Fail(topology.Validation, schemas.Reason("asked to"))
			}
			return err
		}, nil
	})
	return out
}

func newDriver(t *testing.T, mode topology.Mode) *processortest.Driver {
	return processortest.New(t, func(b *topology.Builder) { evidence.Record(judge(b).Stream(), "judge-audit", audit) },
		topologytest.Mode(mode))
}

// entries returns what was recorded, which is JSON as package schemas writes it.
func entries(t *testing.T, d *processortest.Driver) (list []evidence.Entry) {
	t.Helper()
	for _, r := range d.Take("audit") {
		e, err := evidence.Decode(r.Key, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := schemas.JSON[evidence.Entry]().Append(nil, e); err != nil || !bytes.Equal(r.Value, plain) {
			t.Errorf("an entry is written as\n%s, want\n%s (%v)", r.Value, plain, err)
		}
		list = append(list, e)
	}
	return list
}

// TestEvidence is requirement J1: all that an operator can ask about a row is in its evidence. With
// it B1: the ids are there under their own names.
func TestEvidence(t *testing.T) {
	d := newDriver(t, topology.Backfill)
	d.Pipe("orders", "k0", "v")
	d.Pipe("orders", "k", "v", topologytest.Header(envelope.HeaderMessageID, "m"),
		topologytest.Header("ce_id", "e"), topologytest.Header("ce_type", "t"),
		topologytest.Header(evidence.HeaderEventVersion, "2"), topologytest.Header(envelope.HeaderIdempotencyKey, "i"),
		topologytest.Header(envelope.HeaderAggregateID, "a"), topologytest.Header(envelope.HeaderCorrelationID, "c"),
		topologytest.Header(envelope.HeaderCausationID, "p"))
	got := entries(t, d)
	if len(got) != 2 {
		t.Fatalf("there are %d entries", len(got))
	}
	before, after := int64(0), int64(1)
	want := evidence.Entry{
		Row: []byte("k"), Application: "app", Version: got[0].Version, Node: "judge", Task: "orders_0",
		Outcome: "accepted", Reason: "because", Store: "judged", Subject: "s1", Before: &before, After: &after,
		Topic: "orders", Offset: 1, Time: d.Now().UnixMilli(), StreamTime: d.Now().UnixMilli(),
		Mode: "BACKFILL", Attempt: 1,
		MessageID: "m", EventID: "e", EventType: "t", EventVersion: "2", IdempotencyKey: "i", AggregateID: "a",
		CorrelationID: "c", CausationID: "p",
	}
	if !reflect.DeepEqual(got[1], want) || len(want.Version) != 32 {
		t.Errorf("the entry is\n%+v, want\n%+v", got[1], want)
	}
}

// TestTopicsOfEvidence: of the topics that a topology writes, tools find those of evidence.
func TestTopicsOfEvidence(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	orders := topology.From(b, ordersTopic)
	orders.Into(topology.Topic("copies", schemas.String(), schemas.String()))
	without, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := evidence.Topics(without); len(got) > 0 {
		t.Errorf("without evidence its topics are %q", got)
	}
	b = topology.NewBuilder("app", topology.DeadLetters("dead"))
	orders = topology.From(b, ordersTopic)
	orders.Into(topology.Topic("copies", schemas.String(), schemas.String()))
	evidence.Record(judgeNamed(orders, "first").Stream(), "first-audit", audit)
	evidence.Record(judgeNamed(orders, "second").Stream(), "second-audit", audit)
	evidence.Record(judgeNamed(orders, "third").Stream(), "third-audit", evidence.Topic("another"))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got := evidence.Topics(top); !slices.Equal(got, []string{"another", "audit"}) {
		t.Errorf("the topics of evidence are %q", got)
	}
}

// TestBinaryIDsAreEvidenceInHex: an id that is bytes has the form under which an inbox stores it.
func TestBinaryIDsAreEvidenceInHex(t *testing.T) {
	d := newDriver(t, topology.Live)
	d.Pipe("orders", "k", "v", topologytest.Header(envelope.HeaderEventID, "\x00\xff"), topologytest.Header(envelope.HeaderMessageID, "m\u00fc"))
	got := entries(t, d)
	if len(got) != 1 || got[0].EventID != "00ff" || got[0].MessageID != "m\u00fc" {
		t.Errorf("the entries are %+v", got)
	}
}

// TestModes is requirement I1: evidence contains the mode of the record, and is itself a record of
// that mode. Evidence that a forensic run shows has its mode too.
func TestModes(t *testing.T) {
	for _, test := range []struct {
		app          topology.Mode
		header, want string
	}{
		{topology.Live, "", "LIVE"},
		{topology.Live, "BACKFILL", "BACKFILL"},
		{topology.Live, "REPAIR", "REPAIR"},
		{topology.Replay, "", "REPLAY"},
		{topology.Replay, "REPAIR", "REPLAY"},
		{topology.Backfill, "", "BACKFILL"},
		{topology.Repair, "", "REPAIR"},
		{topology.Forensic, "", "FORENSIC"},
	} {
		d := newDriver(t, test.app)
		var opts []topologytest.PipeOption
		if test.header != "" {
			opts = append(opts, topologytest.Header(topology.HeaderMode, test.header))
		}
		d.Pipe("orders", "k", "v", opts...)
		records := d.Take("audit")
		if len(records) != 1 {
			t.Fatalf("%+v: there are %d entries", test, len(records))
		}
		e, err := evidence.Decode(records[0].Key, records[0].Value)
		if err != nil {
			t.Fatal(err)
		}
		own := "LIVE"
		for _, h := range records[0].Headers {
			if h.Key == topology.HeaderMode {
				own = string(h.Value)
			}
		}
		if e.Mode != test.want || own != test.want {
			t.Errorf("%+v: the entry says %s, and its record %s", test, e.Mode, own)
		}
	}
}

// TestPositions is requirement J1: a record is named where it was read from outside, and no copy of
// it in its place, also behind an internal topic that keeps the origin.
func TestPositions(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		evidence.Record(judge(b).Stream(), "judge-audit", audit)
		again := topology.RepartitionWith(topology.From(b, topology.Topic("others", schemas.String(), schemas.String())), "again",
			schemas.String(), schemas.String())
		node := topology.Stateful(again, "kept")
		out := decision.Declare(node)
		node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
			log := out.In(t)
			return func(c *topology.Context, r topology.Record[string, string]) error {
				return log(c, decision.Decision{Outcome: "seen", Row: []byte(r.Key)})
			}, nil
		})
		evidence.Record(out.Stream(), "kept-audit", audit)
		told := topology.RepartitionWith(topology.From(b, topology.Topic("tellers", schemas.String(), schemas.String())), "told",
			schemas.String(), schemas.String(), topology.KeepOrigin())
		evidence.Record(judgeNamed(told, "judge-told").Stream(), "told-audit", audit)
	})
	d.Pipe("others", "k0", "v")
	d.Pipe("others", "k", "v")
	d.Pipe("orders", "k", "v")
	d.Pipe("tellers", "k0", "fail")
	d.Pipe("tellers", "k", "v")
	var got []string
	for _, e := range entries(t, d) {
		got = append(got, fmt.Sprintf("%s[%d]@%d of %s", e.Topic, e.Partition, e.Offset, e.Turn))
	}
	want := []string{"[0]@0 of app-again-repartition[0]@0", "[0]@0 of app-again-repartition[0]@1", "orders[0]@0 of ",
		"tellers[0]@1 of app-told-repartition[0]@1"}
	if !slices.Equal(got, want) {
		t.Errorf("the positions are %q, want %q", got, want)
	}
}

// TestPositionsOfDeferred is requirement J1: what a projection has kept back is named where it was
// read itself, beside the record in whose turn it was decided about, or none.
func TestPositionsOfDeferred(t *testing.T) {
	const limit = 8 * time.Second
	for name, test := range map[string]struct {
		limits projection.Limits
		inside []topology.RepartitionOption
		want   []string
	}{
		"released": {limits: projection.Limits{Records: 10, StreamTime: time.Hour}, want: []string{
			"parked orders[0]@0 false of ", "applied orders[0]@1 false of ", "applied orders[0]@0 true of orders[0]@1",
			"applied orders[0]@2 false of ",
		}},
		"released behind a topic that keeps the origin": {limits: projection.Limits{Records: 10, StreamTime: time.Hour},
			inside: []topology.RepartitionOption{topology.KeepOrigin()}, want: []string{
				"parked orders[0]@0 false of app-again-repartition[0]@0", "applied orders[0]@1 false of app-again-repartition[0]@1",
				"applied orders[0]@0 true of app-again-repartition[0]@1", "applied orders[0]@2 false of app-again-repartition[0]@2",
			}},
		"released behind a repartition topic": {limits: projection.Limits{Records: 10, StreamTime: time.Hour},
			inside: []topology.RepartitionOption{topology.Partitions(1)},
			want: []string{
				"parked [0]@0 false of app-again-repartition[0]@0", "applied [0]@0 false of app-again-repartition[0]@1",
				"applied [0]@0 true of app-again-repartition[0]@1", "applied [0]@0 false of app-again-repartition[0]@2",
			}},
		"given up by the stream time": {limits: projection.Limits{Records: 10, StreamTime: limit}, want: []string{
			"parked orders[0]@0 false of ", "applied orders[0]@1 false of ", "abandoned orders[0]@0 true of ",
		}},
		"accepted by the wall clock": {
			limits: projection.Limits{Records: 10, WallClock: limit, Then: projection.AcceptLatest}, want: []string{
				"parked orders[0]@0 false of ", "applied orders[0]@1 false of ", "applied orders[0]@0 true of ",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				s := topology.From(b, ordersTopic)
				if test.inside != nil {
					s = topology.RepartitionWith(s, "again", schemas.String(), schemas.String(), test.inside...)
				}
				p := projection.Latest(s, "rows",
					func(r topology.Record[string, string]) (int64, error) { return strconv.ParseInt(r.Value, 10, 64) },
					func(_ string, _ bool, r topology.Record[string, string]) (string, error) { return r.Value, nil },
					schemas.String(), projection.FirstVersion(1), projection.ParkGaps(schemas.String(), test.limits))
				p.Abandoned().Peek("end", func(topology.Record[string, projection.Abandoned[string]]) error { return nil })
				evidence.Record(p.Decisions(), "rows-audit", audit)
			})
			pipe := func(key, version string, second int64) {
				d.Pipe("orders", key, version, topologytest.At(time.Unix(second, 0)))
			}
			pipe("k", "2", 10)
			if test.limits.StreamTime == time.Hour {
				pipe("k", "1", 11)
				pipe("k", "3", 12)
			} else {
				pipe("other", "1", 18)
			}
			if err := d.Advance(2 * limit); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries(t, d) {
				got = append(got, fmt.Sprintf("%s %s[%d]@%d %t of %s", e.Outcome, e.Topic, e.Partition, e.Offset, e.Deferred, e.Turn))
				if e.Deferred && e.Time != 10_000 {
					t.Errorf("the deferred record is of %d", e.Time)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the positions are %q, want %q", got, test.want)
			}
		})
	}
}

// TestTimes is requirement J1: the time of the source and that of the broker are told apart, where
// the broker has one.
func TestTimes(t *testing.T) {
	b := topology.NewBuilder("app")
	source := topology.From(b, ordersTopic, topology.EventTime(func(topology.Record[string, string]) (time.Time, error) {
		return time.UnixMilli(5), nil
	}))
	evidence.Record(judgeOf(source).Stream(), "judge-audit", audit)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g, err := top.NewGraph(graph.TaskID{Subtopology: "orders"}, nil, topology.GraphConfig{
		Partitions: func(string) int32 { return 1 }, Now: func() time.Time { return time.UnixMilli(9) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for clock, want := range map[graph.TimestampType]int64{graph.CreateTime: 0, graph.LogAppendTime: 7} {
		v := g.Process(graph.Input{Topic: "orders", Timestamp: 7, TimestampType: clock, Key: []byte("k"), Value: []byte("v")})
		if len(v.Outputs) != 1 {
			t.Fatalf("the verdict is %+v", v)
		}
		e, err := evidence.Decode(v.Outputs[0].Key, v.Outputs[0].Value)
		if err != nil || e.Time != 5 || e.AppendTime != want {
			t.Errorf("%s: the entry is %+v, error %v", clock, e, err)
		}
	}
}

// TestTimesBehind is requirement J1: behind an internal topic that keeps the origin, the time of
// the broker is that of the record which was read from outside.
func TestTimesBehind(t *testing.T) {
	b := topology.NewBuilder("app")
	told := topology.RepartitionWith(topology.From(b, ordersTopic), "told", schemas.String(), schemas.String(), topology.KeepOrigin())
	evidence.Record(judgeOf(told).Stream(), "judge-audit", audit)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	process := func(subtopology string, in graph.Input) graph.Output {
		t.Helper()
		g, err := top.NewGraph(graph.TaskID{Subtopology: subtopology}, nil, topology.GraphConfig{
			Partitions: func(string) int32 { return 1 }, Now: func() time.Time { return time.UnixMilli(9) },
		})
		if err != nil {
			t.Fatal(err)
		}
		v := g.Process(in)
		if len(v.Outputs) != 1 {
			t.Fatalf("the verdict is %+v", v)
		}
		return v.Outputs[0]
	}
	for clock, want := range map[graph.TimestampType]int64{graph.CreateTime: 0, graph.LogAppendTime: 7} {
		copied := process("orders", graph.Input{
			Topic: "orders", Offset: 3, Timestamp: 7, TimestampType: clock, Key: []byte("k"), Value: []byte("v")})
		out := process("told", graph.Input{
			Topic: copied.Topic, Offset: 4, Timestamp: copied.Timestamp, Key: copied.Key, Value: copied.Value, Headers: copied.Headers})
		e, err := evidence.Decode(out.Key, out.Value)
		if err != nil || e.Topic != "orders" || e.Offset != 3 || e.AppendTime != want || e.Turn != "app-told-repartition[0]@4" {
			t.Errorf("%s: the entry is %+v, error %v", clock, e, err)
		}
		for _, h := range out.Headers {
			t.Errorf("the evidence has the header %s", h.Key)
		}
	}
}

// TestOneFactForAnIntent is requirement J2: attempts leave no facts, and a record that fails leaves
// none either.
func TestOneFactForAnIntent(t *testing.T) {
	d := newDriver(t, topology.Live)
	d.Pipe("orders", "k", "again")
	if got := entries(t, d); len(got) != 1 || got[0].Attempt != 2 || got[0].Mode != "LIVE" {
		t.Errorf("two attempts left %+v", got)
	}
	d.Pipe("orders", "k", "fail")
	if got := entries(t, d); len(got) != 0 {
		t.Errorf("a failure left %+v", got)
	}
	d.WantDeadLetter("judge", topology.Validation, "asked to")
}

// TestEntriesAreStrict: what is no entry is an error that does not quote it.
func TestEntriesAreStrict(t *testing.T) {
	codectest.Run(t, schemas.JSON[evidence.Entry](), evidence.Entry{}, evidence.Entry{Subject: codectest.Canary, Offset: 7})
	for _, value := range [][]byte{nil, []byte(codectest.Canary), []byte(`{}`), []byte(`{"id":"1","amount":2}`)} {
		if e, err := evidence.Decode([]byte("k"), value); err == nil {
			t.Errorf("%q is read as %+v", value, e)
		}
	}
}

// FuzzDecode: whatever a topic holds, there is an entry or an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("k"), []byte(`{"node":"judge","outcome":"accepted","before":1}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := evidence.Decode(key, value)
		if err == nil && string(e.Row) != string(key) {
			t.Fatalf("the row is %q", e.Row)
		}
	})
}
