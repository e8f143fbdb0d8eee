package figures

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/onceward/onceward/bench/comparison"
	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/e2e/cluster"
)

// flightData is the real data.
const flightData = "../flights/testdata/flights.csv.gz"

// parts are those of the full comparison, or workloads of the full sweep, that are measured.
var parts = flag.String("parts", "", "parts of the full comparison, with commas between them (default: all)")

// A shorter comparison or sweep has fewer records and rounds.
var (
	peerRecords = flag.Int64("peer-records", 0, "records of the full comparison; a sweep takes a quarter of them (default: the number of the full one)")
	peerRounds  = flag.Int("peer-rounds", 0, "rounds of the full comparison (default: the number of the full one)")
)

// thorough is the full comparison with the numbers of the flags.
func thorough() comparison.Config {
	cfg := comparison.Thorough()
	cfg.Records, cfg.Rounds = cmp.Or(*peerRecords, cfg.Records), cmp.Or(*peerRounds, cfg.Rounds)
	return cfg
}

// named are the parts that are named; nil is all.
func named() []string {
	if *parts == "" {
		return nil
	}
	return strings.Split(*parts, ",")
}

// TestPeers compares Onceward with Kafka Streams and a plain loop. Every output of every run is
// compared with its input in there, and so is the state; nothing is asserted of the figures. `make
// bench-comparison` is the full comparison.
func TestPeers(t *testing.T) {
	if testing.Short() {
		t.Skip("this starts Kafka Streams several times, and -short leaves it out")
	}
	cfg, dir := comparison.Brief(), os.Getenv(envFigures)
	var c *cluster.Cluster
	if dir == "" {
		c = cluster.Kafka(t)
	} else {
		earlier, err := comparison.Earlier(dir)
		if err != nil {
			t.Fatal(err)
		}
		cfg = thorough()
		cfg.Input.Flights = flightData
		if err := cfg.Select(named()); err != nil {
			t.Fatal(err)
		}
		cfg.Revision = os.Getenv("ONCEWARD_REVISION")
		cfg.Command, cfg.Done = "make bench-comparison", func(r comparison.Result) error { return r.With(earlier).Write(dir) }
		if *parts != "" {
			cfg.Command += " PARTS=" + *parts
		}
		if *peerRecords > 0 {
			cfg.Command += fmt.Sprintf(" RECORDS=%d", *peerRecords)
		}
		if *peerRounds > 0 {
			cfg.Command += fmt.Sprintf(" ROUNDS=%d", *peerRounds)
		}
		c = peerBroker(t)
	}
	cfg.Brokers, cfg.BrokerPID, cfg.Broker = c.Brokers(), c.PID(), "Apache Kafka "+cluster.KafkaVersion+", one node"
	cfg.Name, cfg.Dir, cfg.Streams, cfg.Progress = c.Name(t, "peers"), t.TempDir(), installation(t), t.Output()
	r, err := comparison.Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r.Markdown())
	if dir != "" {
		return
	}
	if len(r.Comparisons) != len(cfg.Workloads) {
		t.Fatalf("%d workloads were compared", len(r.Comparisons))
	}
	for _, comparison := range r.Comparisons {
		want := 2
		if comparison.Workload == "pass" {
			want = 3 // and the loop
		}
		runs := comparison.Rounds[0].Runs
		if len(runs) != want {
			t.Errorf("%d candidates have run %s, want %d", len(runs), comparison.Workload, want)
		}
		for _, run := range runs {
			if run.Records != cfg.Records || run.Outputs == 0 || runtime.GOOS == "linux" && (run.CPUSeconds <= 0 || run.PeakRSS <= 0) {
				t.Errorf("a run of %s: %+v", comparison.Workload, run)
			}
		}
	}
	if len(r.Latency) != 1 || len(r.Recovery) != 2 {
		t.Errorf("latency %+v, recovery %+v", r.Latency, r.Recovery)
	}
}

// TestSweep looks for the settings of Kafka Streams: in the short form for one of two, so that the
// search is seen to work. `make bench-sweep` is the full one.
func TestSweep(t *testing.T) {
	if testing.Short() {
		t.Skip("this starts Kafka Streams several times, and -short leaves it out")
	}
	cfg, dir := comparison.Brief(), os.Getenv(envFigures)
	var c *cluster.Cluster
	if dir == "" {
		cfg.Workloads, cfg.Choices = []string{"count"}, nil
		cfg.Tunings = []streams.Tuning{{Name: "defaults"}, {Name: "2 threads", Threads: 2}}
		c = cluster.Kafka(t)
	} else {
		var err error
		if cfg, err = thorough().ForSweep(named()); err != nil {
			t.Fatal(err)
		}
		if *parts != "" { // or else the flights are run as the workload that is most like theirs
			cfg.Input.Flights = flightData
		}
		c = peerBroker(t)
	}
	cfg.Brokers, cfg.BrokerPID, cfg.Name, cfg.Dir = c.Brokers(), c.PID(), c.Name(t, "sweep"), t.TempDir()
	cfg.Streams, cfg.Progress = installation(t), t.Output()
	swept, err := comparison.Sweep(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if dir != "" {
		earlier, err := comparison.LastSweep()
		if err == nil {
			err = swept.With(earlier).Write(filepath.Join(dir, "sweep.json"))
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	choice := swept.Choices["count"]
	if len(choice.Tunings) != 2 || choice.Tuning.Name == "" || choice.Tunings[0].Failed+choice.Tunings[1].Failed != "" {
		t.Errorf("found is %+v", choice)
	}
}
