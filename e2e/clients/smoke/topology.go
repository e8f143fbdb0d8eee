package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// application is the name of Kafka's application. The verifier does not look at the group.
const application = "SmokeTest"

// The mistakes of a broken application.
const (
	duplicate = "duplicate" // every hundredth input of a partition is copied to echo twice
	forget    = "forget"    // it is left out of the sum
	early     = "early"     // each update of a window is given as its final result
)

const (
	day = 24 * time.Hour
	// kept is how long the stores keep windows. The inputs are of two days ago, and brokers delete the beginning of the changelogs by the clock,
	// a day after the stores have forgotten it: what was kept for less would not be there for a restore.
	kept = 2 * day
	// flush is the key of the inputs that close all windows, end a value that is no input.
	flush = "flush"
	end   = math.MaxInt32
)

type (
	number   = topology.Record[string, int32]
	windowed = topology.Windowed[string]
)

// newTopology returns the application, broken in the named way unless that is empty.
func newTopology(broken string) (*topology.Topology, error) {
	switch broken {
	case "", duplicate, forget, early:
	default:
		return nil, fmt.Errorf("--broken %s: there are %s, %s and %s", broken, duplicate, forget, early)
	}
	b := topology.NewBuilder(application)
	all := topology.From(b, ints("data"))
	echo(all.Filter("without-flush", func(r number) (bool, error) { return r.Key != flush, nil }), broken).Into(ints("echo"))
	data := all.Filter("without-end", func(r number) (bool, error) { return r.Value != end, nil })

	minima := topology.AggregateWindows(data, topology.Tumbling(day).Grace(time.Minute),
		topology.WindowStore("uwin-min", schemas.String(), schemas.Int32(), kept),
		func() int32 { return math.MaxInt32 },
		func(least int32, r number) (int32, error) { return min(least, r.Value), nil })
	byText(values(minima.Stream(), "min-raw"), "min-raw")
	byText(final(minima, "min-suppressed", broken), "min-suppressed")
	byKey(minima, "min", schemas.Int32())

	seconds := topology.ReduceWindows(data, topology.Hopping(2*time.Second, time.Second).Grace(30*time.Second),
		topology.WindowStore("win-sws", schemas.String(), schemas.Int32(), kept),
		func(sum int32, r number) (int32, error) { return sum + r.Value, nil })
	byText(values(seconds.Stream(), "sws-raw"), "sws-raw")
	byText(final(seconds, "sws-suppressed", broken), "sws-suppressed")

	twoDays := topology.Tumbling(2 * day)
	maxima := topology.AggregateWindows(data, twoDays, topology.WindowStore("uwin-max", schemas.String(), schemas.Int32(), kept),
		func() int32 { return math.MinInt32 },
		func(most int32, r number) (int32, error) { return max(most, r.Value), nil })
	byKey(maxima, "max", schemas.Int32())
	hit := every(100)
	sums := topology.AggregateWindows(data, twoDays, topology.WindowStore("win-sum", schemas.String(), schemas.Int64(), kept), nil,
		func(sum int64, r number) (int64, error) {
			if broken == forget && hit(r) {
				return sum, nil
			}
			return sum + int64(r.Value), nil
		})
	byKey(sums, "sum", schemas.Int64())
	byKey(topology.CountWindows(data, twoDays, topology.WindowStore("uwin-cnt", schemas.String(), schemas.Int64(), kept)), "cnt", schemas.Int64())

	joins(b)
	return b.Build()
}

// joins declares what reads the results of the windows back as tables.
func joins(b *topology.Builder) {
	topology.JoinTables(table(b, "max", schemas.Int32()), table(b, "min", schemas.Int32()), "dif",
		func(_ string, most, least int32) (int32, error) { return most - least, nil }).Into(ints("dif"))
	counts := table(b, "cnt", schemas.Int64())
	topology.JoinTables(table(b, "sum", schemas.Int64()), counts, "avg",
		func(_ string, sum, n int64) (float64, error) { return float64(sum) / float64(n), nil }).
		Into(topology.Topic("avg", schemas.String(), float64s{}))
	byCount := topology.GroupTable(counts, "by-count", schemas.String(), schemas.Int64(),
		func(_ string, n int64) (string, int64, error) { return strconv.FormatInt(n, 10), 1, nil })
	topology.AggregateTable(byCount, topology.TimestampedStore("cnt-by-cnt", schemas.String(), schemas.Int64()), nil,
		func(keys int64, _ string, one int64) (int64, error) { return keys + one, nil },
		func(keys int64, _ string, one int64) (int64, error) { return keys - one, nil },
	).Into(topology.Topic("tagg", schemas.String(), schemas.Int64()))
}

func ints(topic string) topology.TopicOf[string, int32] {
	return topology.Topic(topic, schemas.String(), schemas.Int32())
}

func table[V any](b *topology.Builder, topic string, value schemas.Codec[V]) topology.Table[string, V] {
	return topology.TableFrom(b, topology.Topic(topic, schemas.String(), value), topology.TimestampedStore(topic+"-store", schemas.String(), value))
}

// echo returns the stream that is copied.
func echo(s topology.Stream[string, int32], broken string) topology.Stream[string, int32] {
	if broken != duplicate {
		return s
	}
	hit := every(100)
	return topology.FlatMap(s, duplicate, func(r number, emit func(number) error) error {
		if hit(r) {
			if err := emit(r); err != nil {
				return err
			}
		}
		return emit(r)
	})
}

// every returns what picks one input in n of a partition. It goes by the offset, so that an input that is processed again after an abort is
// treated the same way.
func every(n int64) func(r number) bool {
	return func(r number) bool {
		_, _, offset := r.Source()
		return offset%n == n-1
	}
}

// values returns the values of a table that deletes nothing.
func values[K, V any](s topology.Stream[K, topology.Option[V]], name string) topology.Stream[K, V] {
	return topology.MapValues(s, name+"-values", func(r topology.Record[K, topology.Option[V]]) (V, error) {
		var none V
		return r.Value.Or(none), nil
	})
}

// final returns one result per window.
func final(t topology.WindowedTable[string, int32], name, broken string) topology.Stream[windowed, int32] {
	if broken == early {
		return values(t.Stream(), name)
	}
	return t.Closed()
}

// byText writes results of windows by a key that tells the window, as Kafka's Windowed.toString has it.
func byText(s topology.Stream[windowed, int32], topic string) {
	kept := s.Filter(topic+"-without-flush", func(r topology.Record[windowed, int32]) (bool, error) { return r.Key.Key != flush, nil })
	topology.SelectKey(kept, topic+"-text", func(r topology.Record[windowed, int32]) (string, error) {
		return fmt.Sprintf("[%s@%d/%d]", r.Key.Key, r.Key.Start, r.Key.End), nil
	}).Into(ints(topic))
}

// byKey writes results of windows by the key alone.
func byKey[V any](t topology.WindowedTable[string, V], topic string, value schemas.Codec[V]) {
	keys := topology.SelectKey(values(t.Stream(), topic), topic+"-key",
		func(r topology.Record[windowed, V]) (string, error) { return r.Key.Key, nil })
	keys.Filter(topic+"-without-flush", func(r topology.Record[string, V]) (bool, error) { return r.Key != flush, nil }).
		Into(topology.Topic(topic, schemas.String(), value))
}

// float64s are Kafka's doubles: IEEE 754, big-endian.
type float64s struct{}

func (float64s) Name() string { return "float64" }

func (float64s) Append(dst []byte, v float64) ([]byte, error) {
	return schemas.Int64().Append(dst, int64(math.Float64bits(v)))
}

func (float64s) Decode(b []byte) (float64, error) {
	bits, err := schemas.Int64().Decode(b)
	return math.Float64frombits(uint64(bits)), err
}
