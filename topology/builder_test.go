package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// TestLongInternalNames: names that are fine alone and too long with what is put around them.
func TestLongInternalNames(t *testing.T) {
	long := strings.Repeat("x", 200)
	b := topology.NewBuilder(strings.Repeat("a", 60))
	s := topology.From(b, wordsTopic)
	topology.Stateful(s, "node", topology.KeyValueStore(long, schemas.String(), schemas.String())).Process(idle)
	repartition(s, long)
	mistakes := mistakesOf(t, b)
	if len(mistakes) != 2 {
		t.Fatalf("mistakes: %v", mistakes)
	}
	for _, m := range mistakes {
		if !strings.Contains(m.Err.Error(), "would have a name of 27") || m.Line == 0 {
			t.Errorf("the mistake is %v", m)
		}
	}
}

// TestMistakesOfBuilder: mistakes that are not about a node have the place of NewBuilder.
func TestMistakesOfBuilder(t *testing.T) {
	ignoreConfig := topology.OnError(topology.Config, topology.Policy{})
	for want, opts := range map[string][]topology.BuilderOption{
		"the topology has no source":            nil,
		"dead-letter topic: it is empty":        {topology.DeadLetters("")},
		"the name test-a-changelog is reserved": {topology.DeadLetters("test-a-changelog")},
		"the name test-rounds is reserved":      {topology.DeadLetters("test-rounds")},
		"an option is nil":                      {nil},
		"OnError(config): the action must be":   {ignoreConfig},
		"words is the dead-letter topic of":     {topology.DeadLetters("words")},
	} {
		line := next()
		b := topology.NewBuilder("test", opts...)
		if opts != nil {
			at := next()
			topology.From(b, wordsTopic)
			if strings.HasPrefix(want, "words") {
				line = at
			}
		}
		mistakes := mistakesOf(t, b)
		if len(mistakes) != 1 || mistakes[0].Line != line ||
			!strings.HasPrefix(mistakes[0].Err.Error(), want) {
			t.Errorf("mistakes: %v; want %q at line %d", mistakes, want, line)
		}
	}
	b := topology.NewBuilder("a b")
	topology.From(b, wordsTopic)
	if m := mistakesOf(t, b); len(m) != 1 || !strings.HasPrefix(m[0].Err.Error(), "name of the topology") {
		t.Errorf("mistakes: %v", m)
	}
}

// TestAllMistakesAtOnce also looks at the text of a BuildError.
func TestAllMistakesAtOnce(t *testing.T) {
	b := topology.NewBuilder("many")
	s := topology.From(b, wordsTopic)
	s.Filter("nil", nil).Peek("a b", ignore).Into(outTopic)
	topology.Stateful(s, "node")
	s.Split("split")
	_, err := b.Build()
	var lines []string
	for i, line := range strings.Split(fmt.Sprint(err), "\n") {
		if i > 0 {
			_, line, _ = strings.Cut(line, "builder_test.go:")
			_, line, _ = strings.Cut(line, ": ")
		}
		lines = append(lines, line)
	}
	want := `topology many: 4 mistakes
nil: the function is nil
a b: name of the node: "a b" has characters other than A-Z a-z 0-9 . _ -
node: the node has no Process function
split: Split has no Otherwise branch`
	if got := strings.Join(lines, "\n"); got != want {
		t.Errorf("the error is\n%s\nwant\n%s", got, want)
	}
	if m, ok := errors.AsType[*topology.Mistake](err); !ok || m.Node != "nil" {
		t.Errorf("the first mistake found by AsType is %v", m)
	}
}

// TestClosedBuilder: what is declared after Build is a mistake and does not reach the topology.
func TestClosedBuilder(t *testing.T) {
	b := topology.NewBuilder("closed")
	s := topology.From(b, wordsTopic)
	split := s.Split("split")
	split.Otherwise("rest")
	n := topology.Stateful(s, "node")
	n.Process(idle)
	s.Into(outTopic)
	built := mustBuild(t, b)
	if again := mustBuild(t, b); again != built {
		t.Error("a second Build returns another topology")
	}
	before := built.Describe()
	late := []func(){
		func() { s.Peek("late", ignore) },
		func() { s.IntoNamed("late", outTopic) },
		func() { s.Merge("late", split.Case("late", pass)) },
		func() { split.Otherwise("late") },
		func() { topology.Outlet[string, string](n, "late").Stream().Into(secondTopic) },
		func() { n.Process(idle) },
		func() { n.OnError(topology.Poison, topology.Policy{Action: topology.Stop}) },
		func() { topology.From(b, otherTopic).IntoNamed("later", outTopic) },
		func() { topology.RepartitionWith(s, "late", schemas.String(), schemas.String()).Peek("later", ignore) },
		func() { topology.Stateful(s, "late", countStore).Process(idle) },
	}
	noted := 0
	for i, declare := range late {
		declare()
		m := mistakesOf(t, b)
		if len(m) <= noted || !strings.HasPrefix(m[noted].Err.Error(), "declared after Build") {
			t.Errorf("late declaration %d: mistakes %v", i, m[noted:])
		}
		noted = len(m)
	}
	if after := built.Describe(); after != before {
		t.Errorf("the topology has changed:\n%s", after)
	}
	k := openTask(t, built, fanTask, baseConfig())
	v := want(t, k.words("a", "b"), graph.Accept)
	if len(v.Outputs) != 1 {
		t.Errorf("outputs: %s", lines(v.Outputs))
	}
	want(t, k.graph.Process(k.input("words", nil, nil)), topology.Stop)
}

// TestZeroStream: there is no builder to report it to, and going on would lose a part of the
// topology.
func TestZeroStream(t *testing.T) {
	defer func() {
		if p := fmt.Sprint(recover()); !strings.Contains(p, "Peek(look) uses the zero Stream") {
			t.Errorf("the panic is %s", p)
		}
	}()
	words{}.Peek("look", ignore)
}

func TestWithApplication(t *testing.T) {
	b := topology.NewBuilder("payments", topology.DeadLetters("dead"))
	s := topology.From(b, wordsTopic)
	topology.Stateful(s, "node", countStore).Process(idle)
	topology.RepartitionWith(s, "by-key", schemas.String(), schemas.String()).Into(outTopic)
	built := mustBuild(t, b)
	next, err := built.WithApplication("payments-v2")
	if err != nil {
		t.Fatal(err)
	}
	if built.Application() != "payments" || next.Application() != "payments-v2" || next.Name() != "payments" {
		t.Errorf("applications %s and %s, name %s", built.Application(), next.Application(), next.Name())
	}
	if got := fmt.Sprint(built.InternalTopics(), next.InternalTopics()); got !=
		"[payments-by-key-repartition payments-counts-changelog] "+
			"[payments-v2-by-key-repartition payments-v2-counts-changelog]" {
		t.Errorf("internal topics: %s", got)
	}
	if got := fmt.Sprint(built.Topics(), " ", next.DeadLetterTopic()); got != "[dead out words] dead" {
		t.Errorf("topics: %s", got)
	}
	if built.Fingerprint() != next.Fingerprint() || built.Describe() != next.Describe() {
		t.Error("the application id is part of the fingerprint or of the description")
	}
	for id, want := range map[string]string{
		"":                       "application id: it is empty",
		"a b":                    "application id: \"a b\" has characters",
		strings.Repeat("x", 245): "application id: it has 245 characters",
	} {
		if _, err := built.WithApplication(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("application %q: %v, want %q", id, err, want)
		}
	}
	clash := topology.NewBuilder("clash")
	topology.From(clash, topology.Topic("new-x-changelog", schemas.String(), schemas.String()))
	if _, err := mustBuild(t, clash).WithApplication("new"); err == nil ||
		!strings.Contains(err.Error(), "the name new-x-changelog is reserved") {
		t.Errorf("a source with a reserved name: %v", err)
	}
}
