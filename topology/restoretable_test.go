package topology_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

var (
	pricesTopic = topology.Topic("prices", schemas.String(), schemas.JSON[int]())
	pricesTable = topology.TimestampedStore("price-table", schemas.String(), schemas.JSON[int]())
)

// TestRowsOfTheTopic: what a restore makes of records is what processing makes of them, whatever is
// wrong with some.
func TestRowsOfTheTopic(t *testing.T) {
	for _, invalid := range []topology.InvalidTimestamp{topology.RefuseInvalid, topology.SkipInvalid} {
		var built *topology.Topology
		k := tableTask(t, func(b *topology.Builder) {
			topology.TableFrom(b, pricesTopic, pricesTable, topology.RestoreFromTopic(), topology.OnInvalidTimestamp(invalid))
		})
		b := topology.NewBuilder("tables", topology.DeadLetters("dead"))
		topology.TableFrom(b, pricesTopic, pricesTable, topology.RestoreFromTopic(), topology.OnInvalidTimestamp(invalid))
		built = mustBuild(t, b)
		read := built.Subtopologies()[0].Stores[0].FromSource.Reader()
		restored := map[string][]byte{}
		random := rand.New(rand.NewPCG(7, uint64(invalid)))
		values := [][]byte{[]byte("1"), []byte("2"), []byte("{"), nil, {}, []byte("null"), []byte("40")}
		dead := 0
		for offset := range int64(2000) {
			in := graph.Input{
				Topic: "prices", Offset: offset, Timestamp: random.Int64N(1000) - 20, Value: values[random.IntN(len(values))],
				Key: fmt.Appendf(nil, "k%d", random.IntN(50)), StreamTimeBefore: state.NoTime, StreamTime: state.NoTime,
			}
			if random.IntN(10) == 0 {
				in.Key = nil
			}
			if random.IntN(10) == 0 {
				in.Headers = []topology.Header{{Key: topology.HeaderMode, Value: []byte("no mode")}}
			}
			if v := k.graph.Process(in); v.Action == topology.DeadLetter {
				dead++
			} else {
				want(t, v, graph.Accept)
			}
			w, ok, err := read(in.Key, in.Value, in.Timestamp)
			switch {
			case err != nil:
				t.Fatal(err)
			case ok && w.Delete:
				delete(restored, string(w.Key))
			case ok:
				restored[string(w.Key)] = w.Value
			}
		}
		rows := 0
		for e, err := range k.state.Store("price-table").Scan(state.Range{}) {
			if err != nil {
				t.Fatal(err)
			}
			rows++
			if got, ok := restored[string(e.Key)]; !ok || !bytes.Equal(got, e.Value) {
				t.Errorf("%s: %s: key %s is %x, restored %x", built.Name(), invalid, e.Key, e.Value, got)
			}
		}
		if rows != len(restored) || rows < 20 || dead < 100 {
			t.Errorf("%s: %d rows, restored %d, %d dead letters", invalid, rows, len(restored), dead)
		}
	}
}

// TestWrittenKeys: keys that their codec writes in other bytes than it has read are told from those
// of which there is one form.
func TestWrittenKeys(t *testing.T) {
	b := topology.NewBuilder("tables", topology.DeadLetters("dead"))
	in := topology.Topic("prices", schemas.JSON[map[string]int](), schemas.JSON[int]())
	topology.TableFrom(b, in, topology.TimestampedStore("t", schemas.JSON[map[string]int](), schemas.JSON[int]()), topology.RestoreFromTopic())
	rows := mustBuild(t, b).Subtopologies()[0].Stores[0].FromSource
	for key, written := range map[string]bool{
		`{"a":1,"b":2}`: true, `{"b":2,"a":1}`: false, `{"a":1, "b":2}`: false, `{"a":1}`: true, `{`: true,
	} {
		if got := rows.Written([]byte(key)); got != written {
			t.Errorf("key %s has the bytes that its codec writes: %t", key, got)
		}
	}
	if !rows.Written(nil) {
		t.Error("a null has another form")
	}
}

// shouting reads in upper case what the codec of strings reads as it is, under the same name.
type shouting struct{ schemas.Codec[string] }

func (s shouting) Decode(b []byte) (string, error) {
	v, err := s.Codec.Decode(b)
	return strings.ToUpper(v), err
}

// TestRowsOfOneSource: two tables of one topic are restored by the codecs that the source has,
// which are those that were named first.
func TestRowsOfOneSource(t *testing.T) {
	b := topology.NewBuilder("tables", topology.DeadLetters("dead"))
	table := func(store string, value schemas.Codec[string]) {
		topology.TableFrom(b, topology.Topic("names", schemas.String(), value),
			topology.TimestampedStore(store, schemas.String(), schemas.String()), topology.RestoreFromTopic())
	}
	table("first", schemas.String())
	table("second", shouting{schemas.String()})
	for _, s := range mustBuild(t, b).Subtopologies()[0].Stores {
		w, ok, err := s.FromSource.Reader()([]byte("k"), []byte("low"), 5)
		if err != nil || !ok || !bytes.HasSuffix(w.Value, []byte("low")) {
			t.Errorf("store %s has %q, %t, %v", s.Name, w.Value, ok, err)
		}
	}
}

// TestFailureBehindItsTopic: a record of which nothing would be left but its dead letter stops the
// task, because the topic has it; what its codecs refuse is a dead letter as ever. Without the
// option both are.
func TestFailureBehindItsTopic(t *testing.T) {
	for _, test := range []struct {
		name   string
		opts   []topology.SourceOption
		behind topology.Action
	}{
		{"with the option", []topology.SourceOption{topology.RestoreFromTopic()}, topology.Stop},
		{"without it", nil, topology.DeadLetter},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := tableTask(t, func(b *topology.Builder) {
				table := topology.TableFrom(b, pricesTopic, pricesTable, test.opts...)
				topology.MapTable(table, "fail", func(_ string, v int) (int, error) {
					switch v {
					case 1:
						return 0, topology.Fail(topology.Validation, schemas.Reason("no ones"))
					case 2:
						panic("two")
					}
					return v, nil
				}).Into(topology.Topic("result", schemas.String(), schemas.JSON[int]()))
			})
			input := func(value string) graph.Input {
				return graph.Input{Topic: "prices", Key: []byte("k"), Value: []byte(value), StreamTimeBefore: state.NoTime}
			}
			want(t, k.graph.Process(input("7")), graph.Accept)
			want(t, k.graph.Process(input("{")), topology.DeadLetter)
			early := input("7")
			early.Timestamp = -1
			want(t, k.graph.Process(early), topology.DeadLetter)
			late := input("7")
			late.Timestamp = baseConfig().Now().Add(48 * time.Hour).UnixMilli()
			for what, in := range map[string]graph.Input{"error": input("1"), "panic": input("2"), "timestamp ahead of the clock": late} {
				v := want(t, k.graph.Process(in), test.behind)
				if says := strings.Contains(v.Failure.Error(), "RestoreFromTopic"); says != (test.behind == topology.Stop) {
					t.Errorf("%s: %v", what, v.Failure)
				}
			}
			want(t, k.graph.Refuse(input("7"), "too large"), test.behind)
			if v, ms, ok, err := pricesTable.Open(k.state.Store("price-table")).Get("k"); v != 7 || ms != 0 || !ok || err != nil {
				t.Errorf("the row is %d at %d, %t, %v", v, ms, ok, err)
			}
		})
	}
}

// TestInvalidModeOfItsTopic: a header with a mode that no record can have stops no task for good:
// the record is in the table, as a restore has it, and does not pass for a live one. Without the
// option it is a dead letter.
func TestInvalidModeOfItsTopic(t *testing.T) {
	for _, mode := range []string{"no mode", topology.Forensic.String(), ""} {
		for action, opts := range map[topology.Action][]topology.SourceOption{
			graph.Accept: {topology.RestoreFromTopic()}, topology.DeadLetter: nil,
		} {
			k := tableTask(t, func(b *topology.Builder) {
				topology.TableFrom(b, pricesTopic, pricesTable, opts...).Into(topology.Topic("result", schemas.String(), schemas.JSON[int]()))
			})
			v := want(t, k.graph.Process(graph.Input{
				Topic: "prices", Key: []byte("k"), Value: []byte("7"), StreamTimeBefore: state.NoTime,
				Headers: []topology.Header{{Key: topology.HeaderMode, Value: []byte(mode)}},
			}), action)
			if action == topology.DeadLetter {
				continue
			}
			if len(v.Outputs) != 1 || len(v.Outputs[0].Headers) != 1 || string(v.Outputs[0].Headers[0].Value) != topology.Replay.String() {
				t.Errorf("mode %q: the outputs are %+v", mode, v.Outputs)
			}
			if got := countsOf(v); got != "prices-source.invalid-mode=1" {
				t.Errorf("mode %q: counts %s", mode, got)
			}
			if n, _, ok, err := pricesTable.Open(k.state.Store("price-table")).Get("k"); n != 7 || !ok || err != nil {
				t.Errorf("mode %q: the row is %d, %t, %v", mode, n, ok, err)
			}
			// The next one is what it says.
			v = want(t, k.graph.Process(graph.Input{Topic: "prices", Key: []byte("k"), Value: []byte("8"), StreamTimeBefore: state.NoTime}),
				graph.Accept)
			if len(v.Outputs) != 1 || len(v.Outputs[0].Headers) != 0 {
				t.Errorf("after mode %q: the outputs are %+v", mode, v.Outputs)
			}
		}
	}
}

// TestUnreadableNow: an error of a codec that may pass is none of the record, so that a restore
// does not leave the record out.
func TestUnreadableNow(t *testing.T) {
	b := topology.NewBuilder("tables")
	topic := topology.Topic("prices", schemas.String(), failingCodec{topology.Transient})
	topology.TableFrom(b, topic, topology.TimestampedStore("t", schemas.String(), failingCodec{}), topology.RestoreFromTopic())
	read := mustBuild(t, b).Subtopologies()[0].Stores[0].FromSource.Reader()
	if _, ok, err := read([]byte("k"), []byte("v"), 1); ok || topology.ClassOf(err) != topology.Transient {
		t.Errorf("it returned %t, %v", ok, err)
	}
}

// TestRowThatStays: a record that leaves the table as it is names the row that stays, unless no
// record with its key has one.
func TestRowThatStays(t *testing.T) {
	b := topology.NewBuilder("tables")
	topology.TableFrom(b, pricesTopic, pricesTable, topology.RestoreFromTopic())
	read := mustBuild(t, b).Subtopologies()[0].Stores[0].FromSource.Reader()
	for name, tc := range map[string]struct {
		key, value string
		timestamp  int64
		row        string
	}{
		"value":         {"k", "{", 1, "k"},
		"timestamp":     {"k", "1", -1, "k"},
		"key":           {"\xff", "1", 1, ""},
		"key and value": {"\xff", "{", 1, ""},
	} {
		if w, ok, err := read([]byte(tc.key), []byte(tc.value), tc.timestamp); ok || err != nil || string(w.Key) != tc.row || w.Delete {
			t.Errorf("%s: it returned %+v, %t, %v", name, w, ok, err)
		}
	}
}

// failingCodec fails with a class.
type failingCodec struct{ class topology.Class }

func (failingCodec) Name() string { return "failing" }
func (failingCodec) Append(dst []byte, v uint64) ([]byte, error) {
	return binary.AppendUvarint(dst, v), nil
}
func (c failingCodec) Decode([]byte) (uint64, error) {
	return 0, topology.Fail(c.class, errors.New("not now"))
}

// TestRestoreFromTopicMistakes: what would make the table something else than its topic is told by
// Build.
func TestRestoreFromTopicMistakes(t *testing.T) {
	option := topology.RestoreFromTopic()
	build := func(declare func(b *topology.Builder)) error {
		b := topology.NewBuilder("app")
		declare(b)
		_, err := b.Build()
		return err
	}
	table := func(opts ...topology.SourceOption) error {
		return build(func(b *topology.Builder) { topology.TableFrom(b, pricesTopic, pricesTable, append(opts, option)...) })
	}
	wantMistakes(t, table(topology.StartLatest()), "prices: RestoreFromTopic: the source has to begin with the first record")
	wantMistakes(t, table(topology.StartAt(time.UnixMilli(1))), "prices: RestoreFromTopic: the source has to begin")
	wantMistakes(t, table(topology.OnInvalidTimestamp(topology.StreamTimeForInvalid)), "prices: RestoreFromTopic: it does not go with Stream")
	wantMistakes(t, table(topology.ParkKeys()), "prices: RestoreFromTopic: it does not go with ParkKeys")
	wantMistakes(t, table(topology.RetryTopics(time.Second)), "prices: RestoreFromTopic: it does not go with ParkKeys or RetryTopics")
	wantMistakes(t, table(topology.EventTime(func(topology.Record[string, topology.Option[int]]) (time.Time, error) {
		return time.Time{}, nil
	})), "prices: RestoreFromTopic: it does not go with EventTime")
	wantMistakes(t, build(func(b *topology.Builder) { topology.From(b, pricesTopic, option) }),
		"prices-source: RestoreFromTopic is for tables")
	wantMistakes(t, build(func(b *topology.Builder) {
		topology.TableFrom(b, pricesTopic, pricesTable, option)
		topology.Stateful(topology.From(b, leftTopic), "meddle", pricesTable).Process(
			func(*topology.Setup) (topology.Handler[string, string], error) { return nil, nil })
	}), "meddle: store price-table is restored from the topic prices (RestoreFromTopic), so that no other node may write to it")
	if err := build(func(b *topology.Builder) {
		left := topology.TableFrom(b, pricesTopic, pricesTable, option)
		right := topology.TableFrom(b, leftTopic, leftTable)
		topology.JoinTables(left, right, "join", func(string, int, string) (string, error) { return "", nil })
	}); err != nil {
		t.Errorf("a join is refused: %v", err)
	}
}

// TestRestoreFromTopicDescribed: the store has no changelog, and the difference is one of the
// topology.
func TestRestoreFromTopicDescribed(t *testing.T) {
	build := func(opts ...topology.SourceOption) *topology.Topology {
		b := topology.NewBuilder("app")
		topology.TableFrom(b, pricesTopic, pricesTable, opts...)
		return mustBuild(t, b)
	}
	with, without := build(topology.RestoreFromTopic()), build()
	store := with.Subtopologies()[0].Stores[0]
	if len(with.InternalTopics()) != 0 || store.ChangelogTopic != "" || store.RestoredFrom != "prices" || store.FromSource == nil {
		t.Errorf("internal topics %v, store %+v", with.InternalTopics(), store)
	}
	if len(without.InternalTopics()) != 1 || without.Subtopologies()[0].Stores[0].FromSource != nil {
		t.Errorf("without the option: internal topics %v", without.InternalTopics())
	}
	if with.Fingerprint() == without.Fingerprint() {
		t.Error("the fingerprints are the same")
	}
	d := graph.Compare(without.Description(), with.Description())
	if len(d) != 1 || d[0].String() != "store price-table: changelog app-price-table-changelog becomes prices" {
		t.Errorf("the differences are %v", d)
	}
	if s := with.Description().Subtopologies[0].Stores[0]; s.RestoredFrom != "prices" || s.ChangelogTopic != "" {
		t.Errorf("it is described as %+v", s)
	}
}
