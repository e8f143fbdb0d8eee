package topology_test

import (
	"fmt"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The global table of the examples: in which country a city is.
var (
	countries    = topology.Topic("countries", schemas.String(), schemas.String())
	countryTable = topology.TimestampedStore("country-table", schemas.String(), schemas.String())
	trips        = topology.Topic("trips", schemas.String(), schemas.String())
)

// destination chooses the row for a trip: its value is the city where it goes, if that is known.
func destination(r topology.Record[string, string]) (topology.Option[string], error) {
	if r.Value == "" {
		return topology.None[string](), nil
	}
	return topology.Some(r.Value), nil
}

// Every process has all rows of a global table, whatever the partitions of the streams that are
// joined with it.
func ExampleGlobalTableFrom() {
	b := topology.NewBuilder("travel")
	table := topology.GlobalTableFrom(b, countries, countryTable)
	topology.JoinGlobalTable(topology.From(b, trips), table, "country", destination,
		func(_, city, country string) (string, error) { return city + " in " + country, nil }).Into(results)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, sub := range t.Subtopologies() {
		fmt.Println("tasks read", sub.Sources[0].Topic)
	}
	for _, table := range t.GlobalTables() {
		fmt.Println("every process reads", table.Topic(), "into", table.Name)
	}
	fmt.Println("internal topics:", len(t.InternalTopics()))
	// Output:
	// tasks read trips
	// every process reads countries into country-table
	// internal topics: 0
}

// Each trip gets the country of its destination. The key of the row comes from the value of the
// record.
func ExampleJoinGlobalTable() {
	b := topology.NewBuilder("travel")
	topology.JoinGlobalTable(topology.From(b, trips), topology.GlobalTableFrom(b, countries, countryTable), "country", destination,
		func(_, city, country string) (string, error) { return city + " in " + country, nil }).Into(results)
	run(b, results, send(trips, "ann", "Bern"), send(countries, "Bern", "Switzerland"), send(trips, "ann", "Bern"), send(trips, "bob", ""))
	// Output:
	// ann Bern in Switzerland
}

func ExampleLeftJoinGlobalTable() {
	b := topology.NewBuilder("travel")
	topology.LeftJoinGlobalTable(topology.From(b, trips), topology.GlobalTableFrom(b, countries, countryTable), "country", destination,
		func(_, city string, country topology.Option[string]) (string, error) {
			return city + ", " + country.Or("somewhere"), nil
		}).Into(results)
	run(b, results, send(trips, "ann", "Bern"), send(countries, "Bern", "Switzerland"), send(trips, "ann", "Bern"), send(trips, "bob", ""))
	// Output:
	// ann Bern, somewhere
	// ann Bern, Switzerland
	// bob , somewhere
}
