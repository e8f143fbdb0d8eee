package processortest_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// memory is where a dedupe keeps what it has met.
type memory string

const (
	inStore     memory = "the store"
	inGraph     memory = "the graph"
	outside     memory = "a variable that outlives the graph"
	inBothTimes memory = "the store, twice"
)

// dedupe declares one that hands on the first record of each key, and counts it.
func dedupe(b *topology.Builder, where memory) {
	words := topology.Topic("words", schemas.String(), schemas.String())
	store := topology.KeyValueStore("met", schemas.String(), schemas.Int64())
	node := topology.Stateful(topology.From(b, words), "dedupe", store)
	out := topology.Outlet[string, string](node, "out")
	outlives := map[string]bool{}
	node.Process(func(s *topology.Setup) (topology.Handler[string, string], error) {
		met, emit, passed, here := store.In(s), out.In(s), s.Counter("passed"), map[string]bool{}
		return func(c *topology.Context, r topology.Record[string, string]) error {
			n, stored, err := met.Get(r.Key)
			if err != nil {
				return err
			}
			if stored || where == inGraph && here[r.Key] || where == outside && outlives[r.Key] {
				if where == inBothTimes {
					return met.Put(r.Key, n+1)
				}
				return nil
			}
			here[r.Key], outlives[r.Key] = true, true
			passed.Inc()
			return errors.Join(met.Put(r.Key, 1), emit(c, r))
		}, nil
	})
	out.Stream().Into(topology.Topic("firsts", schemas.String(), schemas.String()))
}

// TestCheckUndone is the negative control: a processor that keeps an effect in a Go variable is
// found by what undoes it and leaves the variable, and by nothing else.
func TestCheckUndone(t *testing.T) {
	for where, found := range map[memory][]processortest.Step{
		inStore: nil, inBothTimes: nil,
		inGraph: {processortest.Abort},
		outside: {processortest.Abort, processortest.Crash},
	} {
		wanted := map[processortest.Step]bool{}
		for _, step := range found {
			wanted[step] = true
		}
		for _, step := range []processortest.Step{
			processortest.GoOn, processortest.Commit, processortest.Crash, processortest.Abort, processortest.Restart,
		} {
			steps := []processortest.Step{processortest.Commit, processortest.GoOn, step, processortest.GoOn}
			err := processortest.CheckUndone(t, func(b *topology.Builder) { dedupe(b, where) }, steps,
				func(d *processortest.Driver, i int) { d.Pipe("words", []string{"a", "b", "a", "c"}[i], "x") })
			if (err != nil) != wanted[step] {
				t.Errorf("what is met is kept in %s, with a %s: %v", where, step, err)
			}
		}
	}
}

// TestCheckUndoneSteps: a step that is none is an error.
func TestCheckUndoneSteps(t *testing.T) {
	err := processortest.CheckUndone(t, func(b *topology.Builder) { dedupe(b, inStore) }, []processortest.Step{"jump"},
		func(d *processortest.Driver, _ int) { d.Pipe("words", "a", "x") })
	if err == nil {
		t.Error("a step that is none is taken")
	}
}
