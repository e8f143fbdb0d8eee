package topology_test

import (
	"errors"
	"testing"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

func TestMemoryIsOfOneOpening(t *testing.T) {
	type mark struct{ records int }
	fresh := 0
	shared := topology.Memory(func() *mark { fresh++; return &mark{} })
	other := topology.Memory(func() *mark { return &mark{records: 100} })
	var got []*mark
	b := topology.NewBuilder("app")
	declare := func(name string) {
		topology.Stateful(topology.From(b, wordsTopic), name).Process(
			func(t *topology.Setup) (topology.Handler[string, string], error) {
				m := shared.In(t)
				if o := other.In(t); o == m || o.records != 100 {
					return nil, errors.New("two memories are one")
				}
				return func(*topology.Context, word) error {
					m.records++
					got = append(got, m)
					return nil
				}, nil
			})
	}
	declare("first")
	declare("second")
	topo := mustBuild(t, b)
	for range 2 {
		k := openTask(t, topo, graph.TaskID{Subtopology: "words"}, baseConfig())
		want(t, k.words("k", "v"), graph.Accept)
	}
	if fresh != 2 || len(got) != 4 || got[0] != got[1] || got[2] != got[3] || got[0] == got[2] {
		t.Fatalf("%d values were made, and the nodes have %p", fresh, got)
	}
	if got[3].records != 2 {
		t.Errorf("two nodes have counted %d", got[3].records)
	}
}
