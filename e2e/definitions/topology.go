package definitions

import (
	"time"

	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// Settings are one instance of one of the applications.
type Settings struct {
	Brokers     []string
	Application string
	Instance    string
	StateDir    string
	// Prefix is that of the names of the topics.
	Prefix string
	// Definition is what the application computes. That of the first one has the choice as well.
	Definition uint16
	// Broken breaks the choice on purpose.
	Broken Broken
}

// The definitions.
const (
	// First adds up the amounts of a key.
	First uint16 = 1
	// Second adds up their squares.
	Second uint16 = 2
)

// The names of the topics behind the prefix.
const (
	TopicEvents = "events"
	// TopicRows has the rows of the second definition.
	TopicRows     = "rows-2"
	TopicCommands = "commands"
	TopicAnswers  = "answers"
	TopicServed   = "served"
	TopicDead     = "dead"
)

// Partitions is how many every topic has.
const Partitions = 2

// Event is an amount. The versions of a key begin with 1, and none is left out.
type Event struct {
	Version int64 `json:"version"`
	Amount  int64 `json:"amount"`
}

// Sum is what a definition has made of the amounts of a key.
type Sum struct {
	Definition uint16 `json:"definition"`
	Sum        int64  `json:"sum"`
}

type (
	event = topology.Record[string, Event]
	row   = projection.Row[Sum]
	rows  = topology.Stream[string, row]
)

// Topology returns the topology.
func (s Settings) Topology() (*topology.Topology, error) {
	b := topology.NewBuilder("definitions", topology.DeadLetters(s.Prefix+TopicDead))
	sums := projection.Latest(topology.From(b, topicOf[Event](s, TopicEvents)), "sums",
		func(r event) (int64, error) { return r.Value.Version, nil }, s.fold, schemas.JSON[Sum](),
		projection.FirstVersion(1), projection.DefinitionVersion(s.Definition))
	if s.Definition == Second {
		sums.Changes().Into(topicOf[row](s, TopicRows))
		return b.Build()
	}
	commands := topology.From(b, topology.Topic(s.Prefix+TopicCommands, schemas.Bytes(), schemas.JSON[projection.Command]()))
	served, answers := s.choose(commands, sums.Changes(), topology.From(b, topicOf[row](s, TopicRows)))
	served.Into(topicOf[row](s, TopicServed))
	answers.Into(topology.Topic(s.Prefix+TopicAnswers, schemas.Bytes(), schemas.JSON[projection.Answer]()))
	return b.Build()
}

// fold is what the definition makes of one more amount.
func (s Settings) fold(old Sum, _ bool, r event) (Sum, error) {
	amount := r.Value.Amount
	if s.Definition == Second {
		amount *= amount
	}
	return Sum{s.Definition, old.Sum + amount}, nil
}

// choose passes on the rows of one definition at a time, and answers commands.
func (s Settings) choose(commands topology.Stream[[]byte, projection.Command], first, second rows) (
	served rows, answers topology.Stream[[]byte, projection.Answer],
) {
	if s.Broken == KeepsInMemory {
		return chooseInMemory(commands, first, second)
	}
	choice := projection.Choose(commands, "choice", schemas.JSON[Sum](), []projection.Defined[string, Sum]{
		projection.Define(First, first), projection.Define(Second, second),
	})
	return choice.Changes(), choice.Answers()
}

// topicOf describes a topic of JSON.
func topicOf[V any](s Settings, name string) topology.TopicOf[string, V] {
	return topology.Topic(s.Prefix+name, schemas.String(), schemas.JSON[V]())
}

// Config is how an instance runs. Nothing waits for its timeouts: who is killed comes back under the same identity.
func (s Settings) Config() txn.Config {
	return txn.Config{
		Brokers: s.Brokers, Application: s.Application, Instance: s.Instance, StateDir: s.StateDir, Workers: 1,
		CommitIntervalMax: 20 * time.Millisecond, CacheBytes: 8 << 20,
	}
}
