package topology_test

import (
	"crypto/sha256"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
)

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

// exchange runs all tasks of a topology, and takes the records of its topics in any order that
// keeps that of each partition.
type exchange struct {
	tb      testing.TB
	built   *topology.Topology
	config  topology.GraphConfig
	counts  map[string]int32
	tasks   map[graph.TaskID]*task
	readers map[string]string
	queues  map[place][]graph.Output
	results replayed
	// late counts answers that were late.
	late int64
	// silent drops what asks whether there is a row.
	silent bool
}

func newExchange(tb testing.TB, declare func(b *topology.Builder), external map[string]int32) *exchange {
	tb.Helper()
	b := topology.NewBuilder("tables", topology.DeadLetters("dead"))
	declare(b)
	x := &exchange{
		tb: tb, built: mustBuild(tb, b), counts: maps.Clone(external), tasks: map[graph.TaskID]*task{}, readers: map[string]string{},
		queues: map[place][]graph.Output{}, results: replayed{}, config: baseConfig(),
	}
	internal, err := x.built.ResolvePartitions(external)
	if err != nil {
		tb.Fatal(err)
	}
	maps.Copy(x.counts, internal)
	x.config.Partitions = func(topic string) int32 { return max(x.counts[topic], 1) }
	for _, sub := range x.built.Subtopologies() {
		for _, s := range sub.Sources {
			x.readers[s.Topic] = sub.Name
		}
		for p := range x.counts[sub.Sources[0].Topic] {
			id := graph.TaskID{Subtopology: sub.Name, Partition: p}
			x.tasks[id] = openTask(tb, x.built, id, x.config)
		}
	}
	return x
}

// put appends a record to its topic, or takes it for a result if nothing reads that.
func (x *exchange) put(out graph.Output) {
	if _, read := x.readers[out.Topic]; !read {
		x.results.apply([]graph.Output{out})
		return
	}
	if x.silent && out.Topic == "tables-join-subscriptions-repartition" && out.Value[1] == 4 {
		return
	}
	at := place{out.Topic, out.Partition}
	x.queues[at] = append(x.queues[at], out)
}

// waiting returns the partitions that have records.
func (x *exchange) waiting() []place {
	var all []place
	for at, queue := range x.queues {
		if len(queue) > 0 {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		if a.topic != b.topic {
			if a.topic < b.topic {
				return -1
			}
			return 1
		}
		return int(a.partition - b.partition)
	})
	return all
}

// step processes the first record of a partition.
func (x *exchange) step(at place) {
	x.tb.Helper()
	r := x.queues[at][0]
	x.queues[at] = x.queues[at][1:]
	k := x.tasks[graph.TaskID{Subtopology: x.readers[at.topic], Partition: at.partition}]
	in := k.input(at.topic, r.Key, r.Value)
	in.Partition, in.Timestamp, in.Headers = at.partition, r.Timestamp, r.Headers
	v := want(x.tb, k.graph.Process(in), graph.Accept)
	for _, c := range v.Counts {
		if c.Outcome == "late-answer" {
			x.late += c.N
		}
	}
	for _, out := range clones(v) {
		x.put(out)
	}
}

// restart makes new graphs for all tasks.
func (x *exchange) restart() {
	x.tb.Helper()
	for id, k := range x.tasks {
		g, err := x.built.NewGraph(id, k.state, x.config)
		if err != nil {
			x.tb.Fatal(err)
		}
		k.graph = g
	}
}

// forge makes the first answer of a partition one for the value that the left row has now: as if no
// answer was ever late.
func (x *exchange) forge(at place) {
	x.tb.Helper()
	if at.topic != "tables-join-answers-repartition" {
		return
	}
	r := &x.queues[at][0]
	k := x.tasks[graph.TaskID{Subtopology: x.readers[at.topic], Partition: at.partition}]
	row, _, ok, err := leftTable.Open(k.state.Store("left-table")).Get(string(r.Key))
	switch {
	case err != nil:
		x.tb.Fatal(err)
	case !ok || r.Value[1] == 0:
		r.Value = []byte{1, 0}
	case r.Value[1] == 2:
		r.Value = slices.Concat([]byte{1, 2}, hashBytes(row), r.Value[18:])
	default:
		r.Value = slices.Concat([]byte{1, 1}, hashBytes(row))
	}
}

func hashBytes(value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return sum[:16]
}

// foreignModel is the join of two tables, computed from nothing.
func foreignModel(left, right map[string]string, outer bool) replayed {
	all := replayed{}
	for key, l := range left {
		foreign, _ := byInitial(key, l)
		r, ok := right[foreign.Or("none")]
		switch {
		case ok:
			all[key] = l + "+" + r
		case outer:
			all[key] = l + "+?"
		}
	}
	return all
}

// runExchange runs a random history of a join, and returns what the results add up to, what they
// have to be, and how many answers were late.
func runExchange(tb testing.TB, join foreignJoin, outer bool, seed uint64, broken string) (got, wanted replayed, late int64) {
	tb.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	x := newExchange(tb, declareForeign(join), map[string]int32{"left": 1 + random.Int32N(3), "right": 1 + random.Int32N(3)})
	x.silent = broken == unconfirmed
	sides := map[string]map[string]string{"left": {}, "right": {}}
	values := map[string][]string{"left": {"x1", "x2", "y1", "y2", "z1", "z2", "n1", "-", "-"}, "right": {"R", "S", "T", "-"}}
	keys := map[string]string{"left": "abcd", "right": "xyz"}
	inputs := 1 + random.IntN(40)
	for i := 0; i < inputs || len(x.waiting()) > 0; {
		switch waiting := x.waiting(); {
		case random.IntN(25) == 0:
			x.restart()
		case i < inputs && (len(waiting) == 0 || random.IntN(3) == 0):
			i++
			side := []string{"left", "left", "right"}[random.IntN(3)]
			letter := keys[side][random.IntN(len(keys[side]))]
			key, value := string(letter), values[side][random.IntN(len(values[side]))]
			// The partition of a left row need not follow from its key; that of a right row has to.
			out := graph.Output{Topic: side, Key: []byte(key), Value: []byte(value), Timestamp: random.Int64N(100)}
			out.Partition = int32(letter) % x.counts[side]
			if side == "right" {
				out.Partition = graph.PartitionOf(out.Key, x.counts[side])
			}
			if sides[side][key] = value; value == "-" {
				out.Value = nil
				delete(sides[side], key)
			}
			x.put(out)
		case len(waiting) > 0:
			at := waiting[random.IntN(len(waiting))]
			if broken == believed {
				x.forge(at)
			}
			x.step(at)
		}
	}
	return x.results, foreignModel(sides["left"], sides["right"], outer), x.late
}

// The negative controls break the handling of late answers.
const (
	// believed takes late answers for answers in time.
	believed = "late answers are believed"
	// unconfirmed asks nothing when an answer is late.
	unconfirmed = "late answers are left out, and nothing is asked"
)

// TestForeignKeyConverges: whatever the order in which tasks take the records of their topics, and
// whenever they restart, the results add up to the join of both tables once nothing is left to do.
// Negative controls break what late answers lead to.
func TestForeignKeyConverges(t *testing.T) {
	cases := uint64(400)
	if !testing.Short() {
		cases = 5000
	}
	for name, kind := range map[string]struct {
		join     foreignJoin
		outer    bool
		controls []string
	}{"inner": {innerForeign, false, []string{believed, unconfirmed}}, "left": {leftForeign, true, []string{believed}}} {
		t.Run(name, func(t *testing.T) {
			late, wrong := int64(0), map[string]int{}
			for seed := range cases {
				got, wanted, n := runExchange(t, kind.join, kind.outer, seed, "")
				if late += n; !maps.Equal(got, wanted) {
					t.Fatalf("with seed %d the results add up to %v, want %v", seed, got, wanted)
				}
				for _, broken := range kind.controls {
					if got, wanted, _ := runExchange(t, kind.join, kind.outer, seed, broken); !maps.Equal(got, wanted) {
						wrong[broken]++
					}
				}
			}
			if late < int64(cases)/10 {
				t.Errorf("only %d answers are late in %d histories", late, cases)
			}
			for _, broken := range kind.controls {
				if wrong[broken] == 0 {
					t.Errorf("%s, and no history of %d ends wrong", broken, cases)
				}
			}
			t.Logf("%d histories, %d late answers; histories that end wrong with a control: %v", cases, late, wrong)
		})
	}
}
