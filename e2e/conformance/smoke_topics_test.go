package conformance

import (
	"slices"
	"strings"
	"testing"
)

// TestSmokeTopologyWritesWhatKafkaWrites: the application has every output of SmokeTestClient of
// this version of Kafka, so that the verifier sees all that it can judge. The topic fk is an input
// that SmokeTestClient does not read.
func TestSmokeTopologyWritesWhatKafkaWrites(t *testing.T) {
	t.Parallel()
	said, err := javaCommand(t.Context(), t, streamsLibrary, "SmokeTopics").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(said))
	slices.Sort(want)
	topo, err := smokeTopology("")
	if err != nil {
		t.Fatal(err)
	}
	internal := topo.InternalTopics()
	var got []string
	for _, sub := range topo.Subtopologies() {
		for _, topic := range sub.Sinks {
			if !slices.Contains(internal, topic) {
				got = append(got, topic)
			}
		}
	}
	slices.Sort(got)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the application writes %q, and that of Kafka %q", got, want)
	}
	for _, topic := range got {
		if !slices.Contains(smokeTopics, topic) {
			t.Errorf("the scenario does not create %s", topic)
		}
	}
}
