package topology_test

import (
	"fmt"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The tables of the examples: where people live, and what they do there.
var (
	cities    = topology.Topic("cities", schemas.String(), schemas.String())
	jobs      = topology.Topic("jobs", schemas.String(), schemas.String())
	cityTable = topology.TimestampedStore("city-table", schemas.String(), schemas.String())
	jobTable  = topology.TimestampedStore("job-table", schemas.String(), schemas.String())
	results   = topology.Topic("results", schemas.String(), schemas.String())
	numbers   = topology.Topic("numbers", schemas.String(), schemas.Int64())
)

// A topic as a table: the last record of a key is its value, and a null deletes it.
func ExampleTableFrom() {
	b := topology.NewBuilder("table")
	topology.TableFrom(b, cities, cityTable).Into(results)
	run(b, results, send(cities, "ann", "Bern"), send(cities, "ann", "Basel"), remove(cities, "ann"))
	// Output:
	// ann Bern
	// ann Basel
	// ann null
}

// A table without a changelog: what the application owns on the cluster.
func ExampleRestoreFromTopic() {
	for _, opts := range [][]topology.SourceOption{nil, {topology.RestoreFromTopic()}} {
		b := topology.NewBuilder("table")
		topology.TableFrom(b, cities, cityTable, opts...).Into(results)
		t, err := b.Build()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(t.InternalTopics(), "restored from", t.Subtopologies()[0].Stores[0].Topic())
	}
	// Output:
	// [table-city-table-changelog] restored from table-city-table-changelog
	// [] restored from cities
}

// A stream as a table: the last thing that everybody has said.
func ExampleToTable() {
	last := topology.TimestampedStore("last", schemas.String(), schemas.String())
	b := topology.NewBuilder("to-table")
	spoken := topology.From(b, said).Filter("spoken", func(r topology.Record[string, string]) (bool, error) {
		return r.Value != "", nil
	})
	topology.ToTable(spoken, last).Into(results)
	run(b, results, send(said, "ann", "hello"), send(said, "ann", ""), send(said, "ann", "bye"))
	// Output:
	// ann hello
	// ann bye
}

// A stream as a table, with records that delete.
func ExampleToTableWithDeletes() {
	present := topology.TimestampedStore("present", schemas.String(), schemas.String())
	b := topology.NewBuilder("to-table")
	words := topology.MapValues(topology.From(b, said), "until-bye",
		func(v string) (topology.Option[string], error) {
			if v == "bye" {
				return topology.None[string](), nil
			}
			return topology.Some(v), nil
		})
	topology.ToTableWithDeletes(words, present).Into(results)
	run(b, results, send(said, "ann", "hello"), send(said, "ann", "bye"))
	// Output:
	// ann hello
	// ann null
}

func ExampleTable_Filter() {
	b := topology.NewBuilder("filter")
	topology.TableFrom(b, cities, cityTable).Filter("swiss", func(_, city string) (bool, error) {
		return strings.HasPrefix(city, "B"), nil
	}).Into(results)
	run(b, results, send(cities, "ann", "Bern"), send(cities, "bob", "Paris"), send(cities, "ann", "Lyon"))
	// Output:
	// ann Bern
	// ann null
}

func ExampleMapTable() {
	b := topology.NewBuilder("map")
	topology.MapTable(topology.TableFrom(b, cities, cityTable), "length", func(_, city string) (int64, error) {
		return int64(len(city)), nil
	}).Into(numbers)
	run(b, numbers, send(cities, "ann", "Bern"), remove(cities, "ann"))
	// Output:
	// ann 4
	// ann null
}

func ExampleJoinTables() {
	b := topology.NewBuilder("join")
	topology.JoinTables(topology.TableFrom(b, cities, cityTable), topology.TableFrom(b, jobs, jobTable), "people",
		func(_, city, job string) (string, error) { return job + " in " + city, nil }).Into(results)
	run(b, results, send(cities, "ann", "Bern"), send(jobs, "ann", "baker"), send(cities, "ann", "Basel"), remove(jobs, "ann"))
	// Output:
	// ann baker in Bern
	// ann baker in Basel
	// ann null
}

func ExampleLeftJoinTables() {
	b := topology.NewBuilder("left-join")
	topology.LeftJoinTables(topology.TableFrom(b, cities, cityTable), topology.TableFrom(b, jobs, jobTable), "people",
		func(_, city string, job topology.Option[string]) (string, error) {
			return job.Or("somebody") + " in " + city, nil
		}).
		Into(results)
	run(b, results, send(cities, "ann", "Bern"), send(jobs, "ann", "baker"), send(jobs, "bob", "cook"))
	// Output:
	// ann somebody in Bern
	// ann baker in Bern
}

func ExampleOuterJoinTables() {
	b := topology.NewBuilder("outer-join")
	topology.OuterJoinTables(topology.TableFrom(b, cities, cityTable), topology.TableFrom(b, jobs, jobTable), "people",
		func(_ string, city, job topology.Option[string]) (string, error) {
			return job.Or("somebody") + " in " + city.Or("some place"), nil
		}).Into(results)
	run(b, results, send(cities, "ann", "Bern"), send(jobs, "bob", "cook"))
	// Output:
	// ann somebody in Bern
	// bob cook in some place
}

// Each order gets the city where its customer lives at that moment. A change of the table emits
// nothing.
func ExampleJoinStreamTable() {
	orders := topology.Topic("orders", schemas.String(), schemas.String())
	b := topology.NewBuilder("enrich")
	topology.JoinStreamTable(topology.From(b, orders), topology.TableFrom(b, cities, cityTable), "address",
		func(_, order, city string) (string, error) { return order + " to " + city, nil }).Into(results)
	run(b, results, send(orders, "ann", "a book"), send(cities, "ann", "Bern"), send(orders, "ann", "a lamp"), send(cities, "ann", "Basel"),
		send(orders, "ann", "a chair"))
	// Output:
	// ann a lamp to Bern
	// ann a chair to Basel
}

func ExampleLeftJoinStreamTable() {
	orders := topology.Topic("orders", schemas.String(), schemas.String())
	b := topology.NewBuilder("enrich")
	topology.LeftJoinStreamTable(topology.From(b, orders), topology.TableFrom(b, cities, cityTable), "address",
		func(_, order string, city topology.Option[string]) (string, error) {
			return order + " to " + city.Or("the shop"), nil
		}).Into(results)
	run(b, results, send(orders, "ann", "a book"), send(cities, "ann", "Bern"), send(orders, "ann", "a lamp"))
	// Output:
	// ann a book to the shop
	// ann a lamp to Bern
}

// The stream of a table has an absent value where a key was deleted.
func ExampleTable_Stream() {
	b := topology.NewBuilder("stream")
	moves := topology.TableFrom(b, cities, cityTable).Stream()
	topology.MapValues(moves, "say", func(v topology.Option[string]) (string, error) {
		return "lives in " + v.Or("an unknown place"), nil
	}).Into(results)
	run(b, results, send(cities, "ann", "Bern"), remove(cities, "ann"))
	// Output:
	// ann lives in Bern
	// ann lives in an unknown place
}

// Changes have the value before, too.
func ExampleTable_Changes() {
	b := topology.NewBuilder("changes")
	moves := topology.TableFrom(b, cities, cityTable).Changes()
	topology.MapValues(moves, "say", func(v topology.Change[string]) (string, error) {
		return fmt.Sprintf("from %s to %s", v.Old.Or("?"), v.New.Or("?")), nil
	}).Into(results)
	run(b, results, send(cities, "ann", "Bern"), send(cities, "ann", "Basel"), remove(cities, "ann"))
	// Output:
	// ann from ? to Bern
	// ann from Bern to Basel
	// ann from Basel to ?
}

func ExampleTable_Into() {
	b := topology.NewBuilder("into")
	topology.TableFrom(b, cities, cityTable).Into(results)
	run(b, results, send(cities, "ann", "Bern"), remove(cities, "ann"))
	// Output:
	// ann Bern
	// ann null
}
