package txn_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn"
)

// TestPartitioner: records are in the partitions that the partitioners of a repartition topic and
// of a sink have chosen, also those that a restart processes, and what chose none is a dead letter.
func TestPartitioner(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBroker(t, 3, "in", "out", "dead")
		text := schemas.String()
		byValue := topology.PartitionBy("by-value", func(_, _, value string, partitions int32) int32 {
			n, err := strconv.Atoi(value)
			if err != nil {
				return partitions
			}
			return int32(n) % partitions
		})
		builder := topology.NewBuilder("app", topology.DeadLetters("dead"))
		moved := topology.RepartitionWith(topology.From(builder, topology.Topic("in", text, text)), "moved", text, text, byValue)
		topology.MapHeaders(moved, "place", func(r topology.Record[string, string]) ([]topology.Header, error) {
			_, partition, _ := r.Source()
			return []topology.Header{{Key: "moved", Value: fmt.Append(nil, partition)}}, nil
		}).Into(topology.Topic("out", text, text).PartitionedBy(byValue))
		top, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		cfg := b.config(txn.Config{StateDir: t.TempDir(), Workers: 1})
		sent := 0
		send := func(n int) {
			t.Helper()
			for range n {
				b.produce(t, &kgo.Record{Topic: "in", Partition: int32(sent % 3), Key: []byte("key"), Value: fmt.Append(nil, sent)})
				sent++
			}
		}
		_, stop := start(t, top, cfg)
		send(20)
		b.produce(t, &kgo.Record{Topic: "in", Key: []byte("key"), Value: []byte("none")})
		b.read(t, "out", 20)
		if letter := b.read(t, "dead", 1)[0]; string(letter.Value) != "none" {
			t.Errorf("the dead letter is %s", letter.Value)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		start(t, top, cfg)
		send(20)
		for _, r := range b.read(t, "out", 40) {
			n, err := strconv.Atoi(string(r.Value))
			if err != nil || r.Partition != int32(n%3) || len(r.Headers) != 1 || string(r.Headers[0].Value) != strconv.Itoa(n%3) {
				t.Errorf("%s is in partition %d, by way of %v", r.Value, r.Partition, r.Headers)
			}
		}
	})
}
