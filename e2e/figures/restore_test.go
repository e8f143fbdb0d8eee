package figures

import (
	"os"
	"testing"

	"github.com/onceward/onceward/bench/comparison/streams"
	"github.com/onceward/onceward/bench/restoretime"
	"github.com/onceward/onceward/e2e/cluster"
)

// TestRestore compares the restore with Kafka Streams. That both restore every record, and hold the
// same entries afterwards, is checked in there; nothing is asserted of the ratios, which say little
// in the short form. `make bench-restore` is the full one.
func TestRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("this starts Kafka Streams several times, and -short leaves it out")
	}
	cfg := restoretime.Config{
		Dir: t.TempDir(), Data: restoretime.Data{Records: 80_000, Partitions: partitions, Updates: 0.2, Seed: 1}, Rounds: 1, SearchRuns: 1,
		Tunings: []streams.Tuning{{Name: "1 thread, defaults", Threads: 1}}, Heaps: []string{"512m"},
		Progress: t.Output(),
	}
	dir := os.Getenv(envFigures)
	var c *cluster.Cluster
	if dir == "" {
		c = cluster.Kafka(t)
	} else {
		cfg.Data.Records, cfg.Data.Updates, cfg.Rounds, cfg.SearchRuns, cfg.Tunings, cfg.Heaps = 4_000_000, 0.05, 5, 3, nil, nil
		c = peerBroker(t)
	}
	cfg.Brokers, cfg.Name, cfg.Streams = c.Brokers(), c.Name(t, "app"), installation(t)
	r, err := restoretime.Measure(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r.Markdown())
	records := cfg.Data.Records
	for _, round := range r.Rounds {
		if r.Log.Records != records || round.Onceward.Records != records || round.Streams.Records != records {
			t.Errorf("%d records were written, Onceward has restored %d, Kafka Streams %d", r.Log.Records, round.Onceward.Records,
				round.Streams.Records)
		}
		if len(round.Streams.Parts) != 2*partitions || len(round.Onceward.Parts) != partitions {
			t.Errorf("restored are %+v by Onceward, and %+v by Kafka Streams", round.Onceward.Parts, round.Streams.Parts)
		}
	}
	if dir != "" && !t.Failed() {
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// peerBroker starts a broker for comparisons with Kafka Streams. Its groups wait for all threads,
// as they do by default. Otherwise the first thread restores tasks that the next one then takes.
// Deleted topics are removed from the disk at once, to save space.
func peerBroker(t *testing.T) *cluster.Cluster {
	return cluster.OwnWith(t, cluster.KindKafka, cluster.Options{Settings: map[string]string{
		"group.initial.rebalance.delay.ms": "3000", "log.segment.delete.delay.ms": "1000",
	}})
}

// installation is what Kafka Streams is run with.
func installation(t *testing.T) *streams.Installation {
	java, classes := cluster.Java(t, cluster.Library{Name: streams.Library, POM: streams.POM, Jar: streams.Jar})
	return &streams.Installation{Java: java, ClassPath: classes}
}
