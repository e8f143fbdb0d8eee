package projection_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

const errGap = "versions are missing before the one of the record"

// TestStaleAndDuplicatesAreCountedApart, for requirement K1 too: stale records and duplicates are
// counted apart. Row of the failure matrix: older version after newer. Requirement D2.
func TestStaleAndDuplicatesAreCountedApart(t *testing.T) {
	d := newRouted(t, false)
	send(d, "3:a", "4:b")
	d.Want("changes", `{"version":3,"value":["a"]}`, `{"version":4,"value":["a","b"]}`)
	send(d, "4:c", "3:d", "-1:e")
	d.Want("stale", `{"outcome":"duplicate","version":4,"applied":4,"value":"c"}`,
		`{"outcome":"stale","version":3,"applied":4,"value":"d"}`,
		`{"outcome":"stale","version":-1,"applied":4,"value":"e"}`)
	d.Want("changes")
	d.Want("dead")
	d.WantCounts("texts.applied=2 texts.duplicates=1 texts.stale=2")
}

// TestFailFast: what comes behind a gap is a dead letter, and changes no row; once the gap is
// closed it is applied. Row of the failure matrix: gap. Requirement D3.
func TestFailFast(t *testing.T) {
	for name, opts := range map[string][]projection.Option{
		"default": nil, "chosen": {projection.OnGap(projection.FailFast)},
	} {
		t.Run(name, func(t *testing.T) {
			d := newRouted(t, false, opts...)
			send(d, "1:a")
			before := d.Rows("texts", 0)["k"]
			send(d, "3:c")
			d.WantDeadLetter("texts", topology.Validation, errGap)
			if after := d.Rows("texts", 0)["k"]; after != before {
				t.Errorf("the row changed from %x to %x", before, after)
			}
			d.Want("changes", `{"version":1,"value":["a"]}`)
			// The missing version arrives, and the one that failed comes again.
			send(d, "2:b", "3:c")
			d.Want("changes", `{"version":2,"value":["a","b"]}`, `{"version":3,"value":["a","b","c"]}`)
			d.WantCounts("texts.applied=3 texts.dead-letter-validation=1")
		})
	}
}

// TestAcceptLatest, for requirement K1 too: gaps are counted. Requirement D3.
func TestAcceptLatest(t *testing.T) {
	d := newRouted(t, true, projection.OnGap(projection.AcceptLatest))
	send(d, "1:a", "4:d", "5:e", "2:b")
	d.Want("changes", `{"version":1,"value":["a"]}`, `{"version":4,"value":["a","d"]}`,
		`{"version":5,"value":["a","d","e"]}`)
	d.Want("gaps", `{"expected":2,"actual":4,"value":"d"}`)
	d.Want("stale", `{"outcome":"stale","version":2,"applied":5,"value":"b"}`)
	d.WantCounts("texts.applied=3 texts.gaps=1 texts.stale=1")
}

func TestSparse(t *testing.T) {
	d := newRouted(t, false, projection.Sparse())
	send(d, "10:a", "1000:b", "1000:c", "999:d")
	d.Want("changes", `{"version":10,"value":["a"]}`, `{"version":1000,"value":["a","b"]}`)
	d.Want("dead")
	d.WantCounts("texts.applied=2 texts.duplicates=1 texts.stale=1")
}

// TestExtremeVersions: comparing versions does not overflow.
func TestExtremeVersions(t *testing.T) {
	d := newRouted(t, true, projection.OnGap(projection.AcceptLatest))
	least, most := strconv.Itoa(math.MinInt64), strconv.Itoa(math.MaxInt64)
	send(d, least+":a", most+":b", most+":c", least+":d")
	d.Want("gaps", fmt.Sprintf(`{"expected":%d,"actual":%d,"value":"b"}`, math.MinInt64+1, math.MaxInt64))
	d.WantCounts("texts.applied=2 texts.duplicates=1 texts.gaps=1 texts.stale=1")
}

// TestDeleteIsAVersion: a delete is a version, so older versions are stale; a later version creates
// the aggregate again. Requirement D6.
func TestDeleteIsAVersion(t *testing.T) {
	d := newRouted(t, false)
	send(d, "1:a", "2:-")
	d.Want("changes", `{"version":1,"value":["a"]}`, `{"version":2,"deleted":true,"value":null}`)
	send(d, "1:a", "2:b", "2:-")
	d.Want("changes")
	d.Want("stale", `{"outcome":"stale","version":1,"applied":2,"value":"a"}`,
		`{"outcome":"duplicate","version":2,"applied":2,"value":"b"}`,
		`{"outcome":"duplicate","version":2,"applied":2,"value":"null"}`)
	d.Restart()
	send(d, "4:d")
	d.WantDeadLetter("texts", topology.Validation, errGap)
	send(d, "3:c", "4:d")
	d.Want("changes", `{"version":3,"value":["c"]}`, `{"version":4,"value":["c","d"]}`)
	d.WantCounts("texts.applied=4 texts.dead-letter-validation=1 texts.duplicates=2 texts.stale=1")
}

// TestDeleteOfAnUnknownAggregate: the delete of an unknown aggregate is stored as well. Requirement
// D6.
func TestDeleteOfAnUnknownAggregate(t *testing.T) {
	d := newRouted(t, false)
	send(d, "2:-", "1:a")
	d.Want("changes", `{"version":2,"deleted":true,"value":null}`)
	d.WantCounts("texts.applied=1 texts.stale=1")
}

// TestDeleteBytes: a nil []byte is a null as well, and an empty one is not.
func TestDeleteBytes(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		next := func(r topology.Record[string, []byte]) (int64, error) { return r.Timestamp, nil }
		fold := func(_ []byte, _ bool, r topology.Record[string, []byte]) ([]byte, error) { return r.Value, nil }
		s := topology.From(b, topology.Topic("events", schemas.String(), schemas.Bytes()))
		projection.Latest(s, "bytes", next, fold, schemas.Bytes(), projection.Sparse())
	})
	d.Pipe("events", "empty", "")
	d.PipeNull("events", "null")
	content := d.Rows("bytes", 0)
	if content["empty"][3] != 0 || content["null"][3] != 1 {
		t.Errorf("the rows are %x", content)
	}
}

func TestKeysApart(t *testing.T) {
	d := newRouted(t, false)
	header := topologytest.Header("version", "1")
	d.Pipe("events", "a", `"x"`, header)
	d.Pipe("events", "", `"y"`, header)
	d.Want("changes", `{"version":1,"value":["x"]}`, `{"version":1,"value":["y"]}`)
}

// TestNullKey: the null key is not the empty one, and no key at all.
func TestNullKey(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		next := func(topology.Record[[]byte, string]) (int64, error) { return 1, nil }
		fold := func(_ string, _ bool, r topology.Record[[]byte, string]) (string, error) { return r.Value, nil }
		s := topology.From(b, topology.Topic("events", schemas.Bytes(), schemas.String()))
		projection.Latest(s, "texts", next, fold, schemas.String())
	})
	if err := d.PipeRaw("events", nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	d.WantDeadLetter("texts", topology.Validation, "the key is null, and the state is kept by key")
	d.Pipe("events", "", "x")
	d.Want("dead")
}

func TestVersionError(t *testing.T) {
	d := newRouted(t, false)
	d.Pipe("events", "k", `"x"`)
	d.WantDeadLetter("texts", topology.Validation, "the version is missing")
	send(d, "one:x")
	d.WantDeadLetter("texts", topology.Poison, "the version is no number")
}

// TestFailureLeavesNoTrace: a record that fails in fold, or behind the projection, is not applied.
func TestFailureLeavesNoTrace(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		p := routed(b, false)
		p.Changes().Peek("fragile", func(r topology.Record[string, row]) error {
			if r.Value.Value[len(r.Value.Value)-1] == "fail later" {
				return schemas.Reason("asked to")
			}
			return nil
		})
	})
	send(d, "1:a")
	before := d.Rows("texts", 0)["k"]
	send(d, "2:fail")
	d.WantDeadLetter("texts", topology.Poison, "asked to")
	send(d, "2:fail later")
	d.WantDeadLetter("fragile", topology.Poison, "asked to")
	if after := d.Rows("texts", 0)["k"]; after != before {
		t.Errorf("the row changed from %x to %x", before, after)
	}
	send(d, "2:b")
	d.Want("changes", `{"version":1,"value":["a"]}`, `{"version":2,"value":["a","b"]}`)
}

func TestOnError(t *testing.T) {
	d := newRouted(t, false, projection.OnError(topology.Validation, topology.Policy{Action: topology.Stop}))
	send(d, "1:a")
	err := d.PipeRaw("events", []byte("k"), []byte(`"c"`), topologytest.Header("version", "3"))
	if err == nil || !strings.Contains(err.Error(), errGap) {
		t.Fatalf("Pipe returned %v", err)
	}
}

// TestGolden pins what is stored, for ever: format, definition, flags, version, state.
func TestGolden(t *testing.T) {
	var p texts
	definition := projection.DefinitionVersion(0x0203)
	d := processortest.New(t, func(b *topology.Builder) { p = routed(b, false, definition) })
	send(d, fmt.Sprint(0x0102030405060708)+":a")
	check := func(want string) {
		t.Helper()
		content := d.Rows("texts", 0)
		if got := hex.EncodeToString([]byte(content["k"])); len(content) != 1 || got != want {
			t.Errorf("the store has %x, want the row %s", content, want)
		}
	}
	check("01" + "0203" + "00" + "0102030405060708" + hex.EncodeToString([]byte(`["a"]`)))
	store, err := topologytest.Store(d.Driver, p.Store(), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := store.Get("k")
	if fmt.Sprint(got, ok, err) != "{72623859790382856 0 false [a]} true <nil>" {
		t.Error(got, ok, err)
	}
	send(d, strconv.Itoa(0x0102030405060709)+":-")
	check("01" + "0203" + "01" + "0102030405060709")
	got, ok, err = store.Get("k")
	if fmt.Sprint(got, ok, err) != "{72623859790382857 0 true []} true <nil>" {
		t.Error(got, ok, err)
	}
}

// TestRowsOfAnotherDefinitionAreRefused: rows of another definition are refused by the projection
// and by its store, and the task stops instead of mixing them. Requirement D5.
func TestRowsOfAnotherDefinitionAreRefused(t *testing.T) {
	var p texts
	definition := projection.DefinitionVersion(2)
	d := processortest.New(t, func(b *topology.Builder) { p = routed(b, false, definition) })
	d.SetRow("texts", "k", "\x01\x00\x01\x00"+"\x00\x00\x00\x00\x00\x00\x00\x01"+"not a list")
	const reason = "the row was written by definition 1 of the projection, and this is definition 2"
	err := d.PipeRaw("events", []byte("k"), []byte(`"b"`), topologytest.Header("version", "2"))
	if err == nil || !strings.Contains(err.Error(), "config: "+reason) {
		t.Fatalf("Pipe returned %v", err)
	}
	store, err := topologytest.Store(d.Driver, p.Store(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Get("k"); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("Get returned %v", err)
	}
}

// TestOtherFormat: a row that this build does not read stops the task, and is never taken for
// absent.
func TestOtherFormat(t *testing.T) {
	d := newRouted(t, false)
	d.SetRow("texts", "k", "\x02"+strings.Repeat("\x00", 20))
	err := d.PipeRaw("events", []byte("k"), []byte(`"b"`), topologytest.Header("version", "2"))
	if err == nil || !strings.Contains(err.Error(), "corruption") ||
		!strings.Contains(err.Error(), "a format that this build does not read") {
		t.Fatalf("Pipe returned %v", err)
	}
}

// TestDefinitionInFingerprint: a topology with the next definition is another topology.
func TestDefinitionInFingerprint(t *testing.T) {
	build := func(opts ...projection.Option) *topology.Topology {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		routed(b, false, opts...)
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	one, same, two := build(), build(projection.DefinitionVersion(1)), build(projection.DefinitionVersion(2))
	if one.Fingerprint() != same.Fingerprint() || one.Fingerprint() == two.Fingerprint() {
		t.Error("the fingerprint does not follow the definition")
	}
	processortest.WantStores(t, two, "texts app-texts-changelog keyvalue string projection-row-1:2:json")
}

func TestMistakes(t *testing.T) {
	from := func(b *topology.Builder) textStream { return topology.From(b, eventsTopic) }
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		projection.Latest[string, text, []string](from(b), "texts", nil, nil, nil, nil)
		return processortest.Above()
	}, "an option is nil", "the function that reads the version is nil", "the function that folds is nil",
		"the codec of the states is nil")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		projection.Latest(from(b), "te xts", version, appendText, listCodec)
		return processortest.Above()
	}, `name of the node: "te xts"`, `name of a store: "te xts"`)
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		opts := []projection.Option{projection.Sparse(),
			projection.DefinitionVersion(0), projection.OnGap(7), projection.Key[string](nil)}
		projection.Latest(from(b), "texts", version, appendText, listCodec, opts...)
		return processortest.Above()
	}, "DefinitionVersion(0)", "OnGap: gap-policy(7) is no policy", "Key: the codec is nil",
		"Sparse contradicts FirstVersion and what chooses a reaction to gaps")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		projection.Latest(from(b), "texts", version, appendText, listCodec, projection.Key(schemas.Int64()))
		return processortest.Above()
	}, "Key: the codec is not one for string")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		p := projection.Latest(from(b), "texts", version, appendText, listCodec)
		line := processortest.Above()
		use(p.Gaps())
		return line
	}, "Gaps is used, but a record that reveals a gap fails")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		p := projection.Latest(from(b), "texts", version, appendText, listCodec, projection.Sparse())
		line := processortest.Above()
		use(p.Gaps())
		return line
	}, "with Sparse there are no gaps")
}

// TestKeyOfOtherType: types of keys that schemas does not know need the option.
func TestKeyOfOtherType(t *testing.T) {
	type id struct{ A, B int }
	codec := schemas.JSON[id]()
	next := func(topology.Record[id, string]) (int64, error) { return 1, nil }
	fold := func(_ string, _ bool, r topology.Record[id, string]) (string, error) { return r.Value, nil }
	topic := topology.Topic("events", codec, schemas.String())
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		projection.Latest(topology.From(b, topic), "texts", next, fold, schemas.String())
		return processortest.Above()
	}, "keys of type projection_test.id need a codec; give it with the option Key")
	d := processortest.New(t, func(b *topology.Builder) {
		projection.Latest(topology.From(b, topic), "texts", next, fold, schemas.String(), projection.Key(codec))
	})
	d.Pipe("events", `{"A":1,"B":2}`, "x")
	if content := d.Rows("texts", 0); len(content) != 1 || content[`{"A":1,"B":2}`] == "" {
		t.Errorf("the store has %q", content)
	}
}
