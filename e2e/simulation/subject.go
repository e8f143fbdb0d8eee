package simulation

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/check"
	"github.com/onceward/onceward/e2e/testapp"
	"github.com/onceward/onceward/topology"
)

// Subject is an application that is simulated, with what is known about it. One value serves one
// run.
type Subject interface {
	// Topology returns the topology, the same at every call.
	Topology() *topology.Topology
	// UserTopics are those that exist before the application starts, Sources the ones that it
	// reads, its own included.
	UserTopics() []string
	Sources() []string
	// Topics are those that observers read, and how.
	Topics() map[string]testapp.Kind
	// Spec says to package check what the application does.
	Spec() check.Spec
	// Feed produces n inputs. It need not wait: inflight is done when all are answered, and
	// recorded in the history. The client partitions by key.
	Feed(f *Feed, n int, inflight *sync.WaitGroup) error
	// Finish produces what closes the input, such as records that close windows.
	Finish(f *Feed, inflight *sync.WaitGroup) error
	// Dump records the databases in a state directory, and returns how many stores it has read.
	Dump(history *testapp.Recorder, stateDir, source string) (stores int, err error)
	// Judge looks at the committed records of all topics in the end, by topic and partition, in
	// their order. It returns what is wrong, in one line each.
	Judge(log map[string][][]*kgo.Record) []string
}

// Follower is a Subject with users who read what it writes, and answer.
type Follower interface {
	Subject
	// Follows are the topics whose committed records Take gets, those of a partition in their
	// order. It is called by one goroutine, and not by that of Feed and Finish.
	Follows() []string
	Take(f *Feed, r *kgo.Record) error
	// Waiting says what is still to come of the inputs so far, "" if nothing.
	Waiting() string
}

// Partitioner is a Subject that chooses the partitions of its inputs in another way than by key.
type Partitioner interface {
	Partitioner() kgo.Partitioner
}

// Settler is a Subject whose Finish waits until the application has worked off the input before. Its
// last records would otherwise overtake others that a task has still to read from another partition.
type Settler interface {
	SettlesBeforeFinish()
}

// Feed is what a subject needs to produce its inputs.
type Feed struct {
	Context context.Context
	Client  *kgo.Client
	History *testapp.Recorder
	Rng     *rand.Rand
	// Partitions is the number of each topic's.
	Partitions int32
	// AbortShare is the share of transactions to abort. With 0 the client has no transactions.
	AbortShare float64
}

// accounts is the subject that package check judges alone: see package testapp.
type accounts struct {
	testapp.Accounts
	feeder *testapp.Feeder
}

// Copy copies its input, and writes dead letters.
func Copy() (Subject, error) { return newAccounts("copy", testapp.Parts{}) }

// Ledger has an inbox, a ledger and dead letters in one subtopology.
func Ledger() (Subject, error) { return newAccounts("ledger", testapp.Parts{Ledger: true}) }

// Repartition has two subtopologies with a repartition topic between them, and a store behind it.
func Repartition() (Subject, error) {
	return newAccounts("repartition", testapp.Parts{Repartition: true})
}

// Accounts are all of these in one topology.
func Accounts() (Subject, error) { return newAccounts("accounts", testapp.Everything) }

// LeakyInbox is Accounts with an inbox that knows no message again, for a negative control.
func LeakyInbox() (Subject, error) {
	parts := testapp.Everything
	parts.LeakDuplicates = true
	return newAccounts("accounts", parts)
}

func newAccounts(name string, parts testapp.Parts) (Subject, error) {
	a, err := testapp.NewAccounts(name, "", parts)
	if err != nil {
		return nil, err
	}
	return &accounts{Accounts: a}, nil
}

func (a *accounts) Topology() *topology.Topology { return a.Accounts.Topology }

func (a *accounts) Spec() check.Spec { return a.Accounts.Spec(openMax) }

func (a *accounts) Sources() []string {
	sources := []string{testapp.In}
	if a.Parts.Repartition {
		sources = append(sources, a.RepartitionTopic())
	}
	return sources
}

func (a *accounts) Feed(f *Feed, n int, inflight *sync.WaitGroup) error {
	if a.feeder == nil {
		a.feeder = &testapp.Feeder{
			Client: f.Client, History: f.History, Topic: testapp.In, Rng: f.Rng, Keys: 40, Others: 30, RepeatShare: 0.1, PoisonShare: 0.01,
		}
	}
	if f.AbortShare > 0 {
		return a.feeder.Transaction(f.Context, n, f.Rng.Float64() >= f.AbortShare)
	}
	a.feeder.Batch(f.Context, n, inflight)
	return nil
}

func (a *accounts) Finish(*Feed, *sync.WaitGroup) error { return nil }

func (a *accounts) Dump(history *testapp.Recorder, stateDir, source string) (int, error) {
	return testapp.Dump(history, a.Accounts, stateDir, source)
}

func (a *accounts) Judge(map[string][][]*kgo.Record) []string { return nil }
