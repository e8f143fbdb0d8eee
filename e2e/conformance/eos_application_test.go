package conformance

import (
	"fmt"
	"math"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// eosApplication is the name of the group whose offsets the verifier reads.
const eosApplication = "EosTest"

// eosRepartition is a topic that the application writes and reads.
const eosRepartition = "repartition"

// The mistakes of a broken application.
const (
	eosDuplicate = "duplicate" // every hundredth input of a partition is copied twice
	eosSkip      = "skip"      // it is not copied
	eosForget    = "forget"    // every fifth sum is told and not kept, as after a lost state write
)

// int32Record is an input, or a result of 32 bits, by its key.
type int32Record = topology.Record[string, int32]

// eosTopology returns the application that StreamsEosTest judges, with a mistake unless that is
// empty. Keys are strings, "data" has 32-bit integers, and all topics have equally many partitions:
//
//	data         every input goes to echo as it is, and to min and sum, each as a new result per input
//	repartition  only complex: a copy of data, written and read again by this application, which gives max and cnt, again one result per input
//
// Results of a partition are in the order of its inputs and in the partition of the same number.
// min and max are 32-bit integers, sum and cnt 64-bit, big-endian as Kafka's serializers write
// them.
func eosTopology(variant, broken string) (*topology.Topology, error) {
	switch broken {
	case "", eosDuplicate, eosSkip, eosForget:
	default:
		return nil, fmt.Errorf("there is no mistake %q of %s", broken, eosApplication)
	}
	b := topology.NewBuilder(eosApplication)
	data := topology.From(b, int32Topic(generatedTopic))
	eosEcho(data, broken).Into(int32Topic("echo"))
	eosAggregate(data, "min", schemas.Int32(), always, math.MaxInt32,
		func(current, value int32) int32 { return min(current, value) })
	kept := always
	if broken == eosForget {
		kept = func(r int32Record) bool { return !oneIn(5)(r) }
	}
	eosAggregate(data, "sum", schemas.Int64(), kept, 0,
		func(current int64, value int32) int64 { return current + int64(value) })

	switch variant {
	case eosSimple.name:
	case eosComplex.name:
		data.Into(int32Topic(eosRepartition))
		// A topic of the user's, as in Kafka's own application, and not topology.Repartition: the
		// verifier reads it by this name.
		again := topology.From(b, int32Topic(eosRepartition))
		eosAggregate(again, "max", schemas.Int32(), always, math.MinInt32,
			func(current, value int32) int32 { return max(current, value) })
		eosAggregate(again, "cnt", schemas.Int64(), always, 0,
			func(current int64, _ int32) int64 { return current + 1 })
	default:
		return nil, fmt.Errorf("there is no variant %q of %s", variant, eosApplication)
	}
	return b.Build()
}

func int32Topic(topic string) topology.TopicOf[string, int32] {
	return topology.Topic(topic, schemas.String(), schemas.Int32())
}

// eosEcho returns the stream that is copied: data itself, unless it is to be broken.
func eosEcho(data topology.Stream[string, int32], broken string) topology.Stream[string, int32] {
	switch broken {
	case eosDuplicate:
		return hundredthTwice(data)
	case eosSkip:
		hit := oneIn(100)
		return data.Filter(eosSkip, func(r int32Record) (bool, error) { return !hit(r), nil })
	default:
		return data
	}
}

// hundredthTwice has every hundredth record of a partition twice.
func hundredthTwice(s topology.Stream[string, int32]) topology.Stream[string, int32] {
	hit := oneIn(100)
	return topology.FlatMap(s, "duplicate", func(r int32Record, emit func(int32Record) error) error {
		if hit(r) {
			if err := emit(r); err != nil {
				return err
			}
		}
		return emit(r)
	})
}

// oneIn returns what picks one input in n of a partition. It goes by the offset, so that an input
// that is processed again after an abort is treated the same way.
func oneIn(n int64) func(r int32Record) bool {
	return func(r int32Record) bool {
		_, _, offset := r.Source()
		return offset%n == n-1
	}
}

func always(int32Record) bool { return true }

// eosAggregate adds every record of s to what its key has in the store of that name, and writes the
// result to the topic of that name. kept says whether the result is stored too.
func eosAggregate[A any](
	s topology.Stream[string, int32], name string, codec schemas.Codec[A], kept func(r int32Record) bool,
	initial A, add func(current A, value int32) A,
) {
	store := topology.KeyValueStore(name, schemas.String(), codec)
	results := topology.Process(s, name, store, func(
		c *topology.Context, results state.KeyValue[string, A], r int32Record, emit topology.Emit[string, A],
	) error {
		current, ok, err := results.Get(r.Key)
		if err != nil {
			return err
		}
		if !ok {
			current = initial
		}
		current = add(current, r.Value)
		if kept(r) {
			if err := results.Put(r.Key, current); err != nil {
				return err
			}
		}
		return emit(c, topology.WithValue(r, current))
	})
	results.Into(topology.Topic(name, schemas.String(), codec))
}
