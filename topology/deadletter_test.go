package topology_test

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// dying is a topology in which every record ends as its value says.
func dying(tb testing.TB, opts ...topology.BuilderOption) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder("dying", append(opts, topology.DeadLetters("dead"))...)
	topology.MapValues(topology.From(b, wordsTopic), "judge", func(v string) (string, error) {
		return ending(v)
	}).Into(outTopic)
	return mustBuild(tb, b)
}

var dyingTask = graph.TaskID{Subtopology: "words", Partition: 3}

func openDying(tb testing.TB, maxMessageBytes int32, opts ...topology.BuilderOption) *task {
	cfg := baseConfig()
	cfg.Partitions = func(string) int32 { return 6 }
	cfg.MaxMessageBytes = func(string) int32 { return maxMessageBytes }
	return openTask(tb, dying(tb, opts...), dyingTask, cfg)
}

// describeOutput writes a record with all its headers, one a line.
func describeOutput(out graph.Output) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s-%d timestamp=%s key=%s value=%s\n", out.Topic, out.Partition,
		time.UnixMilli(out.Timestamp).UTC().Format(time.RFC3339Nano), text(out.Key), text(out.Value))
	for _, h := range out.Headers {
		fmt.Fprintf(&s, "  %s: %s\n", h.Key, h.Value)
	}
	return s.String()
}

// TestDeadLetters is requirement G3: a letter tells its whole origin. It compares dead letters with
// testdata/deadletter.txt; -rewrite writes the file anew. A command is a record: key, value,
// headers and the rest of what a runtime knows of it. With again, the dead letter is redriven to
// where it came from, and dies there.
func TestDeadLetters(t *testing.T) {
	datadriven.RunTest(t, "testdata/deadletter.txt", func(t *testing.T, d *datadriven.TestData) string {
		k := openDying(t, 0)
		in := k.input("words", []byte("key"), nil)
		in.Partition, in.Offset = 3, 41
		var again int
		for _, arg := range d.CmdArgs {
			value := strings.Join(arg.Vals, ",")
			switch arg.Key {
			case "key":
				in.Key = literal(value)
			case "value":
				in.Value = literal(value)
			case "header":
				name, text, _ := strings.Cut(value, ":")
				in.Headers = append(in.Headers, topology.Header{Key: name, Value: []byte(text)})
			case "attempt":
				in.Attempt, _ = strconv.Atoi(value)
				in.FirstFailure = now.Add(-90 * time.Second)
			case "append-time":
				in.TimestampType = graph.LogAppendTime
			case "ahead":
				by, err := time.ParseDuration(value)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				in.Timestamp += by.Milliseconds()
			case "again":
				again, _ = strconv.Atoi(value)
			default:
				d.Fatalf(t, "there is no argument %s", arg.Key)
			}
		}
		v := want(t, k.graph.Process(in), topology.DeadLetter)
		for range again {
			letter := v.Outputs[0]
			in.Offset += 1000
			in.Key, in.Value, in.Headers = letter.Key, letter.Value, letter.Headers
			in.Timestamp = letter.Timestamp + 1
			v = want(t, k.graph.Process(in), topology.DeadLetter)
		}
		return describeOutput(v.Outputs[0])
	})
}

func literal(s string) []byte {
	if s == "null" {
		return nil
	}
	if s == "empty" {
		return []byte{}
	}
	return []byte(s)
}

func TestDeadLetterIDs(t *testing.T) {
	ids := map[string]string{}
	for _, app := range []string{"a", "ab"} {
		for _, topic := range []string{"bc", "c"} {
			for _, partition := range []int32{0, 1} {
				for _, offset := range []int64{0, 1, 1 << 40} {
					for _, at := range []int64{-1, 0, 1} { // a topic that is created again has the offset once more
						id := graph.DeadLetterID(app, graph.DeadLetterOrigin{
							Topic: topic, Partition: partition, Offset: offset, Timestamp: at,
						})
						of := fmt.Sprint(app, " ", topic, " ", partition, " ", offset, " ", at)
						if other, ok := ids[id]; ok {
							t.Errorf("%s and %s have the id %s", other, of, id)
						}
						ids[id] = of
					}
				}
			}
		}
	}
	// The id is written into topics: it must not change.
	at := graph.DeadLetterOrigin{Topic: "topic", Partition: 1, Offset: 2, Timestamp: 3}
	if got := graph.DeadLetterID("app", at); got != "3ea9d26b761a545157d738fbea314c30" {
		t.Errorf("the id is %s", got)
	}
}

// TestDeadLetterDoesNotGrow: however often a record dies, its headers are those of the last death
// and of the first origin.
func TestDeadLetterDoesNotGrow(t *testing.T) {
	k := openDying(t, 0)
	in := k.input("words", []byte("key"), []byte("poison"))
	in.Partition, in.Headers = 3, []topology.Header{{Key: "trace", Value: []byte("t")}}
	letter := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
	n := len(letter.Headers)
	for death := 2; death <= 50; death++ {
		in.Headers, in.Offset = letter.Headers, in.Offset+1
		letter = want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
		info, err := graph.ParseDeadLetter(letter.Headers)
		if err != nil || info.Deaths != death || info.Origin.Offset != 0 || len(letter.Headers) != n {
			t.Fatalf("death %d: %d headers, want %d; %+v, %v", death, len(letter.Headers), n, info, err)
		}
	}
}

// TestRedrivenRecord: its dead-letter headers do not travel on, unless the source keeps them.
func TestRedrivenRecord(t *testing.T) {
	k := openDying(t, 0)
	in := k.input("words", []byte("key"), []byte("poison"))
	in.Partition, in.Headers = 3, []topology.Header{{Key: "onceward.mode", Value: []byte("LIVE")}}
	letter := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
	in.Value, in.Headers = []byte("fixed"), letter.Headers
	out := want(t, k.graph.Process(in), graph.Accept).Outputs[0]
	if len(out.Headers) != 1 || out.Headers[0].Key != "onceward.mode" {
		t.Errorf("the output of a redriven record has headers %v", out.Headers)
	}

	b := topology.NewBuilder("reader")
	dead := topology.Topic("dead", schemas.Bytes(), schemas.Bytes())
	copied := topology.Topic("out", schemas.Bytes(), schemas.Bytes())
	topology.From(b, dead, topology.KeepDeadLetterHeaders()).Into(copied)
	reader := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "dead"}, baseConfig())
	in = reader.input("dead", letter.Key, letter.Value)
	in.Headers = letter.Headers
	out = want(t, reader.graph.Process(in), graph.Accept).Outputs[0]
	if len(out.Headers) != len(letter.Headers) {
		t.Errorf("%d of %d headers are kept", len(out.Headers), len(letter.Headers))
	}
}

// TestDeadLetterIsSilent: no text of a dead letter, and no failure, quotes a record, unless the
// author of an error says that it does not.
func TestDeadLetterIsSilent(t *testing.T) {
	const secret = "4556-7375-8689-9855"
	// Each is what user code makes of the value of the record, and the message of the dead letter.
	tests := map[string]struct {
		fail    func(value string) error
		message string
	}{
		"plain error": {
			func(v string) error { return errors.New(v) },
			"error of type *errors.errorString",
		},
		"wrapped": {
			func(v string) error { return fmt.Errorf("%s: %w", v, &strconv.NumError{Num: v}) },
			"error of type *strconv.NumError",
		},
		"classified": {
			func(v string) error { return topology.Fail(topology.Validation, errors.New(v)) },
			"error of type *errors.errorString",
		},
		"panic": {
			func(v string) error { panic(v) },
			"panic with a value of type string",
		},
		"panic with an error": {
			func(v string) error { panic(errors.New(v)) },
			"panic with a value of type *errors.errorString",
		},
		"reason": {
			func(v string) error { return fmt.Errorf("%s: %w", v, schemas.Reason("no id")) },
			"no id",
		},
		"codec": {
			func(v string) error {
				_, err := schemas.JSON[int]().Decode([]byte(v + "x"))
				return fmt.Errorf("%s: %w", v, err)
			},
			"schemas: decode json: byte",
		},
		"joined": {
			func(v string) error { return errors.Join(errors.New(v), errors.New("other")) },
			"error of type *errors.joinError",
		},
		"long and wild": {
			func(v string) error { return schemas.Reason("line\nbell\a\xff" + strings.Repeat("é", 1000)) },
			"line bell ?éé",
		},
	}
	for name, test := range tests {
		b := topology.NewBuilder("silent", topology.DeadLetters("dead"), topology.DeadLetterStacks())
		topology.From(b, wordsTopic).Peek("fail", func(r word) error { return test.fail(r.Value) })
		k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
		v := want(t, k.words(secret, secret), topology.DeadLetter)
		info, err := graph.ParseDeadLetter(v.Outputs[0].Headers)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(info.Message, test.message) || len(info.Message) > 512 {
			t.Errorf("%s: the message is %q, want %q", name, info.Message, test.message)
		}
		shown := v.Failure.Error() + v.Failure.Stack
		for _, h := range v.Outputs[0].Headers {
			shown += h.Key + string(h.Value)
		}
		if strings.Contains(shown, secret) || strings.Contains(shown, secret[:9]) {
			t.Errorf("%s: the record is quoted in %s", name, shown)
		}
		if strings.HasPrefix(name, "panic") != strings.Contains(shown, graph.HeaderStreamsStacktrace) {
			t.Errorf("%s: stack asked for, headers %s", name, shown)
		}
	}
}

// TestUndecodable is requirement G2: bytes that a codec refuses go to the dead-letter topic as they
// are. Row of the failure matrix: poison payload.
func TestUndecodable(t *testing.T) {
	b := topology.NewBuilder("undecodable", topology.DeadLetters("dead"))
	numbers := topology.Topic("numbers", schemas.Int64(), schemas.Int64())
	topology.From(b, numbers).Into(topology.Topic("out", schemas.Int64(), schemas.Int64()))
	k := openTask(t, mustBuild(t, b), graph.TaskID{Subtopology: "numbers"}, baseConfig())
	number := make([]byte, 8)
	for part, in := range map[string]graph.Input{
		"key":   k.input("numbers", []byte("canary"), number),
		"value": k.input("numbers", number, []byte("canary")),
	} {
		v := want(t, k.graph.Process(in), topology.DeadLetter)
		out := v.Outputs[0]
		if !bytes.Equal(out.Key, in.Key) || !bytes.Equal(out.Value, in.Value) {
			t.Errorf("the dead letter is %s", lines(v.Outputs))
		}
		reason := v.Failure.Reason()
		if v.Failure.Class != topology.Poison || v.Failure.Node != "numbers-source" ||
			!strings.HasPrefix(reason, part+": schemas: decode int64") || strings.Contains(reason, "canary") {
			t.Errorf("the failure is %v", v.Failure)
		}
	}
}

// TestDeadLetterFits: a dead letter that its topic would refuse is cut: the value, then the
// headers, then the key.
func TestDeadLetterFits(t *testing.T) {
	const limit = 16 << 10
	big := bytes.Repeat([]byte("x"), 40<<10)
	tests := map[string]struct {
		key, value, header []byte
		keyKept, valueKept bool
		headers            bool
	}{
		"fits":           {[]byte("k"), []byte("poison"), []byte("h"), true, true, true},
		"large value":    {[]byte("k"), big, []byte("h"), true, false, true},
		"large header":   {[]byte("k"), []byte("poison"), big, true, true, false},
		"large key":      {big, []byte("poison"), []byte("h"), false, false, false},
		"large all over": {big, big, big, false, false, false},
		"null value":     {[]byte("k"), nil, big, true, true, false},
	}
	for name, test := range tests {
		k := openDying(t, limit)
		in := k.input("words", test.key, test.value)
		in.Partition, in.Headers = 3, []topology.Header{{Key: "h", Value: test.header}}
		out := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
		size := len(out.Key) + len(out.Value)
		own := 0
		for _, h := range out.Headers {
			size += len(h.Key) + len(h.Value)
			if h.Key == "h" {
				own++
			}
		}
		info, err := graph.ParseDeadLetter(out.Headers)
		if err != nil {
			t.Fatal(name, err)
		}
		if size > limit {
			t.Errorf("%s: the dead letter has %d bytes", name, size)
		}
		if bytes.Equal(out.Key, in.Key) != test.keyKept ||
			bytes.Equal(out.Value, in.Value) != test.valueKept ||
			(own == 1) != test.headers || (out.Value == nil) != (in.Value == nil) {
			t.Errorf("%s: %d of %d bytes of the key, %d of %d of the value, %d headers", name,
				len(out.Key), len(in.Key), len(out.Value), len(in.Value), own)
		}
		wantCut := fmt.Sprintf("key=%d value=%d headers=1", len(in.Key), len(in.Value))
		if name == "fits" {
			wantCut = ""
		}
		if info.Cut != wantCut {
			t.Errorf("%s: the cut is %q, want %q", name, info.Cut, wantCut)
		}
		if out.Partition != graph.PartitionOf(in.Key, 6) {
			t.Errorf("%s: the partition is not that of the whole key", name)
		}
		// What is left of the record dies again, and is cut again: the first sizes stay.
		in.Key, in.Value = out.Key, append([]byte("\xff"), out.Value...)
		in.Headers = append(out.Headers, in.Headers...)
		again := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
		if info, err = graph.ParseDeadLetter(again.Headers); err != nil {
			t.Fatal(name, err)
		}
		if name != "fits" && (info.Cut != wantCut || info.Deaths != 2) {
			t.Errorf("%s: the second death says %+v, want the cut %q", name, info, wantCut)
		}
	}
}

// TestDeadLetterKeepsEssentials (G3): what a record is to those who read it again outlives a cut,
// unless that alone is too large.
func TestDeadLetterKeepsEssentials(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 40<<10)
	h := func(key string, value []byte) topology.Header { return topology.Header{Key: key, Value: value} }
	for name, test := range map[string]struct {
		key, ownKey, other []byte
		kept               int
	}{
		"large header":  {[]byte("k"), []byte("own"), big, 2},
		"large key":     {big, []byte("own"), []byte("h"), 2},
		"large own key": {[]byte("k"), big, []byte("h"), 0},
		"large both":    {big, big, []byte("h"), 0},
	} {
		k := openDying(t, 16<<10)
		in := k.input("words", test.key, []byte("poison"))
		in.Partition, in.Headers = 3, []topology.Header{
			h(graph.HeaderOwnKey, []byte("former")), h(graph.HeaderOwnKey, test.ownKey), h("other", test.other),
			h(topology.HeaderMode, []byte("BACKFILL")),
		}
		out := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
		got := map[string]string{}
		size := len(out.Key) + len(out.Value)
		for _, h := range out.Headers {
			size += len(h.Key) + len(h.Value)
			if !graph.IsDeadLetterHeader(h.Key) {
				got[h.Key] += string(h.Value)
			}
		}
		info, err := graph.ParseDeadLetter(out.Headers)
		if err != nil || size > 16<<10 || info.Cut != fmt.Sprintf("key=%d value=6 headers=4", len(test.key)) {
			t.Fatalf("%s: %d bytes, %+v, %v", name, size, info, err)
		}
		if len(got) != test.kept || test.kept == 2 && (got[graph.HeaderOwnKey] != "own" || got[topology.HeaderMode] != "BACKFILL") {
			t.Errorf("%s: %d headers are kept", name, len(got))
		}
		if len(test.key) == 1 && string(out.Value) != "poison" { // it goes before the key
			t.Errorf("%s: the value is %q", name, out.Value)
		}
	}
}

// TestDeadLetterHeaderBytes fills every field to its limit.
func TestDeadLetterHeaderBytes(t *testing.T) {
	name := strings.Repeat("n", 200)
	topic := strings.Repeat("t", 249)
	b := topology.NewBuilder(name, topology.DeadLetters("dead"), topology.DeadLetterStacks())
	var deep func(n int)
	deep = func(n int) {
		if n == 0 {
			panic("deep")
		}
		deep(n - 1)
	}
	s := topology.From(b, topology.Topic(topic, schemas.String(), schemas.String()))
	topology.MapValues(s, name, func(v string) (string, error) {
		if v == "deep" {
			deep(200)
		}
		return "", schemas.Reason(strings.Repeat("r", 10_000))
	})
	id := graph.TaskID{Subtopology: topic, Partition: 1<<31 - 1}
	k := openTask(t, mustBuild(t, b), id, baseConfig())
	in := k.input(topic, []byte("k"), nil)
	in.Partition, in.Offset, in.Attempt = id.Partition, 1<<62, 1<<30
	largest := 0
	for _, value := range []string{"deep", "long"} {
		in.Value, in.Headers = []byte(value), nil
		for range 2 {
			size := 0
			out := want(t, k.graph.Process(in), topology.DeadLetter).Outputs[0]
			for _, h := range out.Headers {
				size += len(h.Key) + len(h.Value)
			}
			largest = max(largest, size)
			info, err := graph.ParseDeadLetter(out.Headers)
			if err != nil || (info.Source.Topic == topic) != (info.Deaths == 2) {
				t.Errorf("the longest names are not read back: %+v, %v", info.Source, err)
			}
			// It dies again where it was redriven to, and comes from the longest position.
			in.Headers = append(out.Headers, topology.Header{
				Key: graph.HeaderSource, Value: []byte(topic + " 2147483647 9223372036854775807 0000253402300799999")})
		}
	}
	if largest > graph.DeadLetterHeaderBytesMax || largest < graph.DeadLetterHeaderBytesMax/2 {
		t.Errorf("the headers have %d bytes, the limit is %d", largest, graph.DeadLetterHeaderBytesMax)
	}
}
