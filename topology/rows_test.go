package topology_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

type name string

func withStore[K, V any](t *testing.T, store topology.StoreOf[K, V]) *topology.Topology {
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

// checkRows types a key, decodes it, and returns the JSON of the key.
func checkRows[K, V any](t *testing.T, store topology.StoreOf[K, V], text, wantBytes, wantJSON string) {
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
	checkRows(t, topology.Store("s", schemas.String(), schemas.String()), "a b", "a b", `"a b"`)
	checkRows(t, topology.Store("s", schemas.Bytes(), schemas.String()), "ab", "ab", `"YWI="`)
	checkRows(t, topology.Store("s", schemas.Int64(), schemas.String()), "258", "\x00\x00\x00\x00\x00\x00\x01\x02", "258")
	checkRows(t, topology.Store("s", schemas.JSON[name](), schemas.String()), "ab", `"ab"`, `"ab"`)
	checkRows(t, topology.Store("s", schemas.JSON[struct{ A int }](), schemas.String()), `{"A":1}`, `{"A":1}`, `{"A":1}`)

	top := withStore(t, topology.Store("numbers", schemas.Int64(), schemas.JSON[map[string]int]()))
	if _, ok := top.Rows("other"); ok {
		t.Error("a store that is not there has rows")
	}
	rows, _ := top.Rows("numbers")
	if _, err := rows.ParseKey("secret"); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "int64") {
		t.Errorf("a text that is no key gave %v", err)
	}
	if v, err := rows.Value([]byte(`{"a":1}`)); err != nil || v.(map[string]int)["a"] != 1 {
		t.Errorf("the value is %v, %v", v, err)
	}
	if _, err := rows.Value([]byte("x")); err == nil {
		t.Error("a damaged value is decoded")
	}
	if got := topology.ChangelogTopic(top.Application(), "numbers"); got != top.Subtopologies()[0].Stores[0].ChangelogTopic {
		t.Errorf("the changelog is %s", got)
	}
}
