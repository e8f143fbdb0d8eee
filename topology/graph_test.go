package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// fanOut is a topology in which a record writes to a store and to a topic before a second branch decides,
// by its value, how to end.
func fanOut(tb testing.TB, opts ...topology.BuilderOption) *topology.Topology {
	tb.Helper()
	b := topology.NewBuilder("fan", opts...)
	source := topology.From(b, wordsTopic)
	counted := topology.Stateful(source, "count", countStore)
	out := topology.Outlet[string, string](counted, "counted")
	counted.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		counts, emit, seen := countStore.In(t), out.In(t), t.Counter("seen")
		return func(c *topology.Context, r word) error {
			n, _, err := counts.Get(r.Key)
			if err != nil {
				return err
			}
			if err := counts.Put(r.Key, n+1); err != nil {
				return err
			}
			seen.Inc()
			return emit(c, r)
		}, nil
	})
	out.Stream().Into(outTopic)
	topology.MapValues(source, "judge", judge).Into(secondTopic)
	return mustBuild(tb, b)
}

func judge(r word) (string, error) { return ending(r.Value) }

// ending is how user code ends for a value.
func ending(value string) (string, error) {
	switch value {
	case "panic":
		panic("a value of the record: " + value)
	case "nil map":
		var m map[string]int
		m[value] = 1
	case "plain":
		return "", errors.New("cannot handle plain")
	}
	if class, err := topology.ParseClass(value); err == nil {
		return "", topology.Fail(class, schemas.Reason("told to fail"))
	}
	return value, nil
}

var fanTask = topology.TaskID{Subtopology: "words", Partition: 0}

func TestAcceptedRecord(t *testing.T) {
	k := openTask(t, fanOut(t), fanTask, baseConfig())
	v := want(t, k.words("a", "fine"), topology.Accept)
	if got, want := lines(v.Outputs), `out "a"="fine"; second "a"="fine"`; got != want {
		t.Errorf("outputs: %s\nwant: %s", got, want)
	}
	if got := countsOf(v); got != "count.seen=1" {
		t.Errorf("counts: %s", got)
	}
	if got := k.entries(countStore); got != "a=1" {
		t.Errorf("store: %s", got)
	}
}

// TestFailureLeavesNoTrace fails records in the second branch, when the first one has written to a store,
// to a topic and to a counter.
func TestFailureLeavesNoTrace(t *testing.T) {
	for value, action := range map[string]topology.Action{
		"plain": topology.DeadLetter, "panic": topology.DeadLetter, "nil map": topology.DeadLetter,
		"transient": topology.Retry, "overload": topology.Retry,
		"conflict": topology.DeadLetter, "validation": topology.DeadLetter, "poison": topology.DeadLetter,
		"config": topology.Stop, "corruption": topology.Stop, "fatal": topology.Stop,
	} {
		t.Run(value, func(t *testing.T) {
			k := openTask(t, fanOut(t, topology.DeadLetters("dead")), fanTask, baseConfig())
			want(t, k.words("a", "fine"), topology.Accept)
			v := want(t, k.words("a", value), action)
			if got := k.entries(countStore); got != "a=1" {
				t.Errorf("the store holds %s after a failed record, want a=1", got)
			}
			wantCounts, wantOutputs := "", ""
			if action == topology.DeadLetter {
				wantCounts = "judge.dead-letter-" + v.Failure.Class.String() + "=1"
				wantOutputs = fmt.Sprintf(`dead "a"=%q`, value)
			}
			if got := countsOf(v); got != wantCounts {
				t.Errorf("counts: %s, want %s", got, wantCounts)
			}
			if got := lines(v.Outputs); got != wantOutputs {
				t.Errorf("outputs: %s, want %s", got, wantOutputs)
			}
			if v.Failure.Node != "judge" {
				t.Errorf("the failure names node %q", v.Failure.Node)
			}
			v = want(t, k.words("a", "fine"), topology.Accept)
			if got := lines(v.Outputs); got != `out "a"="fine"; second "a"="fine"` {
				t.Errorf("outputs of the next record: %s", got)
			}
			if got := countsOf(v); got != "count.seen=1" {
				t.Errorf("counts of the next record: %s", got)
			}
		})
	}
}

func TestPanicIsPoisonWithStack(t *testing.T) {
	for _, value := range []string{"panic", "nil map"} {
		k := openTask(t, fanOut(t, topology.DeadLetters("dead")), fanTask, baseConfig())
		f := want(t, k.words("a", value), topology.DeadLetter).Failure
		p, ok := errors.AsType[*topology.PanicError](f)
		if !ok || f.Class != topology.Poison {
			t.Fatalf("the failure is %v of class %s", f.Err, f.Class)
		}
		if value == "panic" && p.Type != "string" {
			t.Errorf("the panic has type %s, want string", p.Type)
		}
		// The stack begins with the function that panicked, not with the machinery that recovers.
		first, _, _ := strings.Cut(f.Stack, "\n")
		if value == "panic" && !strings.HasSuffix(first, ".ending") ||
			!strings.Contains(f.Stack, "graph_test.go:") {
			t.Errorf("the stack does not begin with the function that panicked:\n%s", f.Stack)
		}
		if strings.Contains(f.Error()+f.Stack, "a value of the record") {
			t.Errorf("the value of the panic is shown: %v\n%s", f, f.Stack)
		}
	}
}

// TestSwallowedFailure has a handler that ignores the error of Emit, and one that recovers the panic of a
// node behind it.
func TestSwallowedFailure(t *testing.T) {
	for _, value := range []string{"validation", "panic"} {
		b := topology.NewBuilder("swallow", topology.DeadLetters("dead"))
		n := topology.Stateful(topology.From(b, wordsTopic), "careless", countStore)
		out := topology.Outlet[string, string](n, "out")
		n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
			emit, counts := out.In(t), countStore.In(t)
			return func(c *topology.Context, r word) error {
				defer func() { _ = recover() }()
				_ = emit(c, r)
				_ = emit(c, topology.WithValue(r, "again"))
				return counts.Put("written", 1)
			}, nil
		})
		topology.MapValues(out.Stream(), "judge", judge).Into(outTopic)
		k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
		v := want(t, k.words("a", value), topology.DeadLetter)
		if v.Failure.Node != "judge" {
			t.Errorf("%s: the failure names node %q, want judge: %v", value, v.Failure.Node, v.Failure)
		}
		if got := k.entries(countStore); got != "" {
			t.Errorf("%s: the store holds %s", value, got)
		}
	}
}

// TestNothingRunsAfterFailure: a node that swallows a failure does not get the record past it.
func TestNothingRunsAfterFailure(t *testing.T) {
	b := topology.NewBuilder("after", topology.DeadLetters("dead"))
	source := topology.From(b, wordsTopic)
	careless := topology.Stateful(source, "careless", countStore)
	careless.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		counts := countStore.In(t)
		return func(c *topology.Context, r word) error {
			_, _, _ = counts.Get("a")
			return nil
		}, nil
	})
	ran := 0
	source.Peek("behind", func(word) error { ran++; return nil })
	g, err := mustBuild(t, b).NewGraph(fanTask, brokenState{errDisk}, baseConfig())
	if err != nil {
		t.Fatal(err)
	}
	k := &task{tb: t, graph: g}
	want(t, k.words("a", "b"), topology.Stop)
	if ran != 0 {
		t.Error("a node has seen a record that had failed")
	}
}

// TestStoreFailureStops has handlers that ignore, or rename, the error of a store.
func TestStoreFailureStops(t *testing.T) {
	use := map[string]func(kv state.KeyValue[string, int64]) error{
		"get":    func(kv state.KeyValue[string, int64]) error { _, _, err := kv.Get("a"); return err },
		"put":    func(kv state.KeyValue[string, int64]) error { return kv.Put("a", 1) },
		"delete": func(kv state.KeyValue[string, int64]) error { return kv.Delete("a") },
		"scan": func(kv state.KeyValue[string, int64]) error {
			for _, err := range kv.All() {
				return err
			}
			return nil
		},
	}
	for op, f := range use {
		for _, careless := range []bool{true, false} {
			for cause, class := range map[error]topology.Class{
				errDisk: topology.Fatal, fmt.Errorf("row: %w", state.ErrCorrupt): topology.Corruption,
			} {
				b := topology.NewBuilder("broken", topology.DeadLetters("dead"))
				source := topology.From(b, wordsTopic)
				out := topology.Process(source, "use", countStore, func(
					c *topology.Context, kv state.KeyValue[string, int64], r word,
					emit topology.Emit[string, string],
				) error {
					err := f(kv)
					if careless {
						return nil
					}
					return topology.Fail(topology.Validation, err)
				})
				out.Into(outTopic)
				g, err := mustBuild(t, b).NewGraph(fanTask, brokenState{cause}, baseConfig())
				if err != nil {
					t.Fatal(err)
				}
				k := &task{tb: t, graph: g}
				v := want(t, k.words("a", "b"), topology.Stop)
				if v.Failure.Class != class || !errors.Is(v.Failure, cause) || v.Failure.Node != "use" {
					t.Errorf("%s, careless %v: %v, want class %s", op, careless, v.Failure, class)
				}
			}
		}
	}
}

// TestUnreadableRowIsCorruption: bytes in a store that its codec refuses are not the record's fault.
func TestUnreadableRowIsCorruption(t *testing.T) {
	k := openTask(t, fanOut(t, topology.DeadLetters("dead")), fanTask, baseConfig())
	if err := k.state.Store("counts").Put([]byte("a"), []byte("not a number")); err != nil {
		t.Fatal(err)
	}
	f := want(t, k.words("a", "fine"), topology.Stop).Failure
	if f.Class != topology.Corruption || f.Node != "count" {
		t.Errorf("the failure is %v, want corruption in count", f)
	}
}

func TestRetryThenDeadLetter(t *testing.T) {
	policy := topology.Policy{
		Action: topology.Retry, Attempts: 4, Then: topology.DeadLetter,
		Backoff: 100 * time.Millisecond, BackoffMax: 250 * time.Millisecond,
	}
	built := fanOut(t, topology.DeadLetters("dead"), topology.OnError(topology.Transient, policy))
	k := openTask(t, built, fanTask, baseConfig())
	in := k.input("words", []byte("a"), []byte("transient"))
	for i, pause := range []time.Duration{100, 200, 250} {
		in.Attempt = i + 1
		v := want(t, k.graph.Process(in), topology.Retry)
		if v.Backoff != pause*time.Millisecond || v.Failure.Attempt != in.Attempt ||
			len(v.Outputs)+len(v.Counts) != 0 {
			t.Errorf("attempt %d: backoff %s, want %d ms; failure %v, %d outputs, %d counts",
				in.Attempt, v.Backoff, pause, v.Failure, len(v.Outputs), len(v.Counts))
		}
	}
	in.Attempt, in.FirstFailure = 4, now.Add(-time.Second)
	v := want(t, k.graph.Process(in), topology.DeadLetter)
	info, err := topology.ParseDeadLetter(v.Outputs[0].Headers)
	if err != nil {
		t.Fatal(err)
	}
	if info.Attempts != 4 || !info.FirstFailure.Equal(now.Add(-time.Second)) || !info.LastFailure.Equal(now) {
		t.Errorf("the dead letter says %d attempts from %s to %s",
			info.Attempts, info.FirstFailure, info.LastFailure)
	}
}

func TestStopWithoutDeadLetterTopic(t *testing.T) {
	k := openTask(t, fanOut(t), fanTask, baseConfig())
	v := want(t, k.words("a", "poison"), topology.Stop)
	if !strings.Contains(v.Failure.Error(), "no dead-letter topic") {
		t.Errorf("the failure does not say why the task stops: %v", v.Failure)
	}
	if len(v.Outputs)+len(v.Counts) != 0 {
		t.Errorf("a stop has %d outputs and %d counts", len(v.Outputs), len(v.Counts))
	}
}

// TestPolicyOfNode: the policy of the failing node is stronger than that of the topology, which is stronger
// than the default.
func TestPolicyOfNode(t *testing.T) {
	stop := topology.Policy{Action: topology.Stop}
	b := topology.NewBuilder("policies", topology.DeadLetters("dead"),
		topology.OnError(topology.Config, topology.Policy{Action: topology.DeadLetter}))
	source := topology.From(b, wordsTopic, topology.OnError(topology.Poison, stop))
	topology.MapValues(source.Filter("odd", isKey("odd")), "strict", judge,
		topology.OnError(topology.Validation, stop)).Into(outTopic)
	topology.MapValues(source.Filter("even", isKey("even")), "mild", judge).Into(secondTopic)
	n := topology.Stateful(source.Filter("node", isKey("node")), "own").OnError(topology.Conflict, stop)
	n.Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(c *topology.Context, r word) error { _, err := judge(r); return err }, nil
	})
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	want(t, k.words("odd", "validation"), topology.Stop)
	want(t, k.words("even", "validation"), topology.DeadLetter)
	want(t, k.words("odd", "config"), topology.DeadLetter)
	want(t, k.words("node", "conflict"), topology.Stop)
	want(t, k.words("odd", "conflict"), topology.DeadLetter)
	want(t, k.graph.Process(k.input("words", nil, []byte("x"))), topology.Stop)
}

func isKey(key string) func(word) (bool, error) {
	return func(r word) (bool, error) { return r.Key == key, nil }
}

// TestDiamond: a merge is one node, and a record comes once through each edge.
func TestDiamond(t *testing.T) {
	b := topology.NewBuilder("diamond")
	source := topology.From(b, wordsTopic)
	side := func(name string) words {
		return topology.MapValues(source, name, func(r word) (string, error) {
			return r.Value + "-" + name, nil
		})
	}
	left, right := side("left"), side("right")
	merged := left.Merge("merge", right)
	factories := 0
	n := topology.Stateful(merged, "count", countStore)
	out := topology.Outlet[string, string](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		factories++
		emit, counts := out.In(t), countStore.In(t)
		return func(c *topology.Context, r word) error {
			n, _, err := counts.Get("all")
			if err != nil {
				return err
			}
			if err := counts.Put("all", n+1); err != nil {
				return err
			}
			return emit(c, r)
		}, nil
	})
	out.Stream().Into(outTopic)
	built := mustBuild(t, b)
	k := openTask(t, built, fanTask, baseConfig())
	v := want(t, k.words("a", "x"), topology.Accept)
	if got, want := lines(v.Outputs), `out "a"="x-left"; out "a"="x-right"`; got != want {
		t.Errorf("outputs: %s\nwant: %s", got, want)
	}
	if got := k.entries(countStore); got != "all=2" {
		t.Errorf("store: %s", got)
	}
	if factories != 1 {
		t.Errorf("the factory ran %d times for one task", factories)
	}
	openTask(t, built, fanTask, baseConfig())
	if factories != 2 {
		t.Errorf("the factory ran %d times for two tasks", factories)
	}
}

func TestSplit(t *testing.T) {
	b := topology.NewBuilder("split")
	split := topology.From(b, wordsTopic).Split("by-key")
	first := split.Case("first", func(r word) (bool, error) { return r.Key != "z", nil })
	second := split.Case("second", func(r word) (bool, error) { return r.Key == "b", nil })
	rest := split.Otherwise("rest")
	first.Into(outTopic)
	second.Into(secondTopic)
	rest.Into(otherTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	for key, topic := range map[string]string{"a": "out", "b": "out", "z": "other"} {
		v := want(t, k.words(key, "v"), topology.Accept)
		if got, want := lines(v.Outputs), fmt.Sprintf(`%s %q="v"`, topic, key); got != want {
			t.Errorf("outputs: %s, want %s", got, want)
		}
	}
}

func TestFlatMapAndKeys(t *testing.T) {
	b := topology.NewBuilder("flat")
	source := topology.From(b, wordsTopic)
	split := topology.FlatMap(source, "letters", func(r word, emit func(word) error) error {
		for _, letter := range r.Value {
			if err := emit(topology.WithValue(r, string(letter))); err != nil {
				return err
			}
		}
		return nil
	})
	keyed := topology.SelectKey(split, "by-letter", func(r word) (string, error) { return r.Value, nil })
	topology.Map(keyed, "swap", func(r word) (word, error) {
		if r.Value == "!" {
			return word{}, topology.Fail(topology.Validation, schemas.Reason("told to fail"))
		}
		return word{Key: r.Value, Value: "letter"}, nil
	}).Peek("look", ignore).Into(outTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	v := want(t, k.words("k", "xyx"), topology.Accept)
	if got, want := lines(v.Outputs), `out "x"="letter"; out "y"="letter"; out "x"="letter"`; got != want {
		t.Errorf("outputs: %s\nwant: %s", got, want)
	}
	v = want(t, k.words("k", "xy!"), topology.Stop)
	if v.Failure.Node != "swap" || len(v.Outputs) != 0 {
		t.Errorf("failure %v with %d outputs", v.Failure, len(v.Outputs))
	}
}

// TestInheritance: what a record built from nothing takes over, and what a derived one keeps.
func TestInheritance(t *testing.T) {
	at, earlier := now.UnixMilli(), now.Add(-time.Minute).UnixMilli()
	traced := []topology.Header{{Key: "traceparent", Value: []byte("00-1-2-01")}}
	tests := map[string]struct {
		f       func(r word) word
		time    int64
		headers int
	}{
		"built":            {func(word) word { return word{Value: "v"} }, at, 1},
		"derived":          {func(r word) word { return topology.WithKey(r, "other") }, at, 1},
		"own time":         {func(word) word { return word{Timestamp: earlier} }, earlier, 1},
		"no headers":       {func(word) word { return word{Headers: []topology.Header{}} }, at, 0},
		"derived, epoch":   {func(r word) word { r.Timestamp = 0; return r }, 0, 1},
		"derived, without": {func(r word) word { r.Headers = nil; return r }, at, 0},
		"one more":         {func(r word) word { return r.WithHeader("k", nil) }, at, 2},
	}
	for name, test := range tests {
		for _, how := range []string{"map", "flat map", "outlet"} {
			b := topology.NewBuilder("inherit")
			source := topology.From(b, wordsTopic)
			var s words
			switch how {
			case "map":
				s = topology.Map(source, "f", func(r word) (word, error) { return test.f(r), nil })
			case "flat map":
				s = topology.FlatMap(source, "f", func(r word, emit func(word) error) error {
					return emit(test.f(r))
				})
			case "outlet":
				n := topology.Stateful(source, "f")
				out := topology.Outlet[string, string](n, "out")
				n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
					emit := out.In(t)
					return func(c *topology.Context, r word) error { return emit(c, test.f(r)) }, nil
				})
				s = out.Stream()
			}
			var seen word
			s.Peek("see", func(r word) error { seen = r; return nil }).Into(outTopic)
			k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
			in := k.input("words", []byte("k"), []byte("v"))
			in.Offset, in.StreamTime, in.Headers = 42, now.UnixMilli()+7, traced
			out := want(t, k.graph.Process(in), topology.Accept).Outputs[0]
			if out.Timestamp != test.time || len(out.Headers) != test.headers {
				t.Errorf("%s by %s: timestamp %d with %d headers, want %d with %d",
					name, how, out.Timestamp, len(out.Headers), test.time, test.headers)
			}
			topic, partition, offset := seen.Source()
			if topic != "words" || partition != 0 || offset != 42 || seen.StreamTime() != now.UnixMilli()+7 {
				t.Errorf("%s by %s: the source is %s-%d at %d, stream time %d",
					name, how, topic, partition, offset, seen.StreamTime())
			}
		}
	}
	if len(traced) != 1 || traced[0].Key != "traceparent" {
		t.Errorf("the input's headers were changed: %v", traced)
	}
}

// TestRecordsAreKept: a record that is kept past its turn keeps its source, and outputs keep their bytes.
func TestRecordsAreKept(t *testing.T) {
	b := topology.NewBuilder("keep")
	var kept []word
	topology.From(b, wordsTopic).Peek("keep", func(r word) error {
		kept = append(kept, r)
		return nil
	}).Into(outTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	var outputs []topology.Output
	const n = 3000 // more than the chunks of memory hold
	for i := range n {
		v := want(t, k.words(fmt.Sprintf("key-%d", i), strings.Repeat("v", i%50)), topology.Accept)
		outputs = append(outputs, v.Outputs...)
	}
	for i := range n {
		if _, _, offset := kept[i].Source(); offset != int64(i) {
			t.Fatalf("record %d says that its offset is %d", i, offset)
		}
		if string(outputs[i].Key) != fmt.Sprintf("key-%d", i) || len(outputs[i].Value) != i%50 {
			t.Fatalf("output %d is %s", i, lines(outputs[i:i+1]))
		}
	}
}

// TestHeadersDoNotAlias: branches that append to the headers of one record do not write over each other.
func TestHeadersDoNotAlias(t *testing.T) {
	b := topology.NewBuilder("alias")
	source := topology.From(b, wordsTopic)
	for _, name := range []string{"left", "right"} {
		topology.Map(source, name, func(r word) (word, error) {
			r.Headers = append(r.Headers, topology.Header{Key: "branch", Value: []byte(name)})
			return r, nil
		}).IntoNamed(name+"-out", outTopic)
	}
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	in := k.input("words", []byte("k"), []byte("v"))
	in.Headers = append(make([]topology.Header, 0, 8), topology.Header{Key: "h"})
	out := want(t, k.graph.Process(in), topology.Accept).Outputs
	for i, name := range []string{"left", "right"} {
		if h := out[i].Headers; len(h) != 2 || string(h[1].Value) != name {
			t.Errorf("the headers of %s are %v", name, h)
		}
	}
}

// TestEmitOutOfTurn: an Emit that escapes from its node does nothing.
func TestEmitOutOfTurn(t *testing.T) {
	b := topology.NewBuilder("escape", topology.DeadLetters("dead"))
	var escaped topology.Emit[string, string]
	var context *topology.Context
	n := topology.Stateful(topology.From(b, wordsTopic), "first")
	out := topology.Outlet[string, string](n, "out")
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		escaped = out.In(t)
		return func(c *topology.Context, r word) error { context = c; return escaped(c, r) }, nil
	})
	out.Stream().Peek("thief", func(r word) error {
		if r.Value == "steal" {
			return escaped(context, r)
		}
		return nil
	}).Into(outTopic)
	k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
	want(t, k.words("a", "fine"), topology.Accept)
	if err := escaped(context, word{}); err == nil || topology.ClassOf(err) != topology.Fatal {
		t.Errorf("emitting between two records returns %v", err)
	}
	want(t, k.words("a", "steal"), topology.Stop)
	v := want(t, k.words("a", "fine"), topology.Accept)
	if got := lines(v.Outputs); got != `out "a"="fine"` {
		t.Errorf("outputs: %s", got)
	}
}

func TestForeignRecordStops(t *testing.T) {
	k := openTask(t, fanOut(t, topology.DeadLetters("dead")), fanTask, baseConfig())
	in := k.input("elsewhere", nil, nil)
	want(t, k.graph.Process(in), topology.Stop)
	in = k.input("words", []byte("a"), []byte("b"))
	in.Partition = 1
	want(t, k.graph.Process(in), topology.Stop)
}

func TestSetup(t *testing.T) {
	b := topology.NewBuilder("setup")
	n := topology.Stateful(topology.From(b, wordsTopic), "node")
	used, unused := topology.Outlet[string, string](n, "used"), topology.Outlet[string, string](n, "unused")
	if used.Connected() || unused.Connected() {
		t.Error("an outlet is connected before anything uses it")
	}
	n.Process(func(s *topology.Setup) (topology.Handler[string, string], error) {
		if !used.Connected() || unused.Connected() {
			t.Errorf("connected: used %v, unused %v", used.Connected(), unused.Connected())
		}
		if s.Node() != "node" || s.Application() != "setup" || s.Task() != (topology.TaskID{"words", 3}) {
			t.Errorf("setup of %s, %s, %s", s.Node(), s.Application(), s.Task())
		}
		emit, none, counter := used.In(s), unused.In(s), s.Counter("none")
		return func(c *topology.Context, r word) error {
			if c.Task() != s.Task() || c.Application() != "setup" || c.Attempt() != 2 || c.StreamTime() != 5 {
				t.Errorf("context of %s, %s, attempt %d, stream time %d",
					c.Task(), c.Application(), c.Attempt(), c.StreamTime())
			}
			counter.Add(0)
			return errors.Join(emit(c, r), none(c, r))
		}, nil
	})
	used.Stream().Into(outTopic)
	k := openTask(t, mustBuild(t, b), topology.TaskID{Subtopology: "words", Partition: 3}, baseConfig())
	v := want(t, k.graph.Process(topology.Input{
		Topic: "words", Partition: 3, Key: []byte("k"), Value: []byte("v"), Attempt: 2, StreamTime: 5,
	}), topology.Accept)
	if len(v.Outputs) != 1 || len(v.Counts) != 0 {
		t.Errorf("%d outputs, %d counts", len(v.Outputs), len(v.Counts))
	}
}

func TestNewGraphErrors(t *testing.T) {
	type setup = topology.Setup
	type handler = topology.Handler[string, string]
	failing := func(factory func(*setup) (handler, error)) *topology.Topology {
		b := topology.NewBuilder("failing", topology.DeadLetters("dead"))
		topology.Stateful(topology.From(b, wordsTopic), "node").Process(factory)
		return mustBuild(t, b)
	}
	foreign := topology.Outlet[string, string](
		topology.Stateful(topology.From(topology.NewBuilder("foreign"), wordsTopic), "node"), "out")
	noop := func(*topology.Context, word) error { return nil }
	good := failing(func(*setup) (handler, error) { return noop, nil })
	config := func(change func(cfg *topology.GraphConfig)) topology.GraphConfig {
		cfg := baseConfig()
		change(&cfg)
		return cfg
	}
	tests := []struct {
		want string
		t    *topology.Topology
		id   topology.TaskID
		cfg  topology.GraphConfig
	}{
		{"no subtopology", good, topology.TaskID{Subtopology: "nowhere"}, baseConfig()},
		{"negative", good, topology.TaskID{Subtopology: "words", Partition: -1}, baseConfig()},
		{"needs Partitions and Now", good, fanTask, topology.GraphConfig{}},
		{"number of partitions of topic dead", good, fanTask, config(func(c *topology.GraphConfig) {
			c.Partitions = func(string) int32 { return 0 }
		})},
		{"needs at least", good, fanTask, config(func(c *topology.GraphConfig) {
			c.MaxMessageBytes = func(string) int32 { return 1000 }
		})},
		{"needs a State", fanOut(t), fanTask, baseConfig()},
		{"no luck", failing(func(*setup) (handler, error) { return nil, errors.New("no luck") }), fanTask,
			baseConfig()},
		{"handler is nil", failing(func(*setup) (handler, error) { return nil, nil }), fanTask, baseConfig()},
		{"panic with a value of type string", failing(func(*setup) (handler, error) { panic("no") }), fanTask,
			baseConfig()},
		{"not declared by node node", failing(func(s *setup) (handler, error) {
			counts := countStore.In(s)
			if err := counts.Put("a", 1); err == nil {
				t.Error("writing to a store that is not declared succeeds")
			}
			return noop, nil
		}), fanTask, baseConfig()},
		{"outlet of another node", failing(func(s *setup) (handler, error) {
			foreign.In(s)
			return noop, nil
		}), fanTask, baseConfig()},
		{"name of a counter", failing(func(s *setup) (handler, error) {
			s.Counter("a b")
			return noop, nil
		}), fanTask, baseConfig()},
	}
	for _, test := range tests {
		_, err := test.t.NewGraph(test.id, nil, test.cfg)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("the error is %v, want one with %q", err, test.want)
		}
	}
}

// TestTopologyIsShared: graphs of one topology run side by side. The race detector is the judge.
func TestTopologyIsShared(t *testing.T) {
	built := fanOut(t, topology.DeadLetters("dead"))
	var wg sync.WaitGroup
	for p := range int32(4) {
		k := openTask(t, built, topology.TaskID{Subtopology: "words", Partition: p}, baseConfig())
		wg.Go(func() {
			for i := range 200 {
				in := k.input("words", []byte("k"), []byte([]string{"fine", "plain", "panic"}[i%3]))
				in.Partition = p
				k.graph.Process(in)
				_ = built.Describe() + built.Fingerprint()
			}
		})
	}
	wg.Wait()
}
