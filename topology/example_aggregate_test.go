package topology_test

import (
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// How often each person has said something.
func ExampleCount() {
	counts := topology.TimestampedStore("counts", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("count")
	topology.Count(topology.From(b, said), counts).Into(numbers)
	run(b, numbers, send(said, "ann", "hello"), send(said, "bob", "hi"), send(said, "ann", "bye"))
	// Output:
	// ann 1
	// bob 1
	// ann 2
}

// The longest text of each person.
func ExampleReduce() {
	longest := topology.TimestampedStore("longest", schemas.String(), schemas.String())
	b := topology.NewBuilder("reduce")
	topology.Reduce(topology.From(b, said), longest,
		func(sofar string, r topology.Record[string, string]) (string, error) {
			if len(r.Value) > len(sofar) {
				return r.Value, nil
			}
			return sofar, nil
		}).Into(results)
	run(b, results, send(said, "ann", "hello"), send(said, "ann", "hi"), send(said, "ann", "good bye"))
	// Output:
	// ann hello
	// ann hello
	// ann good bye
}

// How many characters each person has used. The text "bye" removes the entry.
func ExampleAggregate() {
	letters := topology.TimestampedStore("letters", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("aggregate")
	topology.Aggregate(topology.From(b, said), letters, nil,
		func(sofar int64, r topology.Record[string, string]) (int64, error) {
			if r.Value == "bye" {
				return 0, topology.ErrRemove
			}
			return sofar + int64(len(r.Value)), nil
		}).Into(numbers)
	run(b, numbers, send(said, "ann", "hello"), send(said, "ann", "hi"), send(said, "ann", "bye"))
	// Output:
	// ann 5
	// ann 7
	// ann null
}

// How many people live in each city. A person who moves leaves one group and enters another.
func ExampleGroupTable() {
	inhabitants := topology.TimestampedStore("inhabitants", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("group")
	byCity := topology.GroupTable(topology.TableFrom(b, cities, cityTable), "by-city", schemas.String(), schemas.String(),
		func(person, city string) (string, string, error) { return city, person, nil })
	topology.CountTable(byCity, inhabitants).Into(numbers)
	run(b, numbers, send(cities, "ann", "Bern"), send(cities, "bob", "Bern"), send(cities, "ann", "Basel"))
	// Output:
	// Bern 1
	// Bern 2
	// Bern 1
	// Basel 1
}

func ExampleCountTable() {
	people := topology.TimestampedStore("people", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("count-table")
	all := topology.GroupTable(topology.TableFrom(b, cities, cityTable), "all", schemas.String(), schemas.String(),
		func(person, _ string) (string, string, error) { return "everybody", person, nil })
	topology.CountTable(all, people).Into(numbers)
	run(b, numbers, send(cities, "ann", "Bern"), send(cities, "bob", "Bern"), send(cities, "ann", "Basel"), remove(cities, "bob"))
	// Output:
	// everybody 1
	// everybody 2
	// everybody 2
	// everybody 1
}

// The total of each person's accounts: a new balance of an account replaces the old one.
func ExampleReduceTable() {
	balances := topology.Topic("balances", schemas.String(), schemas.Int64())
	accounts := topology.TimestampedStore("accounts", schemas.String(), schemas.Int64())
	owners := topology.TimestampedStore("owners", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("reduce-table")
	byOwner := topology.GroupTable(topology.TableFrom(b, balances, accounts), "by-owner", schemas.String(), schemas.Int64(),
		func(account string, balance int64) (string, int64, error) {
			owner, _, _ := strings.Cut(account, "/")
			return owner, balance, nil
		})
	topology.ReduceTable(byOwner, owners,
		func(sofar int64, _ string, balance int64) (int64, error) { return sofar + balance, nil },
		func(sofar int64, _ string, balance int64) (int64, error) { return sofar - balance, nil }).Into(numbers)
	run(b, numbers, send(balances, "ann/1", 100), send(balances, "ann/2", 50), send(balances, "ann/1", 70))
	// Output:
	// ann 100
	// ann 150
	// ann 120
}

// The inhabitants of each city. A city without people has no entry.
func ExampleAggregateTable() {
	people := topology.Topic("people", schemas.String(), schemas.JSON[map[string]bool]())
	store := topology.TimestampedStore("people-of", schemas.String(), schemas.JSON[map[string]bool]())
	b := topology.NewBuilder("aggregate-table")
	byCity := topology.GroupTable(topology.TableFrom(b, cities, cityTable), "by-city", schemas.String(), schemas.String(),
		func(person, city string) (string, string, error) { return city, person, nil })
	topology.AggregateTable(byCity, store, func() map[string]bool { return map[string]bool{} },
		func(sofar map[string]bool, _, person string) (map[string]bool, error) {
			sofar[person] = true
			return sofar, nil
		},
		func(sofar map[string]bool, _, person string) (map[string]bool, error) {
			delete(sofar, person)
			if len(sofar) == 0 {
				return nil, topology.ErrRemove
			}
			return sofar, nil
		}).Into(people)
	run(b, people, send(cities, "ann", "Bern"), send(cities, "bob", "Bern"), send(cities, "ann", "Basel"), remove(cities, "bob"))
	// Output:
	// Bern map[ann:true]
	// Bern map[ann:true bob:true]
	// Bern map[bob:true]
	// Basel map[ann:true]
	// Bern null
}
