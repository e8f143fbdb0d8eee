package flights

import (
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/avro"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// The topics of the pipeline, without a prefix. They have equally many partitions.
const (
	sourceTopic = "flights"
	latestTopic = "plane-latest"
	staleTopic  = "plane-stale"
	totalsTopic = "carrier-totals"
	// twiceTopic has the rows whose contribution the ledger had already. There are none in the
	// data: the topic shows a record that was processed twice, which the ledger would otherwise
	// make good without a word.
	twiceTopic = "carrier-twice"
	deadTopic  = "flights-dead"
)

// The parts of the pipeline that have state, and its repartitioning.
const (
	planesNode    = "planes"
	carriersNode  = "carriers"
	byCarrierNode = "by-carrier"
)

// departure is a scheduled departure of a plane, as the projection keeps and writes it.
type departure struct {
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

// pipeline is the topology with the stores that queries and tests read.
type pipeline struct {
	Topology *topology.Topology
	// Planes are the latest flights by tail number.
	Planes topology.Store[state.KeyValue[string, projection.Row[departure]]]
	// Sums and Contributions are the ledger of the carriers. The columns are the flights, the
	// minutes of arrival delay, the cancelled flights and the diverted ones.
	Sums          topology.Store[state.KeyValue[string, ledger.Sum]]
	Contributions topology.Store[state.KeyValue[ledger.ContributionKey[string], ledger.Posting]]
}

// newPipeline returns the pipeline. Every topic's name begins with prefix, which may be empty, so
// that several pipelines can share a cluster; the application id is "flights" unless it is changed
// where the pipeline runs.
//
// A value of the source topic is a line of the data file, behind its line number and a comma.
// Values of plane-latest, plane-stale and carrier-totals are the JSON of a projection's row, of a
// skipped record and of a ledger's balance; those of carrier-twice are flights in Avro, like those
// of the repartitioning.
func newPipeline(prefix string) (pipeline, error) {
	text := schemas.String()
	b := topology.NewBuilder("flights", topology.DeadLetters(prefix+deadTopic))
	source := topology.From(b, topology.Topic(prefix+sourceTopic, topology.Nullable(text), text))
	rows := topology.MapValuesWithRecord(source, "parse", parse)

	// The key is what it was, and only no longer optional.
	departures := topology.Map(rows.Filter("known", hasPlane), "departure", departureOf).Copartitioned()
	planes := projection.Latest(departures, planesNode, versionOf, latest, schemas.JSON[departure](),
		projection.Sparse())
	planes.Changes().Into(topology.Topic(prefix+latestTopic, text, schemas.JSON[projection.Row[departure]]()))
	planes.Stale().Into(topology.Topic(prefix+staleTopic, text, schemas.JSON[projection.Skipped[departure]]()))

	byCarrier := topology.SelectKey(rows, "carrier", carrierOf)
	carriers := topology.RepartitionWith(byCarrier, byCarrierNode, text, avro.FlightCodec())
	sums := ledger.Post(carriers, carriersNode, contributionOf,
		ledger.Columns("flights", "minutes", "cancelled", "diverted"))
	sums.Duplicates().Into(topology.Topic(prefix+twiceTopic, text, avro.FlightCodec()))
	sums.Changes().Into(topology.Topic(prefix+totalsTopic, text, schemas.JSON[ledger.Balance]()))

	t, err := b.Build()
	if err != nil {
		return pipeline{}, err
	}
	return pipeline{
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
) (topology.Record[string, departure], error) {
	f := r.Value
	return topology.WithKey(topology.WithValue(r, departure{
		Line: f.Line, Carrier: f.Carrier, Flight: f.Number, Origin: f.Origin, Destination: f.Destination,
		Scheduled: f.Scheduled,
	}), f.Tail), nil
}

// versionOf makes one number of the scheduled departure and the line, which has six digits at most.
func versionOf(r topology.Record[string, departure]) (int64, error) {
	return r.Value.Scheduled*(lineMax+1) + int64(r.Value.Line), nil
}

func latest(_ departure, _ bool, r topology.Record[string, departure]) (departure, error) {
	return r.Value, nil
}

func carrierOf(r topology.Record[topology.Option[string], avro.Flight]) (string, error) {
	return r.Value.Carrier, nil
}

// contributionOf returns what a flight adds to its carrier. A flight that did not take place, or
// did not arrive where it should, has no delay.
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

var rewrite = flag.Bool("rewrite", false, "write the golden file again")

// TestDescribe compares the description with testdata/flights.describe.txt; -rewrite writes the
// file again.
func TestDescribe(t *testing.T) {
	p, err := newPipeline("")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/flights.describe.txt"
	got := p.Topology.Describe()
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the description is\n%s\nand %s has\n%s", got, golden, want)
	}
}

// TestPrefix looks for a name that a prefix does not reach, which two pipelines would share.
func TestPrefix(t *testing.T) {
	p, err := newPipeline("my.")
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range p.Topology.Topics() {
		if !strings.HasPrefix(topic, "my.") {
			t.Errorf("topic %s", topic)
		}
	}
}
