package topology_test

import (
	"fmt"
	"log"
	"time"

	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// The topologies of the examples are run by these helpers: send writes a record to a topic, run
// builds the topology, sends the records and prints what comes out of a topic, with nulls as null.

type sent func(d *topologytest.Driver) error

func send[K, V any](t topology.TopicOf[K, V], key K, value V) sent {
	return func(d *topologytest.Driver) error { return topologytest.Pipe(d, t, key, value) }
}

// sendAt is send with the time of the record, counted from the epoch.
func sendAt[K, V any](at time.Duration, t topology.TopicOf[K, V], key K, value V) sent {
	return func(d *topologytest.Driver) error {
		return topologytest.Pipe(d, t, key, value, topologytest.At(time.UnixMilli(at.Milliseconds())))
	}
}

// remove sends a null.
func remove[K, V any](t topology.TopicOf[K, V], key K) sent {
	return func(d *topologytest.Driver) error {
		var value V
		k, _, err := t.Encode(key, value)
		if err != nil {
			return err
		}
		return d.PipeRaw(t.Name(), k, nil)
	}
}

func run[K, V any](b *topology.Builder, out topology.TopicOf[K, V], records ...sent) *topologytest.Driver {
	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	for _, send := range records {
		if err := send(d); err != nil {
			log.Fatal(err)
		}
	}
	printTopic(d, out)
	return d
}

func printTopic[K, V any](d *topologytest.Driver, topic topology.TopicOf[K, V]) {
	raw, err := d.OutputRaw(topic.Name())
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range raw {
		k, v, err := topic.Decode(r.Key, r.Value)
		switch {
		case r.Value == nil:
			fmt.Println(k, "null")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(k, v)
		}
	}
}
