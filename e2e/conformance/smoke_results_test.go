package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// smokeMorning is when the inputs of these tests begin.
var smokeMorning = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

// driveSmoke runs the application in memory over n inputs of one partition, a second apart, and the
// flush two days later. The inputs have the keys a and b in turn, and the values 1, 2, 3 and so on.
func driveSmoke(t *testing.T, broken string, n int) *topologytest.Test {
	t.Helper()
	topo, err := smokeTopology(broken)
	if err != nil {
		t.Fatal(err)
	}
	d := topologytest.Start(t, topo)
	data := topologytest.In(d, int32Topic(generatedTopic))
	for i := range n {
		data.Pipe(string("ab"[i%2]), int32(i+1), topologytest.At(smokeMorning.Add(time.Duration(i)*time.Second)))
	}
	data.Pipe(smokeFlush, 0, topologytest.At(smokeMorning.Add(2*day)))
	return d
}

// lastOutput returns the last value of each key of a topic, and how many records it has.
func lastOutput[V any](t *testing.T, d *topologytest.Test, topic string, codec schemas.Codec[V]) (text string, n int) {
	t.Helper()
	records := topologytest.Out(d, topology.Topic(topic, schemas.String(), codec)).Read()
	values := map[string]V{}
	for _, r := range records {
		values[r.Key] = r.Value
	}
	var s []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		s = append(s, fmt.Sprintf("%s=%v", key, values[key]))
	}
	return strings.Join(s, " "), len(records)
}

func TestSmokeResults(t *testing.T) {
	d := driveSmoke(t, "", 10)
	for topic, want := range map[string]string{
		"min": "a=1 b=2", "max": "a=9 b=10", "dif": "a=8 b=8", "echo": "a=9 b=10",
	} {
		if got, _ := lastOutput(t, d, topic, schemas.Int32()); got != want {
			t.Errorf("%s: %s, want %s", topic, got, want)
		}
	}
	for topic, want := range map[string]string{"sum": "a=25 b=30", "cnt": "a=5 b=5", "tagg": "1=0 2=0 3=0 4=0 5=2"} {
		if got, _ := lastOutput(t, d, topic, schemas.Int64()); got != want {
			t.Errorf("%s: %s, want %s", topic, got, want)
		}
	}
	if got, _ := lastOutput[float64](t, d, "avg", float64s{}); got != "a=5 b=6" {
		t.Errorf("avg: %s", got)
	}
	start := smokeMorning.Truncate(day).UnixMilli()
	window := func(key string) string { return fmt.Sprintf("[%s@%d/%d]", key, start, start+day.Milliseconds()) }
	want := fmt.Sprintf("%s=1 %s=2", window("a"), window("b"))
	if got, n := lastOutput(t, d, "min-suppressed", schemas.Int32()); got != want || n != 2 {
		t.Errorf("min-suppressed: %d records, %s, want %s", n, got, want)
	}
	// An input is in two windows, and each window of two seconds has one input of one of the keys.
	if got, n := lastOutput(t, d, "sws-suppressed", schemas.Int32()); n != 20 || strings.Count(got, "=") != 20 {
		t.Errorf("sws-suppressed: %d records, %s", n, got)
	}
}

func TestSmokeMistakesAreMade(t *testing.T) {
	if _, n := lastOutput(t, driveSmoke(t, smokeDuplicate, 100), "echo", schemas.Int32()); n != 101 {
		t.Errorf("duplicate: echo has %d records", n)
	}
	if got, _ := lastOutput(t, driveSmoke(t, smokeForget, 100), "sum", schemas.Int64()); got != "a=2500 b=2450" {
		t.Errorf("forget: the sums are %s", got)
	}
	if _, n := lastOutput(t, driveSmoke(t, smokeEarly, 10), "min-suppressed", schemas.Int32()); n != 10 {
		t.Errorf("early: min-suppressed has %d records", n)
	}
	early := driveSmoke(t, smokeEarlySeconds, 10)
	if _, n := lastOutput(t, early, "min-suppressed", schemas.Int32()); n != 2 {
		t.Errorf("early-seconds: min-suppressed has %d records", n)
	}
	// Two inputs of one second are two updates of each of their windows, and one final result.
	for mistake, want := range map[string]int{"": 2, smokeEarlySeconds: 4} {
		topo, err := smokeTopology(mistake)
		if err != nil {
			t.Fatal(err)
		}
		d := topologytest.Start(t, topo)
		data := topologytest.In(d, int32Topic(generatedTopic))
		for _, value := range []int32{1, 2} {
			data.Pipe("a", value, topologytest.At(smokeMorning))
		}
		data.Pipe(smokeFlush, 0, topologytest.At(smokeMorning.Add(2*day)))
		if got, n := lastOutput(t, d, "sws-suppressed", schemas.Int32()); n != want || strings.Count(got, "=3") != 2 {
			t.Errorf("%q: sws-suppressed has %d records, want %d: %s", mistake, n, want, got)
		}
	}
}
