package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// declareWords declares a node of that name that does nothing.
func declareWords(b *topology.Builder, name string) *topology.Node[string, string] {
	node := topology.Stateful(topology.From(b, wordsTopic), name)
	node.Process(func(*topology.Setup) (topology.Handler[string, string], error) {
		return func(*topology.Context, word) error { return nil }, nil
	})
	return node
}

// TestClauses is requirement K3: what nodes say of themselves is part of the contract.
func TestClauses(t *testing.T) {
	b := topology.NewBuilder("app")
	declareWords(b, "z").Clause(topology.OnReplay, "z4").Clause(topology.OnPoison, "z3").Clause(topology.OnDuplicate, "z2").
		Clause(topology.KeyAssumption, "z1")
	declareWords(b, "a").Clause(topology.OnDuplicate, "a1").Clause(topology.OnDuplicate, "a2")
	with := mustBuild(t, b)
	var got []string
	for _, c := range with.Clauses() {
		got = append(got, fmt.Sprint(c.Aspect, ": ", c.Node, " ", c.Text))
	}
	if s := strings.Join(got, "; "); s != "key assumption: z z1; on duplicate: a a1; on duplicate: a a2; on duplicate: z z2; "+
		"on poison: z z3; on replay: z z4" {
		t.Error(s)
	}
	b = topology.NewBuilder("app")
	declareWords(b, "z")
	declareWords(b, "a")
	if mustBuild(t, b).Fingerprint() != with.Fingerprint() {
		t.Error("clauses change the fingerprint")
	}
}

// TestClausesOfTables_K3: what keeps rows without code of the user's says so itself.
func TestClausesOfTables_K3(t *testing.T) {
	b := topology.NewBuilder("app")
	latest, limits := amountStore("latest"), amountStore("limits")
	amounts := topology.TableFrom(b, amountsTopic, latest)
	topology.JoinTables(amounts, topology.TableFrom(b, limitsTopic, limits), "joined",
		func(_ string, a, _ int64) (int64, error) { return a, nil })
	topology.CountTable(topology.GroupTable(amounts, "by-size", schemas.String(), schemas.Int64(),
		func(k string, v int64) (string, int64, error) { return k, v, nil }), amountStore("sizes"))
	words := topology.From(b, wordsTopic)
	topology.JoinStreamTable(words, amounts, "enriched", func(_, w string, _ int64) (string, error) { return w, nil })
	topology.JoinForeignKey(amounts, amounts, "linked", func(k string, _ int64) (topology.Option[string], error) { return topology.Some(k), nil },
		func(_ string, l, _ int64) (int64, error) { return l, nil })
	topology.JoinStreams(words, topology.From(b, otherTopic), "near", topology.Within(time.Hour), schemas.String(), schemas.String(), schemas.String(), plus)
	topology.JoinGlobalTable(words, topology.GlobalTableFrom(b, topology.Topic("rates", schemas.String(), schemas.Int64()), amountStore("rates")),
		"rated", func(r word) (topology.Option[string], error) { return topology.Some(r.Value), nil },
		func(_, w string, _ int64) (string, error) { return w, nil })
	topology.Count(words, amountStore("words"))
	topology.CountWindows(words, hourly, hourStore("hours"))
	said := map[string]int{}
	for _, c := range mustBuild(t, b).Clauses() {
		said[c.Node]++
		if c.Node == "hours" && c.Aspect == topology.OutOfOrder && !strings.Contains(c.Text, hourly.String()) {
			t.Errorf("of late records it says %q", c.Text)
		}
	}
	if s := fmt.Sprint(said); s != "map[enriched:3 hours:3 joined:2 latest:3 limits:3 linked:3 linked-subscriptions:1 near:3 rated:4 sizes:2 words:3]" {
		t.Errorf("the numbers of clauses are %s", s)
	}
}

func TestClauseMistakes(t *testing.T) {
	b := topology.NewBuilder("app")
	node := declareWords(b, "a")
	node.Clause(0, "x").Clause(topology.Retention+1, "x").Clause(topology.OnReplay, "").Clause(topology.OnReplay, "a\nb")
	_, err := b.Build()
	if err == nil || strings.Count(err.Error(), "is no aspect") != 2 || strings.Count(err.Error(), "is one line") != 2 {
		t.Errorf("the mistakes are %v", err)
	}
}

func TestReactions(t *testing.T) {
	stop, letter := topology.Policy{Action: topology.Stop}, topology.Policy{Action: topology.DeadLetter}
	b := topology.NewBuilder("app", topology.OnError(topology.Config, letter))
	declareWords(b, "z").OnError(topology.Poison, stop).OnError(topology.Validation, letter)
	declareWords(b, "a").OnError(topology.Config, stop)
	got := mustBuild(t, b).Reactions()
	if len(got) != 10 || got[5] != (topology.Reaction{Class: topology.Config, Policy: letter}) ||
		got[8] != (topology.Reaction{Node: "a", Class: topology.Config, Policy: stop}) ||
		got[9] != (topology.Reaction{Node: "z", Class: topology.Poison, Policy: stop}) {
		t.Errorf("the reactions are %+v", got)
	}
}
