package cluster

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestABrokerOfThreeMayDie: topics have a replica on each broker, and what was written goes on to
// be read and written while one is away.
func TestABrokerOfThreeMayDie(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("four JVMs")
	}
	c := OwnWith(t, KindKafka, Options{ShortLived: true, Brokers: 3})
	if n := len(c.Brokers()); n != 3 {
		t.Fatalf("%d brokers, want 3", n)
	}
	topic, client := newTopic(t, c, 3), c.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	md, err := c.Admin().Metadata(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range md.Topics[topic].Partitions {
		if len(p.Replicas) != 3 {
			t.Errorf("partition %d has replicas %v, want 3", p.Partition, p.Replicas)
		}
	}
	write := func(partition int32, value string) {
		t.Helper()
		r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write(0, "before")
	if err := c.KillBroker(1); err != nil {
		t.Fatal(err)
	}
	for partition := range int32(3) { // one of them was led by the broker that is gone
		write(partition, "meanwhile")
	}
	if err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitReplicas(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(c.Records(t, topic)); got != 4 {
		t.Errorf("%d records, want 4", got)
	}
	if err := c.KillBroker(3); err == nil {
		t.Error("a broker that is none was killed")
	}
}
