package throughput

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRepartitionTopicsInARow: a record can lead to one in a repartition topic that the watching
// has looked at before. The watching looks again.
func TestRepartitionTopicsInARow(t *testing.T) {
	// The second one is the first one by name.
	const first, second = "chain-b-repartition", "chain-a-repartition"
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, first, second, "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	brokers := broker.ListenAddrs()
	produce(t, brokers, &kgo.Record{Topic: first})
	c, err := connect(brokers)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	asked := make(chan string, 1000)
	broker.ControlKey(offsetFetchKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		fetch, ok := req.(*kmsg.OffsetFetchRequest)
		for _, g := range fetch.Groups {
			for _, topic := range g.Topics {
				select {
				case asked <- topic.Topic:
				default: // the test needs the first ones
				}
			}
		}
		return nil, nil, !ok
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		w := &watcher{cfg: WatchConfig{Brokers: brokers, Application: "chain", Out: "out"}, cluster: c}
		_, err := w.awaitShuffled(ctx, moment{})
		done <- err
	}()
	// awaitAsked waits until the offset of a topic is asked for.
	awaitAsked := func(topic string) {
		for {
			select {
			case name := <-asked:
				if name == topic {
					return
				}
			case err := <-done:
				t.Fatalf("the watching has ended before it asked for %s: %v", topic, err)
			}
		}
	}
	commit := func(topic string) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, 1, -1)
		if err := c.adm.CommitAllOffsets(ctx, "chain", offsets); err != nil {
			t.Fatal(err)
		}
	}
	awaitAsked(first)
	produce(t, brokers, &kgo.Record{Topic: second})
	commit(first)
	awaitAsked(second)
	commit(second)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
