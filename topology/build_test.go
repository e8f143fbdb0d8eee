package topology_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// next returns the line after the one that calls it: where the mistake of a test is made.
func next() int {
	_, _, line, _ := runtime.Caller(1)
	return line + 1
}

// TestMistakes makes each mistake alone, and looks for its text and its place.
func TestMistakes(t *testing.T) {
	type builder = *topology.Builder
	long := strings.Repeat("x", 201)
	stop := topology.Policy{Action: topology.Stop}
	tests := []struct {
		// want is the beginning of the mistake, after file and line.
		want string
		make func(b builder, source words) (line int)
	}{
		{`the name is taken by the node declared at`, func(b builder, s words) int {
			s.Peek("twice", ignore)
			line := next()
			s.Peek("twice", ignore)
			return line
		}},
		{`name of the node: "a b" has characters`, func(b builder, s words) int {
			line := next()
			s.Peek("a b", ignore)
			return line
		}},
		{`name of the node: it is empty`, func(b builder, s words) int {
			line := next()
			s.Peek("", ignore)
			return line
		}},
		{`name of the node: it has 201 characters, 200 are allowed`, func(b builder, s words) int {
			line := next()
			s.Peek(long, ignore)
			return line
		}},
		{`name of the node: ".." is not allowed`, func(b builder, s words) int {
			line := next()
			s.Peek("..", ignore)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			line := next()
			s.Filter("nil", nil)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			line := next()
			topology.Map[string, string, string, string](s, "nil", nil)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			line := next()
			topology.MapValues[string, string, string](s, "nil", nil)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			line := next()
			topology.MapValuesWithRecord[string, string, string](s, "nil", nil)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			line := next()
			topology.MapHeaders[string, string](s, "nil", nil)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			line := next()
			topology.SelectKey[string, string, string](s, "nil", nil)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			line := next()
			topology.FlatMap[string, string, string, string](s, "nil", nil)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			line := next()
			topology.Process[string, string, state.KeyValue[string, int64], string, string](s, "nil", countStore, nil)
			return line
		}},
		{`an option is nil`, func(b builder, s words) int {
			line := next()
			s.Peek("option", ignore, nil)
			return line
		}},
		{`an option is nil`, func(b builder, s words) int {
			line := next()
			topology.From(b, otherTopic, nil)
			return line
		}},
		{`an option is nil`, func(b builder, s words) int {
			line := next()
			topology.RepartitionWith(s, "option", schemas.String(), schemas.String(), nil)
			return line
		}},
		{`the value codec is nil`, func(b builder, s words) int {
			line := next()
			topology.From(b, topology.Topic[string, string]("nil", schemas.String(), nil))
			return line
		}},
		{`the key codec is nil`, func(b builder, s words) int {
			null := topology.Nullable[string](nil)
			line := next()
			topology.From(b, topology.Topic("nil", null, schemas.String()))
			return line
		}},
		{`the key codec and the value codec are nil`, func(b builder, s words) int {
			line := next()
			topology.RepartitionWith(s, "nil", nil, nil)
			return line
		}},
		{`the name of store words.parked is kept for parked records of the source words (`, func(b builder, s words) int {
			store := topology.KeyValueStore("words.parked", schemas.String(), schemas.Int64())
			line := next()
			topology.Process(s, "node", store, drop)
			return line
		}},
		{`the name of store again.parked is kept for parked records of the source again (`, func(b builder, s words) int {
			store := topology.KeyValueStore("again.parked", schemas.String(), schemas.Int64())
			topology.RepartitionWith(s, "again", schemas.String(), schemas.String())
			line := next()
			topology.Process(s, "node", store, drop)
			return line
		}},
		{`store nil: the key codec is nil`, func(b builder, s words) int {
			store := topology.KeyValueStore[string, int64]("nil", nil, schemas.Int64())
			line := next()
			topology.Process(s, "node", store, drop)
			return line
		}},
		{`store null: Nullable codecs are for topics`, func(b builder, s words) int {
			store := topology.KeyValueStore("null", schemas.String(), topology.Nullable(schemas.Int64()))
			line := next()
			topology.Stateful(s, "node", store).Process(idle)
			return line
		}},
		{`a store is nil`, func(b builder, s words) int {
			line := next()
			topology.Stateful(s, "node", nil).Process(idle)
			return line
		}},
		{`store counts is named twice`, func(b builder, s words) int {
			line := next()
			topology.Stateful(s, "node", countStore, countStore).Process(idle)
			return line
		}},
		{`store counts has codecs (string, string) here and (string, int64) in node first`,
			func(b builder, s words) int {
				topology.Stateful(s, "first", countStore).Process(idle)
				other := topology.KeyValueStore("counts", schemas.String(), schemas.String())
				line := next()
				topology.Stateful(s, "second", other).Process(idle)
				return line
			}},
		{`name of a store: "a/b" has characters`, func(b builder, s words) int {
			store := topology.KeyValueStore("a/b", schemas.String(), schemas.String())
			line := next()
			topology.Stateful(s, "node", store).Process(idle)
			return line
		}},
		{`stores costarring and liquid have the same id (5e4daa9d); rename one of them`,
			func(b builder, s words) int {
				first := topology.KeyValueStore("costarring", schemas.String(), schemas.String())
				second := topology.KeyValueStore("liquid", schemas.String(), schemas.String())
				topology.Stateful(s, "first", first).Process(idle)
				line := next()
				topology.Stateful(s, "second", second).Process(idle)
				return line
			}},
		{`the node has no Process function`, func(b builder, s words) int {
			line := next()
			topology.Stateful(s, "node")
			return line
		}},
		{`Process is called twice`, func(b builder, s words) int {
			n := topology.Stateful(s, "node")
			n.Process(idle)
			line := next()
			n.Process(idle)
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			n := topology.Stateful(s, "node")
			line := next()
			n.Process(nil)
			return line
		}},
		{`the node has an outlet of that name`, func(b builder, s words) int {
			n := topology.Stateful(s, "node")
			n.Process(idle)
			topology.Outlet[string, string](n, "out")
			line := next()
			topology.Outlet[string, int64](n, "out")
			return line
		}},
		{`name of the outlet: it is empty`, func(b builder, s words) int {
			n := topology.Stateful(s, "node")
			n.Process(idle)
			line := next()
			topology.Outlet[string, string](n, "")
			return line
		}},
		{`retention is negative`, func(b builder, s words) int {
			line := next()
			n := topology.Stateful(s, "node")
			n.Process(idle)
			n.Mistake(nil)
			n.Mistake(errors.New("retention is negative"))
			return line
		}},
		{`Split has no Otherwise branch`, func(b builder, s words) int {
			line := next()
			s.Split("split").Case("case", pass)
			return line
		}},
		{`a Split has one Otherwise branch`, func(b builder, s words) int {
			split := s.Split("split")
			split.Otherwise("rest")
			line := next()
			split.Otherwise("more")
			return line
		}},
		{`the function is nil`, func(b builder, s words) int {
			split := s.Split("split")
			split.Otherwise("rest")
			line := next()
			split.Case("case", nil)
			return line
		}},
		{`there is nothing to merge with`, func(b builder, s words) int {
			line := next()
			s.Merge("merge")
			return line
		}},
		{`a stream is merged twice`, func(b builder, s words) int {
			line := next()
			s.Merge("merge", s)
			return line
		}},
		{`a stream cannot be merged: it belongs to another Builder`, func(b builder, s words) int {
			other := topology.From(topology.NewBuilder("other"), wordsTopic)
			line := next()
			s.Merge("merge", other)
			return line
		}},
		{`the name is taken by the node declared at`, func(b builder, s words) int {
			s.Into(outTopic)
			line := next()
			s.Into(outTopic)
			return line
		}},
		{`name of the sink: it is empty`, func(b builder, s words) int {
			line := next()
			s.IntoNamed("", outTopic)
			return line
		}},
		{`sink topic: "a b" has characters`, func(b builder, s words) int {
			line := next()
			s.Into(topology.Topic("a b", schemas.String(), schemas.String()))
			return line
		}},
		{`source topic: "a b" has characters`, func(b builder, s words) int {
			line := next()
			topology.From(b, topology.Topic("a b", schemas.String(), schemas.String()))
			return line
		}},
		{`source topic: the topic name has 250 characters, Kafka allows 249`, func(b builder, s words) int {
			line := next()
			topology.From(b, topology.Topic(strings.Repeat("x", 250), schemas.String(), schemas.String()))
			return line
		}},
		{`the topic is read twice with different types, codecs or options`, func(b builder, s words) int {
			line := next()
			topology.From(b, topology.Topic("words", schemas.String(), schemas.Int64()))
			return line
		}},
		{`the topic is read twice with different types, codecs or options`, func(b builder, s words) int {
			line := next()
			topology.From(b, topology.Topic("words", schemas.String(), schemas.JSON[string]()))
			return line
		}},
		{`the topic is read twice with different types, codecs or options`, func(b builder, s words) int {
			line := next()
			topology.From(b, wordsTopic, topology.StartLatest())
			return line
		}},
		{`name of the repartitioning: "a b" has characters`, func(b builder, s words) int {
			line := next()
			topology.RepartitionWith(s, "a b", schemas.String(), schemas.String())
			return line
		}},
		{`Partitions(0): a topic has at least one partition`, func(b builder, s words) int {
			line := next()
			topology.RepartitionWith(s, "by", schemas.String(), schemas.String(), topology.Partitions(0))
			return line
		}},
		{`a repartitioning has the name of the source topic words`, func(b builder, s words) int {
			topology.RepartitionWith(s, "words", schemas.String(), schemas.String())
			return sourceLine
		}},
		{`the name test-x-changelog is reserved for internal topics of application test`,
			func(b builder, s words) int {
				line := next()
				s.Into(topology.Topic("test-x-changelog", schemas.String(), schemas.String()))
				return line
			}},
		{`the name test-x-repartition is reserved for internal topics of application test`,
			func(b builder, s words) int {
				line := next()
				topology.From(b, topology.Topic("test-x-repartition", schemas.String(), schemas.String()))
				return line
			}},
		{`OnError(poison): the action must be Retry, Park, Delay, DeadLetter or Stop, not accept`,
			func(b builder, s words) int {
				line := next()
				s.Peek("node", ignore, topology.OnError(topology.Poison, topology.Policy{}))
				return line
			}},
		{`OnError: class(0) is no error class`, func(b builder, s words) int {
			line := next()
			s.Peek("node", ignore, topology.OnError(0, stop))
			return line
		}},
		{`OnError(fatal): such an error always stops the task`, func(b builder, s words) int {
			policy := topology.Policy{Action: topology.DeadLetter}
			line := next()
			topology.Stateful(s, "node").OnError(topology.Fatal, policy).Process(idle)
			return line
		}},
		{`OnError(poison): only a retry, parking and a delay have attempts`, func(b builder, s words) int {
			policy := topology.Policy{Action: topology.Stop, Attempts: 3}
			line := next()
			s.Into(outTopic, topology.OnError(topology.Poison, policy))
			return line
		}},
		{"OnError(transient): a retry needs at least 2 attempts, not 1\n" +
			"OnError(transient): the pauses must satisfy 0 < Backoff <= BackoffMax, not 2ns and 1ns\n" +
			"OnError(transient): Then must be DeadLetter or Stop, not accept",
			func(b builder, s words) int {
				policy := topology.Policy{Action: topology.Retry, Attempts: 1, Backoff: 2, BackoffMax: 1}
				line := next()
				topology.From(b, otherTopic, topology.OnError(topology.Transient, policy))
				return line
			}},
	}
	for i, test := range tests {
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			b := topology.NewBuilder("test")
			sourceLine = next()
			source := topology.From(b, wordsTopic)
			line := test.make(b, source)
			mistakes := mistakesOf(t, b)
			if len(mistakes) != 1 {
				t.Fatalf("%d mistakes, want 1: %v", len(mistakes), mistakes)
			}
			m := mistakes[0]
			if !strings.HasPrefix(m.Err.Error(), test.want) {
				t.Errorf("the mistake is %q, want %q", m.Err, test.want)
			}
			if filepath.Base(m.File) != "build_test.go" || m.Line != line {
				t.Errorf("the place is %s:%d, want build_test.go:%d", filepath.Base(m.File), m.Line, line)
			}
		})
	}
}

var sourceLine int

func idle(*topology.Setup) (topology.Handler[string, string], error) {
	return func(*topology.Context, word) error { return nil }, nil
}

func drop(*topology.Context, state.KeyValue[string, int64], word, topology.Emit[string, string]) error {
	return nil
}

func mistakesOf(t *testing.T, b *topology.Builder) []*topology.Mistake {
	t.Helper()
	built, err := b.Build()
	if built != nil {
		t.Error("Build returns a topology and mistakes")
	}
	failed, ok := errors.AsType[*topology.BuildError](err)
	if !ok {
		t.Fatalf("Build returns %v", err)
	}
	return failed.Mistakes
}
