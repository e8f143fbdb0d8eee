package topology_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

type name string

func withStore[K, V any](t testing.TB, store topology.Store[state.KeyValue[K, V]]) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder("rows")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	topology.Process(in, "keep", store, func(_ *topology.Context, _ state.KeyValue[K, V], _ topology.Record[string, string],
		_ topology.Emit[string, string]) error {
		return nil
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// optionalCodec is a codec for a store that happens to have optional keys, none of which is absent.
type optionalCodec struct{}

func (optionalCodec) Name() string { return "optional" }

func (optionalCodec) Append(dst []byte, v topology.Option[string]) ([]byte, error) {
	text, ok := v.Get()
	if !ok {
		return dst, schemas.Reason("it is absent")
	}
	return append(dst, text...), nil
}

func (optionalCodec) Decode(b []byte) (topology.Option[string], error) {
	return topology.Some(string(b)), nil
}

// checkRows types a key, decodes it, and returns the JSON of the key.
func checkRows[K, V any](t *testing.T, store topology.Store[state.KeyValue[K, V]], text, wantBytes, wantJSON string) {
	t.Helper()
	rows, ok := withStore(t, store).Rows(store.Name())
	if !ok {
		t.Fatalf("no rows of %s", store.Name())
	}
	b, err := rows.ParseKey(text)
	if err != nil || string(b) != wantBytes {
		t.Errorf("the key %s is %x, %v; want %x", text, b, err, wantBytes)
	}
	v, err := rows.Key(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(v); string(got) != wantJSON || err != nil {
		t.Errorf("the key %s is shown as %s, %v; want %s", text, got, err, wantJSON)
	}
}

// TestRows: a store that is known by its name only has its keys typed and its rows shown.
func TestRows(t *testing.T) {
	checkRows(t, topology.KeyValueStore("s", schemas.String(), schemas.String()), "a b", "a b", `"a b"`)
	checkRows(t, topology.KeyValueStore("s", schemas.Bytes(), schemas.String()), "ab", "ab", `"YWI="`)
	checkRows(t, topology.KeyValueStore("s", schemas.Int64(), schemas.String()), "258", "\x00\x00\x00\x00\x00\x00\x01\x02", "258")
	checkRows(t, topology.KeyValueStore("s", schemas.JSON[name](), schemas.String()), "ab", `"ab"`, `"ab"`)
	checkRows(t, topology.KeyValueStore("s", schemas.JSON[struct{ A int }](), schemas.String()), `{"A":1}`, `{"A":1}`, `{"A":1}`)

	optional := topology.KeyValueStore("s", schemas.Codec[topology.Option[string]](optionalCodec{}), schemas.Codec[topology.Option[string]](optionalCodec{}))
	checkRows(t, optional, "a b", "a b", `"a b"`)
	shown, _ := withStore(t, optional).Rows("s")
	if v, err := shown.Value([]byte("v")); err != nil || v != "v" {
		t.Errorf("the optional value is %v, %v", v, err)
	}

	top := withStore(t, topology.KeyValueStore("numbers", schemas.Int64(), schemas.JSON[map[string]int]()))
	if _, ok := top.Rows("other"); ok {
		t.Error("a store that is not there has rows")
	}
	rows, _ := top.Rows("numbers")
	if _, err := rows.ParseKey("secret"); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "int64") {
		t.Errorf("a text that is no key gave %v", err)
	}
	objects, _ := withStore(t, topology.KeyValueStore("objects", schemas.JSON[struct{ A int }](), schemas.JSON[struct{ A int }]())).Rows("objects")
	for _, text := range []string{`{"A":1,"B":2}`, `{"A":1} {"A":2}`, `{"A":1}x`, `{"A":1`, ""} {
		if b, err := objects.ParseValue(text); err == nil || !strings.Contains(err.Error(), "and no others") {
			t.Errorf("the value %s is taken as %s, %v", text, b, err)
		}
	}
	if v, err := rows.Value([]byte(`{"a":1}`)); err != nil || v.(map[string]int)["a"] != 1 {
		t.Errorf("the value is %v, %v", v, err)
	}
	if _, err := rows.Value([]byte("x")); err == nil {
		t.Error("a damaged value is decoded")
	}
	if got := graph.ChangelogTopic(top.Application(), "numbers"); got != top.Subtopologies()[0].Stores[0].ChangelogTopic {
		t.Errorf("the changelog is %s", got)
	}
}

// TestWritten: a topic that is written has the codecs of its sink, and other topics have none.
func TestWritten(t *testing.T) {
	b := topology.NewBuilder("written", topology.DeadLetters("dead"))
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.Int64()))
	in.Repartition("by-key").Into(topology.Topic("out", schemas.String(), schemas.Int64()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for topic, written := range map[string]bool{"in": false, "out": true, "written-by-key-repartition": true, "dead": false, "other": false} {
		rows, ok := top.Written(topic)
		if ok != written {
			t.Errorf("that %s is written is %t", topic, ok)
		}
		if !ok {
			continue
		}
		if v, err := rows.Value([]byte{0, 0, 0, 0, 0, 0, 1, 2}); err != nil || v != int64(258) || rows.Values.Type != "int64" {
			t.Errorf("a value of %s is %v of type %s, %v", topic, v, rows.Values.Type, err)
		}
	}
}

// TestRowsOfEveryKind: a store of any kind has codecs for its keys and values.
func TestRowsOfEveryKind(t *testing.T) {
	b := topology.NewBuilder("rows")
	in := topology.From(b, topology.Topic("in", schemas.String(), schemas.String()))
	stores := []topology.AnyStore{
		topology.TimestampedStore("timestamped", schemas.String(), schemas.Int64()),
		topology.WindowStore("window", schemas.String(), schemas.Int64(), time.Hour),
		topology.SessionStore("session", schemas.String(), schemas.Int64(), time.Hour),
		topology.VersionedStore("versioned", schemas.String(), schemas.Int64(), time.Hour),
		topology.DedupeStore("dedupe", schemas.String(), schemas.Int64(), time.Hour),
	}
	topology.Stateful(in, "keep", stores...).Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, topology.Record[string, string]) error { return nil }, nil
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stores {
		rows, ok := top.Rows(s.Name())
		if !ok {
			t.Errorf("no rows of %s", s.Name())
			continue
		}
		key, err := rows.ParseKey("k")
		if err != nil || string(key) != "k" {
			t.Errorf("%s: the key is %q, %v", s.Name(), key, err)
		}
		if v, err := rows.Value([]byte{0, 0, 0, 0, 0, 0, 1, 2}); err != nil || v != int64(258) {
			t.Errorf("%s: the value is %v, %v", s.Name(), v, err)
		}
	}
}

// FuzzParseKey: a typed text is refused, or is a key. The text that shows the key has the same
// bytes when it is typed.
func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{"", "a b", "258", "-1", "1e3", `"k"`, `{"A":1}`, `{"A":1}x`, "\xff", "9223372036854775808"} {
		f.Add(seed)
	}
	rows := func(top *topology.Topology) graph.Rows { r, _ := top.Rows("s"); return r }
	numbers := rows(withStore(f, topology.KeyValueStore("s", schemas.Int64(), schemas.String())))
	texts := rows(withStore(f, topology.KeyValueStore("s", schemas.String(), schemas.String())))
	documents := rows(withStore(f, topology.KeyValueStore("s", schemas.JSON[map[string]int](), schemas.String())))
	f.Fuzz(func(t *testing.T, text string) {
		for i, r := range []graph.Rows{numbers, texts, documents} {
			b, err := r.ParseKey(text)
			if err != nil {
				continue
			}
			v, err := r.Key(b)
			if err != nil {
				t.Fatalf("%q is a key of store %d that cannot be read: %v", text, i, err)
			}
			shown, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if s, isText := v.(string); isText {
				shown = []byte(s)
			}
			if again, err := r.ParseKey(string(shown)); err != nil || string(again) != string(b) {
				t.Fatalf("%q is shown as %s, which is %x and not %x, %v", text, shown, again, b, err)
			}
		}
	})
}
