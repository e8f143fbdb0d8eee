package main

import (
	"fmt"
	"math"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/topology"
)

// application is what the verifier expects: the name of the group whose offsets it reads.
const application = "EosTest"

// The variants of the application.
const (
	simpleVariant  = "simple"
	complexVariant = "complex"
)

// The mistakes of a broken application.
const (
	duplicate = "duplicate" // every hundredth input of a partition is copied twice
	skip      = "skip"      // it is not copied
	forget    = "forget"    // every fifth sum is told and not kept, as after a lost state write
)

// number is an input, or a result of 32 bits, by its key.
type number = topology.Record[string, int32]

// newTopology returns the application, broken in the named way unless that is empty.
func newTopology(variant, broken string) (*topology.Topology, error) {
	switch broken {
	case "", duplicate, skip, forget:
	default:
		return nil, fmt.Errorf("--broken %s: there are %s, %s and %s", broken, duplicate, skip, forget)
	}
	b := topology.NewBuilder(application)
	data := topology.From(b, numbers("data"))
	echo(data, broken).Into(numbers("echo"))
	aggregate(data, "min", schemas.Int32(), always, math.MaxInt32,
		func(current, value int32) int32 { return min(current, value) })
	kept := always
	if broken == forget {
		kept = func(r number) bool { return !every(5)(r) }
	}
	aggregate(data, "sum", schemas.Int64(), kept, 0,
		func(current int64, value int32) int64 { return current + int64(value) })

	switch variant {
	case simpleVariant:
	case complexVariant:
		data.Into(numbers("repartition"))
		// A topic of the user's, as in Kafka's own application, and not topology.Repartition: the verifier
		// reads it by this name.
		again := topology.From(b, numbers("repartition"))
		aggregate(again, "max", schemas.Int32(), always, math.MinInt32,
			func(current, value int32) int32 { return max(current, value) })
		aggregate(again, "cnt", schemas.Int64(), always, 0,
			func(current int64, _ int32) int64 { return current + 1 })
	default:
		return nil, fmt.Errorf("--variant %s: there are %s and %s", variant, simpleVariant, complexVariant)
	}
	return b.Build()
}

func numbers(topic string) topology.TopicOf[string, int32] {
	return topology.Topic(topic, schemas.String(), schemas.Int32())
}

// echo returns the stream that is copied: data itself, unless it is to be broken.
func echo(data topology.Stream[string, int32], broken string) topology.Stream[string, int32] {
	hit := every(100)
	switch broken {
	case duplicate:
		return topology.FlatMap(data, duplicate, func(r number, emit func(number) error) error {
			if hit(r) {
				if err := emit(r); err != nil {
					return err
				}
			}
			return emit(r)
		})
	case skip:
		return data.Filter(skip, func(r number) (bool, error) { return !hit(r), nil })
	default:
		return data
	}
}

// every returns what picks one input in n of a partition. It goes by the offset, so that an input that is
// processed again after an abort is treated the same way.
func every(n int64) func(r number) bool {
	return func(r number) bool {
		_, _, offset := r.Source()
		return offset%n == n-1
	}
}

func always(number) bool { return true }

// aggregate adds every record of s to what its key has in the store of that name, and writes the result to
// the topic of that name. kept says whether the result is stored too.
func aggregate[A any](
	s topology.Stream[string, int32], name string, codec schemas.Codec[A], kept func(r number) bool,
	initial A, add func(current A, value int32) A,
) {
	store := topology.Store(name, schemas.String(), codec)
	results := topology.Process(s, name, store, func(
		c *topology.Context, results state.KeyValue[string, A], r number, emit topology.Emit[string, A],
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
