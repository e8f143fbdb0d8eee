package demo

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

func TestDescribe(t *testing.T) {
	top, err := Topology()
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "payments.describe.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(top.Describe()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := top.Describe(); got != string(want) {
		t.Errorf("the description is now\n%s\nwant\n%s", got, want)
	}
}

func TestGenerateIsDeterministic(t *testing.T) {
	a, b := generate(5000, 3), generate(5000, 3)
	if !reflect.DeepEqual(a, b) {
		t.Error("the same seed made other events")
	}
	if reflect.DeepEqual(a, generate(5000, 4)) {
		t.Error("another seed made the same events")
	}
	f := recount(a)
	for name, n := range map[string]int{
		"duplicates": f.duplicates, "conflicts": f.conflicts, "stale": f.stale, "gaps": f.gaps, "poison": f.poison, "invalid": f.invalid,
		"reversals": f.reversals, "recaptured": f.recaptured, "overcaptured": f.overcaptured,
	} {
		if n == 0 {
			t.Errorf("5,000 events hold no %s: the drill would not test it", name)
		}
	}
}

// TestSpellings: every spelling of a fact is JSON that says the same.
func TestSpellings(t *testing.T) {
	for _, f := range generate(200, 1) {
		if f.unreadable {
			if json.Valid(f.bytes()) {
				t.Errorf("%q is to be unreadable", f.bytes())
			}
			continue
		}
		var said []map[string]any
		for spelling := range 3 {
			f.spelling = spelling
			var v map[string]any
			if err := json.Unmarshal(f.bytes(), &v); err != nil {
				t.Fatalf("%q: %v", f.bytes(), err)
			}
			said = append(said, v)
		}
		if !reflect.DeepEqual(said[0], said[1]) || !reflect.DeepEqual(said[0], said[2]) {
			t.Errorf("spellings differ: %v", said)
		}
	}
}

// TestPipelineAgreesWithRecount runs the drill's pipeline without a broker: what the table compares
// after kills has to agree without any, or the table would blame the kills.
func TestPipelineAgreesWithRecount(t *testing.T) {
	top, err := Topology()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(top, topologytest.Partitions(partitions))
	if err != nil {
		t.Fatal(err)
	}
	facts := generate(20_000, 2)
	for i, f := range facts {
		r := f.record(i)
		if err := d.PipeRaw(eventsTopic, r.Key, r.Value, topologytest.ToPartition(r.Partition), topologytest.At(r.Timestamp)); err != nil {
			t.Fatal(err)
		}
	}
	want := recount(facts)
	for topic, n := range map[string]int{
		accountsTopic: want.applied, balancesTopic: want.contributions, duplicatesTopic: want.duplicates, staleTopic: want.stale,
		gapsTopic: want.gaps, recapturedTopic: want.recaptured, overTopic: want.overcaptured, deadTopic: want.deadLetters,
	} {
		out, err := d.OutputRaw(topic)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) != n {
			t.Errorf("%s holds %d records, recomputed %d", topic, len(out), n)
		}
		if topic != deadTopic {
			continue
		}
		classes := map[string]int{}
		for _, r := range out {
			for _, h := range r.Headers {
				if h.Key == graph.HeaderClass {
					classes[string(h.Value)]++
				}
			}
		}
		wanted := map[string]int{"poison": want.poison, "validation": want.invalid, "conflict": want.conflicts}
		if !reflect.DeepEqual(classes, wanted) {
			t.Errorf("dead letters are %v, recomputed %v", classes, wanted)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is shown as %q, want %q", n, got, want)
		}
	}
}
