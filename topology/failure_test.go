package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// fanOut is a topology in which a record writes to a store and to a topic before a second branch
// decides, by its value, how to end.
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
	topology.MapValuesWithRecord(source, "judge", judge).Into(secondTopic)
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
		m[value] = 1 //nolint:staticcheck // the panic is what the test is about
	case "plain":
		return "", errors.New("cannot handle plain")
	}
	if class, err := graph.ParseClass(value); err == nil {
		return "", topology.Fail(class, schemas.Reason("told to fail"))
	}
	return value, nil
}

var fanTask = graph.TaskID{Subtopology: "words", Partition: 0}

// TestFailureLeavesNoTrace is requirement G4. It fails records in the second branch, when the first
// one has written to a store, to a topic and to a counter.
func TestFailureLeavesNoTrace(t *testing.T) {
	for value, action := range map[string]topology.Action{
		"plain": topology.DeadLetter, "panic": topology.DeadLetter, "nil map": topology.DeadLetter,
		"transient": topology.Retry, "overload": topology.Retry,
		"conflict": topology.DeadLetter, "validation": topology.DeadLetter, "poison": topology.DeadLetter,
		"config": topology.Stop, "corruption": topology.Stop, "fatal": topology.Stop,
	} {
		t.Run(value, func(t *testing.T) {
			k := openTask(t, fanOut(t, topology.DeadLetters("dead")), fanTask, baseConfig())
			want(t, k.words("a", "fine"), graph.Accept)
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
			v = want(t, k.words("a", "fine"), graph.Accept)
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
			!strings.Contains(f.Stack, "failure_test.go:") {
			t.Errorf("the stack does not begin with the function that panicked:\n%s", f.Stack)
		}
		if strings.Contains(f.Error()+f.Stack, "a value of the record") {
			t.Errorf("the value of the panic is shown: %v\n%s", f, f.Stack)
		}
	}
}

// TestSwallowedFailure has a handler that ignores the error of Emit, and one that recovers the
// panic of a node behind it.
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
		topology.MapValuesWithRecord(out.Stream(), "judge", judge).Into(outTopic)
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

// TestUnencodable: a key or a value that its codec refuses is the fault of the record, at the sink.
func TestUnencodable(t *testing.T) {
	for part, f := range map[string]func(r word) word{
		"key":   func(r word) word { return topology.WithKey(r, "\xff") },
		"value": func(r word) word { return topology.WithValue(r, "\xff") },
	} {
		b := topology.NewBuilder("unencodable", topology.DeadLetters("dead"))
		source := topology.From(b, wordsTopic)
		topology.Map(source, "spoil", func(r word) (word, error) { return f(r), nil }).Into(outTopic)
		k := openTask(t, mustBuild(t, b), fanTask, baseConfig())
		failure := want(t, k.words("a", "b"), topology.DeadLetter).Failure
		if failure.Node != "out-sink" || failure.Class != topology.Poison ||
			!strings.HasPrefix(failure.Reason(), part+": schemas: append string") {
			t.Errorf("%v", failure)
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

// TestReasonNamesStateOfDatabase: the text of a store's error is not shown, and the reason names
// what the database is in.
func TestReasonNamesStateOfDatabase(t *testing.T) {
	for _, condition := range []error{state.ErrFull, state.ErrFailed, state.ErrCorrupt, state.ErrClosed} {
		f := topology.Failure{Class: topology.Fatal, Err: fmt.Errorf("key secret: %w", condition)}
		if got := f.Reason(); got != condition.Error() {
			t.Errorf("the reason for %q is %q", condition, got)
		}
	}
	if got := (&topology.Failure{Err: errors.New("key secret")}).Reason(); got != "error of type *errors.errorString" {
		t.Errorf("the reason for another error is %q", got)
	}
}

// TestUnreadableRowIsCorruption: bytes in a store that its codec refuses are not the record's
// fault.
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

// TestLargeEntry: what the changelog would refuse is refused when it is put, even if the handler
// ignores it.
func TestLargeEntry(t *testing.T) {
	b := topology.NewBuilder("large", topology.DeadLetters("dead"))
	texts := topology.KeyValueStore("texts", schemas.String(), schemas.String())
	n := topology.Stateful(topology.From(b, wordsTopic), "keep", texts)
	n.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		kept := texts.In(t)
		return func(c *topology.Context, r word) error {
			if r.Value == "delete" {
				_ = kept.Delete(r.Key)
			} else {
				_ = kept.Put(r.Key, r.Value)
			}
			return nil
		}, nil
	})
	cfg := baseConfig()
	cfg.MaxMessageBytes = func(topic string) int32 {
		if topic == "large-texts-changelog" {
			return 1000
		}
		return 0
	}
	k := openTask(t, mustBuild(t, b), fanTask, cfg)
	want(t, k.words("a", strings.Repeat("x", 900)), graph.Accept)
	want(t, k.words("b", "delete"), graph.Accept)
	large := strings.Repeat("x", 1000)
	refused := func(key, value string) {
		t.Helper()
		f := want(t, k.words(key, value), topology.DeadLetter).Failure
		if f.Node != "keep" || f.Class != topology.Validation ||
			!strings.HasPrefix(f.Reason(), "an entry of store texts has 10") {
			t.Errorf("the failure is %v", f)
		}
	}
	refused("a", large)
	refused(large, "delete")
	if value, _, err := texts.Open(k.state.Store("texts")).Get("a"); err != nil || len(value) != 900 {
		t.Errorf("the store has %d bytes, %v", len(value), err)
	}
}
