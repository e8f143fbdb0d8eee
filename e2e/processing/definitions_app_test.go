//go:build unix

package processing

import (
	"time"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// definitionSettings are one instance of one of two applications: that of the first definition of a
// projection, which has the choice between the two, and that of the second one.
type definitionSettings struct {
	Brokers     []string
	Application string
	Instance    string
	StateDir    string
	// Prefix is that of the names of the topics.
	Prefix string
	// Definition is what the application computes. That of the first one has the choice as well.
	Definition uint16
	// ChoosesInMemory breaks the choice on purpose: it goes by what its process has met.
	ChoosesInMemory bool
}

// The definitions.
const (
	// firstDefinition adds up the amounts of a key.
	firstDefinition uint16 = 1
	// secondDefinition adds up their squares.
	secondDefinition uint16 = 2
)

// The names of the topics behind the prefix that the pipeline does not have.
const (
	// topicRows has the rows of the second definition.
	topicRows   = "rows-2"
	topicServed = "served"
)

// amountEvent is an amount. The versions of a key begin with 1, and none is left out.
type amountEvent struct {
	Version int64 `json:"version"`
	Amount  int64 `json:"amount"`
}

// definedSum is what a definition has made of the amounts of a key.
type definedSum struct {
	Definition uint16 `json:"definition"`
	Sum        int64  `json:"sum"`
}

type (
	amountRecord = topology.Record[string, amountEvent]
	sumRow       = projection.Row[definedSum]
	sumRows      = topology.Stream[string, sumRow]
)

// Topology returns the topology.
func (s definitionSettings) Topology() (*topology.Topology, error) {
	b := topology.NewBuilder("definitions", topology.DeadLetters(s.Prefix+TopicDead))
	sums := projection.Latest(topology.From(b, topicOf[amountEvent](s.Prefix, TopicEvents)), "sums",
		func(r amountRecord) (int64, error) { return r.Value.Version, nil }, s.fold, schemas.JSON[definedSum](),
		projection.FirstVersion(1), projection.DefinitionVersion(s.Definition))
	if s.Definition == secondDefinition {
		sums.Changes().Into(topicOf[sumRow](s.Prefix, topicRows))
		return b.Build()
	}
	commands := topology.From(b, topology.Topic(s.Prefix+TopicCommands, schemas.Bytes(), schemas.JSON[projection.Command]()))
	served, answers := s.choose(commands, sums.Changes(), topology.From(b, topicOf[sumRow](s.Prefix, topicRows)))
	served.Into(topicOf[sumRow](s.Prefix, topicServed))
	answers.Into(topology.Topic(s.Prefix+TopicAnswers, schemas.Bytes(), schemas.JSON[projection.Answer]()))
	return b.Build()
}

// fold is what the definition makes of one more amount.
func (s definitionSettings) fold(old definedSum, _ bool, r amountRecord) (definedSum, error) {
	amount := r.Value.Amount
	if s.Definition == secondDefinition {
		amount *= amount
	}
	return definedSum{s.Definition, old.Sum + amount}, nil
}

// choose passes on the rows of one definition at a time, and answers commands.
func (s definitionSettings) choose(commands topology.Stream[[]byte, projection.Command], first, second sumRows) (
	served sumRows, answers topology.Stream[[]byte, projection.Answer],
) {
	if s.ChoosesInMemory {
		return chooseInMemory(commands, first, second)
	}
	choice := projection.Choose(commands, "choice", schemas.JSON[definedSum](), []projection.Defined[string, definedSum]{
		projection.Define(firstDefinition, first), projection.Define(secondDefinition, second),
	})
	return choice.Changes(), choice.Answers()
}

// Config is how an instance runs. Nothing waits for its timeouts: who is killed comes back under
// the same identity.
func (s definitionSettings) Config() txn.Config {
	return txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: 1,
		CommitIntervalMax: 20 * time.Millisecond, CacheBytes: 8 << 20,
	}
}
