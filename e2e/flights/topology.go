package flights

import (
	"strconv"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/avro"
	"github.com/onceward/onceward/topology"
)

// The topics of the pipeline, without a prefix. They have equally many partitions.
const (
	Source = "flights"
	Latest = "plane-latest"
	Stale  = "plane-stale"
	Totals = "carrier-totals"
	// Twice has the rows whose contribution the ledger had already. There are none in the data: the topic
	// shows a record that was processed twice, which the ledger would otherwise make good without a word.
	Twice = "carrier-twice"
	Dead  = "flights-dead"
)

// The parts of the pipeline that have state, and its repartitioning.
const (
	Planes    = "planes"
	Carriers  = "carriers"
	ByCarrier = "by-carrier"
)

// Departure is a scheduled departure of a plane, as the projection keeps and writes it.
type Departure struct {
	// Line is the line of the row in the data file.
	Line    int32  `json:"line"`
	Carrier string `json:"carrier"`
	Flight  int32  `json:"flight"`
	Origin  string `json:"origin"`
	// Destination is an airport code, as Origin is.
	Destination string `json:"destination"`
	// Scheduled is in minutes since 1970-01-01T00:00Z.
	Scheduled int64 `json:"scheduled"`
}

// Pipeline is the topology with the stores that queries and tests read.
type Pipeline struct {
	Topology *topology.Topology
	// Planes are the latest flights by tail number.
	Planes topology.StoreOf[string, projection.Row[Departure]]
	// Sums and Contributions are the ledger of the carriers. The columns are the flights, the minutes of
	// arrival delay, the cancelled flights and the diverted ones.
	Sums          topology.StoreOf[string, ledger.Sum]
	Contributions topology.StoreOf[ledger.ContributionKey[string], ledger.Posting]
}

// New returns the pipeline. Every topic's name begins with prefix, which may be empty, so that several
// pipelines can share a cluster; the application id is "flights" unless it is changed where the pipeline
// runs.
//
// A value of the source topic is a line of the data file, behind its line number and a comma. Values of
// plane-latest, plane-stale and carrier-totals are the JSON of a projection's row, of a skipped record and of
// a ledger's balance; those of carrier-twice are flights in Avro, like those of the repartitioning.
func New(prefix string) (Pipeline, error) {
	text := schemas.String()
	b := topology.NewBuilder("flights", topology.DeadLetters(prefix+Dead))
	source := topology.From(b, topology.Topic(prefix+Source, topology.Nullable(text), text))
	rows := topology.MapValues(source, "parse", parse)

	// The key is what it was, and only no longer optional.
	departures := topology.Map(rows.Filter("known", hasPlane), "departure", departureOf).Copartitioned()
	planes := projection.Latest(departures, Planes, versionOf, latest, schemas.JSON[Departure](),
		projection.Sparse())
	planes.Changes().Into(topology.Topic(prefix+Latest, text, schemas.JSON[projection.Row[Departure]]()))
	planes.Stale().Into(topology.Topic(prefix+Stale, text, schemas.JSON[projection.Skipped[Departure]]()))

	byCarrier := topology.SelectKey(rows, "carrier", carrierOf)
	carriers := topology.Repartition(byCarrier, ByCarrier, text, avro.FlightCodec())
	sums := ledger.Post(carriers, Carriers, contributionOf,
		ledger.Columns("flights", "minutes", "cancelled", "diverted"))
	sums.Duplicates().Into(topology.Topic(prefix+Twice, text, avro.FlightCodec()))
	sums.Changes().Into(topology.Topic(prefix+Totals, text, schemas.JSON[ledger.Balance]()))

	t, err := b.Build()
	if err != nil {
		return Pipeline{}, err
	}
	return Pipeline{
		Topology: t, Planes: planes.Store(), Sums: sums.BalanceStore(), Contributions: sums.ContributionStore(),
	}, nil
}

// hasPlane lets the rows pass whose plane is known.
func hasPlane(r topology.Record[topology.Option[string], avro.Flight]) (bool, error) {
	_, known := r.Key.Get()
	return known, nil
}

func departureOf(
	r topology.Record[topology.Option[string], avro.Flight],
) (topology.Record[string, Departure], error) {
	f := r.Value
	return topology.WithKey(topology.WithValue(r, Departure{
		Line: f.Line, Carrier: f.Carrier, Flight: f.Number, Origin: f.Origin, Destination: f.Destination,
		Scheduled: f.Scheduled,
	}), f.Tail), nil
}

// versionOf makes one number of the scheduled departure and the line, which has six digits at most.
func versionOf(r topology.Record[string, Departure]) (int64, error) {
	return r.Value.Scheduled*(lineMax+1) + int64(r.Value.Line), nil
}

func latest(_ Departure, _ bool, r topology.Record[string, Departure]) (Departure, error) {
	return r.Value, nil
}

func carrierOf(r topology.Record[topology.Option[string], avro.Flight]) (string, error) {
	return r.Value.Carrier, nil
}

// contributionOf returns what a flight adds to its carrier. A flight that did not take place, or did not
// arrive where it should, has no delay.
func contributionOf(r topology.Record[string, avro.Flight]) (ledger.Contribution, error) {
	f := r.Value
	id := make([]byte, 0, 32)
	id = append(append(id, f.Carrier...), '|')
	id = append(strconv.AppendInt(id, int64(f.Number), 10), '|')
	id = append(append(id, f.Origin...), '|')
	id = strconv.AppendInt(id, f.Scheduled/60, 10)
	amounts := []int64{1, 0, 0, 0}
	switch {
	case !f.Departed:
		amounts[2] = 1
	case !f.HasArrivalDelay:
		amounts[3] = 1
	default:
		amounts[1] = int64(f.ArrivalDelay)
	}
	return ledger.Contribution{ID: string(id), Amounts: amounts}, nil
}
