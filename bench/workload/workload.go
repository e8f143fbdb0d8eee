package workload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onceward/onceward/topology"
)

// Topics are the user topics of a workload.
type Topics struct {
	In, Out string
	// Dead takes dead letters. No workload has any: one is a wrong answer.
	Dead string
}

// Data is a kind of input.
type Data string

// The kinds of input.
const (
	// Events are made up.
	Events Data = "events"
	// Flights are those of 2013, as events.
	Flights Data = "flights"
	// Nexmark is the auction site.
	Nexmark Data = "nexmark"
)

// Workload is a topology with an input and a judge of its output.
type Workload struct {
	Name string
	// About says in a line what it does.
	About string
	// Data is what it reads. Workloads of one kind can share an input.
	Data Data
	// Shuffles says that records go through a repartition topic, so that their order is not that of
	// the input.
	Shuffles bool
	// HasClock says that an output has its event's clock, so that its latency can be measured.
	HasClock bool
	// Store is the store whose rows are the last outputs of their keys, empty if there is none or
	// none that is compared; Inbox is the one that has a row for each event.
	Store, Inbox string
	// Evidence says that every decision is written down, in the [EvidenceTopic] of the output.
	Evidence bool

	build func(b *topology.Builder, t Topics)
	// output processes events, query bids, sided the sides of joins; one of them is set.
	output *output
	query  *query
	sided  *sided
}

// All are the workloads.
func All() []Workload { return slices.Concat(overEvents(), joins(), nexmark()) }

func overEvents() []Workload {
	return []Workload{
		{Name: "pass", About: "copies records", Data: Events, HasClock: true, build: pass, output: &output{kind: copied}},
		{
			Name: "count", About: "counts the records of each account", Data: Events, Store: countStore, build: count,
			output: &output{kind: counted},
		},
		{
			Name: "ledger", About: "drops duplicates and keeps count and balance of each account", Data: Events, HasClock: true,
			Store: balanceStore, Inbox: inboxStore, build: postOnce, output: &output{kind: summed, dedupes: true},
		},
		{
			Name: "ledger-bare", About: "keeps count and balance of each account, without an inbox before it", Data: Events,
			HasClock: true, Store: balanceStore, build: post, output: &output{kind: summed, dedupes: true},
		},
		{
			Name: "ledger-payload", About: "is ledger in one row: no inbox, and the ledger compares payloads", Data: Events,
			HasClock: true, Store: balanceStore, build: postComparing, output: &output{kind: summed, dedupes: true},
		},
		{
			Name: "ledger-evidence", About: "is ledger, and writes every decision down", Data: Events, HasClock: true,
			Store: balanceStore, Inbox: inboxStore, Evidence: true, build: postWithEvidence, output: &output{kind: summed, dedupes: true},
		},
		{
			Name: "repartition", About: "counts the records of each counterparty, behind a repartition topic", Data: Events, Shuffles: true,
			Store: countStore, build: repartition, output: &output{kind: counted, byCounterparty: true},
		},
		{
			Name: "flights", About: "drops duplicates and sums up the flights of each carrier, behind a repartition topic", Data: Flights,
			Shuffles: true, HasClock: true, Store: balanceStore, Inbox: inboxStore, build: postFlights,
			output: &output{kind: summed, dedupes: true, byCounterparty: true},
		},
	}
}

// Names are the names of all workloads.
func Names() (names []string) {
	for _, w := range All() {
		names = append(names, w.Name)
	}
	return names
}

// Find returns the workload of that name.
func Find(name string) (Workload, error) {
	for _, w := range All() {
		if w.Name == name {
			return w, nil
		}
	}
	return Workload{}, fmt.Errorf("there is no workload %q; there are %s", name, strings.Join(Names(), ", "))
}

// Topology returns the workload's topology over the topics.
func (w Workload) Topology(application string, t Topics) (*topology.Topology, error) {
	b := topology.NewBuilder(application, topology.DeadLetters(t.Dead))
	w.build(b, t)
	return b.Build()
}
