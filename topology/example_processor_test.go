package topology_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// A processor node with a store, a counter and two outlets.
func ExampleStateful() {
	type claim = topology.Record[string, string]
	claims := topology.Topic("claims", schemas.String(), schemas.String())
	granted := topology.Topic("granted", schemas.String(), schemas.String())
	refused := topology.Topic("refused", schemas.String(), schemas.String())
	owners := topology.KeyValueStore("owners", schemas.String(), schemas.String())

	b := topology.NewBuilder("seats", topology.DeadLetters("claims.dead"))
	node := topology.Stateful(topology.From(b, claims), "seats", owners)
	first := topology.Outlet[string, string](node, "first")
	late := topology.Outlet[string, string](node, "late")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		owners, grant, refuse := owners.In(t), first.In(t), late.In(t)
		repeated := t.Counter("repeated")
		return func(c *topology.Context, r claim) error {
			owner, taken, err := owners.PutIfAbsent(r.Key, r.Value)
			switch {
			case err != nil:
				return err
			case !taken:
				return grant(c, r)
			case owner == r.Value:
				repeated.Inc()
				return nil
			}
			return refuse(c, r)
		}, nil
	})
	first.Stream().Into(granted)
	late.Stream().Into(refused)

	t, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	d, err := topologytest.New(t)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"ada", "ada", "bob"} {
		if err := topologytest.Pipe(d, claims, "12a", name); err != nil {
			log.Fatal(err)
		}
	}
	for _, topic := range []topology.TopicOf[string, string]{granted, refused} {
		records, err := topologytest.Output(d, topic)
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range records {
			fmt.Printf("%s: %s %s\n", topic.Name(), r.Key, r.Value)
		}
	}
	for _, c := range d.Counts() {
		fmt.Println("counted:", c.Node, c.Outcome, c.N)
	}
	// Output:
	// granted: 12a ada
	// refused: 12a bob
	// counted: seats repeated 1
}

// A node that cannot change the key. The count behind it needs no repartition topic.
func ExampleProcessValues() {
	type text = topology.Record[string, string]
	last := topology.KeyValueStore("last", schemas.String(), schemas.String())
	counts := topology.Topic("counts", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("changes")
	changes := topology.ProcessValues(topology.From(b, said), "changed", last, func(
		c *topology.Context, last state.KeyValue[string, string], r text, emit topology.EmitFixedKey[string],
	) error {
		before, _, err := last.Get(r.Key)
		if err != nil || before == r.Value {
			return err
		}
		if err := last.Put(r.Key, r.Value); err != nil {
			return err
		}
		return emit(c, topology.FixedKey(before+">"+r.Value))
	})
	topology.Count(changes, topology.TimestampedStore("change-counts", schemas.String(), schemas.Int64())).Into(counts)
	run(b, counts, send(said, "ann", "hello"), send(said, "ann", "hello"), send(said, "ann", "bye"))
	// Output:
	// ann 1
	// ann 2
}

// A node with two outlets: one that keeps the key, and one under other keys.
func ExampleFixedKeyOutlet() {
	replies := topology.Topic("replies", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("lengths")
	node := topology.Stateful(topology.From(b, said), "lengths")
	lengths := topology.FixedKeyOutlet[int64](node, "lengths")
	shouts := topology.Outlet[string, string](node, "shouts")
	node.Process(func(t *topology.Setup) (topology.Handler[string, string], error) {
		measure, shout := lengths.In(t), shouts.In(t)
		return func(c *topology.Context, r topology.Record[string, string]) error {
			if strings.HasSuffix(r.Value, "!") {
				return shout(c, topology.WithKey(r, "everybody"))
			}
			return measure(c, topology.FixedKey(int64(len(r.Value))))
		}, nil
	})
	shouts.Stream().Into(heard)
	longest := topology.TimestampedStore("longest", schemas.String(), schemas.Int64())
	topology.Reduce(lengths.Stream(), longest, func(old int64, r topology.Record[string, int64]) (int64, error) {
		return max(old, r.Value), nil
	}).Into(replies)
	printTopic(run(b, replies, send(said, "ann", "hello"), send(said, "bob", "hey!"), send(said, "ann", "bye")), heard)
	// Output:
	// ann 5
	// ann 5
	// everybody hey!
}

// The short form of a node with one store and one outlet.
func ExampleProcess() {
	type text = topology.Record[string, string]
	last := topology.KeyValueStore("last", schemas.String(), schemas.String())
	b := topology.NewBuilder("changes")
	topology.Process(topology.From(b, said), "changed", last, func(
		c *topology.Context, last state.KeyValue[string, string], r text, emit topology.Emit[string, string],
	) error {
		before, known, err := last.Get(r.Key)
		if err != nil || known && before == r.Value {
			return err
		}
		if err := last.Put(r.Key, r.Value); err != nil {
			return err
		}
		return emit(c, r)
	}).Into(heard)
	run(b, heard, send(said, "ann", "hello"), send(said, "ann", "hello"), send(said, "ann", "bye"))
	// Output:
	// ann hello
	// ann bye
}
