package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestNulls sends every mixture of null and empty through a topology and looks at what comes out.
func TestNulls(t *testing.T) {
	codec := topology.Nullable(schemas.String())
	var seen []string
	b := topology.NewBuilder("nulls")
	topology.From(b, topology.Topic("words", codec, codec)).Peek("see", func(
		r topology.Record[topology.Option[string], topology.Option[string]],
	) error {
		key, ok := r.Key.Get()
		seen = append(seen, fmt.Sprintf("%v %q %q", ok, key, r.Value.Or("default")))
		return nil
	}).Into(topology.Topic("out", codec, codec))
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())

	raw := topology.NewBuilder("raw")
	bytesTopic := topology.Topic("words", schemas.Bytes(), schemas.Bytes())
	topology.From(raw, bytesTopic).Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	rawTask := openTask(t, mustBuild(t, raw), fanTask, baseConfig())

	for _, key := range [][]byte{nil, {}, []byte("k")} {
		for _, value := range [][]byte{nil, {}, []byte("v")} {
			want := fmt.Sprintf("out %s=%s", text(key), text(value))
			if got := lines(k.graph.Process(k.input("words", key, value)).Outputs); got != want {
				t.Errorf("nullable: %s, want %s", got, want)
			}
			if got := lines(rawTask.graph.Process(k.input("words", key, value)).Outputs); got != want {
				t.Errorf("bytes: %s, want %s", got, want)
			}
		}
	}
	wantSeen := `false "" "default"|false "" ""|false "" "v"|true "" "default"|true "" ""|true "" "v"|` +
		`true "k" "default"|true "k" ""|true "k" "v"`
	if got := strings.Join(seen, "|"); got != wantSeen {
		t.Errorf("user code has seen %s, want %s", got, wantSeen)
	}
}

// thrifty is a codec of bytes that makes nil of nothing.
type thrifty struct{ schemas.Codec[[]byte] }

func (thrifty) Decode(b []byte) ([]byte, error) { return append([]byte(nil), b...), nil }

// TestEmptyBytesAreNotNull, whatever the codec makes of them.
func TestEmptyBytesAreNotNull(t *testing.T) {
	topic := topology.Topic("t", schemas.Bytes(), schemas.Codec[[]byte](thrifty{schemas.Bytes()}))
	_, value, err := topic.Decode(nil, []byte{})
	if err != nil || value == nil {
		t.Errorf("an empty value is decoded as %v, %v", value, err)
	}
	if _, value, err = topic.Decode(nil, nil); err != nil || value != nil {
		t.Errorf("a null is decoded as %v, %v", value, err)
	}
}

// TestNullIsRefused where the codec does not take it.
func TestNullIsRefused(t *testing.T) {
	k := openTask(t, dying(t), fanTask, baseConfig())
	for part, in := range map[string]graph.Input{
		"key":   k.input("words", nil, []byte("v")),
		"value": k.input("words", []byte("k"), nil),
	} {
		f := want(t, k.graph.Process(in), topology.DeadLetter).Failure
		reason := part + ": is null, and the codec of the topic takes no null; topology.Nullable makes one that does"
		if f.Class != topology.Poison || f.Reason() != reason {
			t.Errorf("%v", f)
		}
	}
	want(t, k.graph.Process(k.input("words", []byte{}, []byte{})), graph.Accept)
}

// TestNullKeyStaysWithItsTask: its partition is that of the task, and the same at every attempt.
func TestNullKeyStaysWithItsTask(t *testing.T) {
	b := topology.NewBuilder("spread")
	topology.From(b, topology.Topic("words", schemas.Bytes(), schemas.Bytes())).
		Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	built := mustBuild(t, b)
	for p := range int32(10) {
		k := openTask(t, built, graph.TaskID{Subtopology: "words", Partition: p}, baseConfig())
		in := k.input("words", nil, []byte("v"))
		in.Partition = p
		for range 3 {
			if got := want(t, k.graph.Process(in), graph.Accept).Outputs[0].Partition; got != p%4 {
				t.Errorf("a null key of task %d goes to partition %d of 4", p, got)
			}
		}
	}
}

func TestTopicEncodeDecode(t *testing.T) {
	topic := topology.Topic("t", topology.Nullable(schemas.String()), schemas.Int64())
	k, v, err := topic.Encode(topology.None[string](), 7)
	if err != nil || k != nil || len(v) != 8 {
		t.Errorf("encode: %v, %v, %v", k, v, err)
	}
	key, value, err := topic.Decode(k, v)
	if err != nil || key != topology.None[string]() || value != 7 {
		t.Errorf("decode: %v, %v, %v", key, value, err)
	}
	if k, _, err = topic.Encode(topology.Some(""), 7); err != nil || k == nil {
		t.Errorf("an empty key is encoded as %v, %v", k, err)
	}
	if key, _, err = topic.Decode(k, v); err != nil || key != topology.Some("") {
		t.Errorf("an empty key is decoded as %v, %v", key, err)
	}
	for part, b := range map[string][2][]byte{"key: ": {[]byte("\xff"), v}, "value: ": {k, []byte("short")}} {
		if _, _, err := topic.Decode(b[0], b[1]); err == nil || !strings.HasPrefix(err.Error(), part) {
			t.Errorf("a bad %sgives %v", part, err)
		}
	}
	for part, encode := range map[string]func() error{
		"key: ": func() error {
			_, _, err := topology.Topic("t", schemas.String(), schemas.String()).Encode("\xff", "")
			return err
		},
		"value: ": func() error {
			_, _, err := topology.Topic("t", schemas.String(), schemas.String()).Encode("", "\xff")
			return err
		},
	} {
		if err := encode(); err == nil || !strings.HasPrefix(err.Error(), part) {
			t.Errorf("encoding a bad %sgives %v", part, err)
		}
	}
	// The absent value has no bytes of its own, wherever the codec is used.
	if _, err := topology.Nullable(schemas.String()).Append(nil, topology.None[string]()); err == nil {
		t.Error("the absent value is encoded")
	}
}
