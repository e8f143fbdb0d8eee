package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// driveEos runs the application in memory over n inputs of one partition: the keys a and b in turn,
// the values 5, 4, 7, 6, 9, 8 and so on.
func driveEos(t *testing.T, v eosVariant, broken string, n int) *topologytest.Driver {
	t.Helper()
	topo, err := eosTopology(v.name, broken)
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(topo)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := topologytest.Pipe(d, int32Topic(generatedTopic), string("ab"[i%2]), int32(5+i^1)); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func eosOutput[V any](t *testing.T, d *topologytest.Driver, topic string, codec schemas.Codec[V]) string {
	t.Helper()
	records, err := topologytest.Output(d, topology.Topic(topic, schemas.String(), codec))
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, r := range records {
		text = append(text, fmt.Sprintf("%s%v", r.Key, r.Value))
	}
	return strings.Join(text, " ")
}

func TestEosInputHasOneResultInOrder(t *testing.T) {
	d := driveEos(t, eosComplex, "", 6)
	in := "a4 b7 a6 b9 a8 b11"
	for topic, want := range map[string]string{
		"echo": in, "repartition": in, "min": "a4 b7 a4 b7 a4 b7", "max": "a4 b7 a6 b9 a8 b11",
	} {
		if got := eosOutput(t, d, topic, schemas.Int32()); got != want {
			t.Errorf("%s is %s, want %s", topic, got, want)
		}
	}
	for topic, want := range map[string]string{"sum": "a4 b7 a10 b16 a18 b27", "cnt": "a1 b1 a2 b2 a3 b3"} {
		if got := eosOutput(t, d, topic, schemas.Int64()); got != want {
			t.Errorf("%s is %s, want %s", topic, got, want)
		}
	}
}

func TestEosSimpleHasNoRepartition(t *testing.T) {
	topo, err := eosTopology(eosSimple.name, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range topo.Subtopologies() {
		for _, source := range sub.Sources {
			if source.Topic != generatedTopic {
				t.Errorf("%s is read", source.Topic)
			}
		}
	}
}

func TestEosMistakesAreMade(t *testing.T) {
	right := driveEos(t, eosSimple, "", 200)
	echo := strings.Fields(eosOutput(t, right, "echo", schemas.Int32()))

	twice := slices.Insert(slices.Insert(slices.Clone(echo), 199, echo[199]), 99, echo[99])
	got := strings.Fields(eosOutput(t, driveEos(t, eosSimple, eosDuplicate, 200), "echo", schemas.Int32()))
	if !slices.Equal(got, twice) {
		t.Errorf("duplicate: %d records for 200 inputs, or the wrong ones", len(got))
	}
	got = strings.Fields(eosOutput(t, driveEos(t, eosSimple, eosSkip, 200), "echo", schemas.Int32()))
	if want := slices.Delete(slices.Delete(slices.Clone(echo), 199, 200), 99, 100); !slices.Equal(got, want) {
		t.Errorf("skip: %d records for 200 inputs, or the wrong ones", len(got))
	}
	sums := eosOutput(t, driveEos(t, eosSimple, eosForget, 7), "sum", schemas.Int64())
	if want := "a4 b7 a10 b16 a18 b27 a20"; sums != want { // the fifth is told, and the seventh does not know it
		t.Errorf("forget: %s, want %s", sums, want)
	}
}
