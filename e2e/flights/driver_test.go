package flights

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/processors/projection"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology/topologytest"
)

const partitions = 6

// dataFileName is the data file.
const dataFileName = "testdata/flights.csv.gz"

// dataFile reads the rows of the data file once for all tests, which do not change them.
var dataFile = sync.OnceValues(func() ([]dataRow, error) {
	file, err := os.Open(dataFileName)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readDataFile(file)
})

// readRows returns the rows of the data file.
func readRows(t testing.TB) []dataRow {
	t.Helper()
	rows, err := dataFile()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// inputsOf returns the source topic's records for the rows, with n malformed ones among them.
func inputsOf(t testing.TB, rows []dataRow, n int) []input {
	t.Helper()
	inputs, err := inputsOfRows(rows, malformedAmong(rows, n), partitions)
	if err != nil {
		t.Fatal(err)
	}
	return inputs
}

// observed is everything that the pipeline has left behind, by partition.
type observed struct {
	latest, stale, dead, byCarrier, totals, twice [][]*kgo.Record

	planes        []map[string]int
	sums          []map[string]carrierTotals
	contributions []map[string]posting
}

// check compares all of it. The errors are by what they are about.
func (o *observed) check(want *expected, origin deadOrigin) map[string]error {
	found := o.checkState(want)
	found[latestTopic] = want.checkLatest(o.latest)
	found[staleTopic] = want.checkStale(o.stale)
	found[deadTopic] = want.checkDead(o.dead, origin)
	found[byCarrierNode] = want.checkByCarrier(o.byCarrier)
	found[totalsTopic] = want.checkTotals(o.totals)
	found[twiceTopic] = want.checkTwice(o.twice)
	found["order"] = want.checkOrder(o.byCarrier, o.totals)
	return found
}

// checkState compares the stores.
func (o *observed) checkState(want *expected) map[string]error {
	return map[string]error{
		"planes":        want.checkPlanes(o.planes),
		"sums":          want.checkSums(o.sums),
		"contributions": want.checkContributions(o.contributions),
	}
}

// inMemory is the pipeline that drive runs.
var inMemory = deadOrigin{Application: "flights", Topic: sourceTopic}

// drive runs the pipeline over the inputs in memory.
func drive(t testing.TB, inputs []input) *observed {
	t.Helper()
	p, err := newPipeline("")
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(p.Topology, topologytest.Partitions(partitions))
	if err != nil {
		t.Fatal(err)
	}
	for i := range inputs {
		in := &inputs[i]
		if err := d.PipeRaw(sourceTopic, in.Key, in.Value, topologytest.ToPartition(in.Partition),
			topologytest.At(time.UnixMilli(in.Timestamp)),
			topologytest.Header(lineHeader, strconv.Itoa(in.Row.Line))); err != nil {
			t.Fatal(err)
		}
	}
	o := &observed{
		latest: written(t, d, latestTopic), stale: written(t, d, staleTopic), dead: written(t, d, deadTopic),
		byCarrier: written(t, d, p.Topology.Application()+"-"+byCarrierNode+"-repartition"),
		totals:    written(t, d, totalsTopic), twice: written(t, d, twiceTopic),
	}
	for partition := range int32(partitions) {
		planes, err := topologytest.Store(d, p.Planes, partition)
		if err != nil {
			t.Fatal(err)
		}
		sums, err := topologytest.Store(d, p.Sums, partition)
		if err != nil {
			t.Fatal(err)
		}
		contributions, err := topologytest.Store(d, p.Contributions, partition)
		if err != nil {
			t.Fatal(err)
		}
		o.addState(t, planes, sums, contributions)
	}
	return o
}

// written returns what the driver wrote to a topic, by partition.
func written(t testing.TB, d *topologytest.Driver, topic string) [][]*kgo.Record {
	t.Helper()
	raw, err := d.OutputRaw(topic)
	if err != nil {
		t.Fatal(err)
	}
	records := make([][]*kgo.Record, partitions)
	for i := range raw {
		r := &kgo.Record{
			Topic: topic, Partition: raw[i].Partition, Offset: int64(len(records[raw[i].Partition])),
			Timestamp: time.UnixMilli(raw[i].Timestamp), Key: raw[i].Key, Value: raw[i].Value,
		}
		for _, h := range raw[i].Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		records[r.Partition] = append(records[r.Partition], r)
	}
	return records
}

// addState adds the state of the tasks of the next partition.
func (o *observed) addState(
	t testing.TB, planes state.KeyValue[string, projection.Row[departure]],
	sums state.KeyValue[string, ledger.Sum],
	contributions state.KeyValue[ledger.ContributionKey[string], ledger.Posting],
) {
	t.Helper()
	lines := map[string]int{}
	for pair, err := range planes.All() {
		if err != nil {
			t.Fatal(err)
		}
		if pair.Value.Deleted {
			t.Errorf("the projection has deleted %s", pair.Key)
		}
		lines[pair.Key] = int(pair.Value.Value.Line)
	}
	o.planes = append(o.planes, lines)

	balances := map[string]carrierTotals{}
	for pair, err := range sums.All() {
		if err != nil {
			t.Fatal(err)
		}
		balances[pair.Key] = totalsOf(t, pair.Value.Amounts)
		if pair.Value.Count != balances[pair.Key].Flights {
			t.Errorf("the ledger of %s counts %d contributions and %d flights",
				pair.Key, pair.Value.Count, balances[pair.Key].Flights)
		}
	}
	o.sums = append(o.sums, balances)

	postings := map[string]posting{}
	for pair, err := range contributions.All() {
		if err != nil {
			t.Fatal(err)
		}
		postings[pair.Key.ID] = posting{
			Carrier: pair.Key.Ledger, Amounts: totalsOf(t, pair.Value.Amounts), Timestamp: pair.Value.Timestamp,
		}
	}
	o.contributions = append(o.contributions, postings)
}

func totalsOf(t testing.TB, amounts []int64) carrierTotals {
	t.Helper()
	totals, ok := totalsIn(amounts)
	if !ok {
		t.Errorf("the ledger has %d columns", len(amounts))
	}
	return totals
}

// TestPipelineInMemory holds the pipeline to the recomputation over all rows, without a broker:
// what the scenario finds beyond this is the runtime's. With -short it takes the first rows only.
func TestPipelineInMemory(t *testing.T) {
	rows := readRows(t)
	if testing.Short() {
		rows = rows[:10_000]
	}
	inputs := inputsOf(t, rows, malformedCount)
	want := recompute(inputs, partitions)
	for subject, err := range drive(t, inputs).check(want, inMemory) {
		if err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
}
