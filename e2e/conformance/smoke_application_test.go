package conformance

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// smokeApplication is the name of Kafka's application. The verifier does not look at the group.
const smokeApplication = "SmokeTest"

// The mistakes of a broken application.
const (
	smokeDuplicate = "duplicate" // every hundredth input of a partition is copied to echo twice
	smokeForget    = "forget"    // it is left out of the sum
	smokeEarly     = "early"     // each update of a window is given as its final result
	// smokeEarlySeconds is smokeEarly in sws-suppressed alone.
	smokeEarlySeconds = "early-seconds"
)

const (
	day = 24 * time.Hour
	// smokeRetention is how long the stores keep windows. The inputs are two days old. Brokers
	// delete the beginning of the changelogs by the clock, a day after the retention of the stores.
	// With a shorter retention, rows would be missing in a restore.
	smokeRetention = 2 * day
	// smokeFlush is the key of the inputs that close all windows, smokeEnd a value that is no
	// input.
	smokeFlush = "flush"
	smokeEnd   = math.MaxInt32
)

type windowed = topology.Windowed[string]

// smokeTopology returns the application that StreamsSmokeTest judges, with a mistake unless that is
// empty: what SmokeTestClient is there. Keys are strings, "data" has 32-bit integers, and an input
// with the key "flush" at the end of each partition, whose time closes all windows. All topics have
// equally many partitions:
//
//	echo                          every input but the flush
//	min-raw, min-suppressed, min  the smallest value of a day: each update, the final one, and each update by the key alone
//	sws-raw, sws-suppressed       the sum over two seconds, a second apart: each update, and the final one
//	max, sum, cnt                 largest value, sum and number over two days, each update by the key alone
//	dif, avg                      tables of max, min, sum and cnt, read back and joined: max - min, and sum / cnt
//	tagg                          how many keys have each count
func smokeTopology(broken string) (*topology.Topology, error) {
	switch broken {
	case "", smokeDuplicate, smokeForget, smokeEarly, smokeEarlySeconds:
	default:
		return nil, fmt.Errorf("there is no mistake %q of %s", broken, smokeApplication)
	}
	b := topology.NewBuilder(smokeApplication)
	all := topology.From(b, int32Topic(generatedTopic))
	smokeEcho(all.Filter("without-flush", func(r int32Record) (bool, error) { return r.Key != smokeFlush, nil }), broken).Into(int32Topic("echo"))
	data := all.Filter("without-end", func(r int32Record) (bool, error) { return r.Value != smokeEnd, nil })

	minima := topology.AggregateWindows(data, topology.Tumbling(day).Grace(time.Minute),
		topology.WindowStore("uwin-min", schemas.String(), schemas.Int32(), smokeRetention),
		func() int32 { return math.MaxInt32 },
		func(least int32, r int32Record) (int32, error) { return min(least, r.Value), nil })
	intoByText(tableValues(minima.Stream(), "min-raw"), "min-raw")
	intoByText(finalResults(minima, "min-suppressed", broken), "min-suppressed")
	intoByKey(minima, "min", schemas.Int32())

	seconds := topology.ReduceWindows(data, topology.Hopping(2*time.Second, time.Second).Grace(30*time.Second),
		topology.WindowStore("win-sws", schemas.String(), schemas.Int32(), smokeRetention),
		func(sum int32, r int32Record) (int32, error) { return sum + r.Value, nil })
	intoByText(tableValues(seconds.Stream(), "sws-raw"), "sws-raw")
	intoByText(finalResults(seconds, "sws-suppressed", broken), "sws-suppressed")

	twoDays := topology.Tumbling(2 * day)
	maxima := topology.AggregateWindows(data, twoDays, topology.WindowStore("uwin-max", schemas.String(), schemas.Int32(), smokeRetention),
		func() int32 { return math.MinInt32 },
		func(most int32, r int32Record) (int32, error) { return max(most, r.Value), nil })
	intoByKey(maxima, "max", schemas.Int32())
	hit := oneIn(100)
	sums := topology.AggregateWindows(data, twoDays, topology.WindowStore("win-sum", schemas.String(), schemas.Int64(), smokeRetention), nil,
		func(sum int64, r int32Record) (int64, error) {
			if broken == smokeForget && hit(r) {
				return sum, nil
			}
			return sum + int64(r.Value), nil
		})
	intoByKey(sums, "sum", schemas.Int64())
	intoByKey(topology.CountWindows(data, twoDays, topology.WindowStore("uwin-cnt", schemas.String(), schemas.Int64(), smokeRetention)), "cnt", schemas.Int64())

	smokeJoins(b)
	return b.Build()
}

// smokeJoins declares what reads the results of the windows back as tables.
func smokeJoins(b *topology.Builder) {
	topology.JoinTables(smokeTable(b, "max", schemas.Int32()), smokeTable(b, "min", schemas.Int32()), "dif",
		func(_ string, most, least int32) (int32, error) { return most - least, nil }).Into(int32Topic("dif"))
	counts := smokeTable(b, "cnt", schemas.Int64())
	topology.JoinTables(smokeTable(b, "sum", schemas.Int64()), counts, "avg",
		func(_ string, sum, n int64) (float64, error) { return float64(sum) / float64(n), nil }).
		Into(topology.Topic("avg", schemas.String(), float64s{}))
	byCount := topology.GroupTable(counts, "by-count", schemas.String(), schemas.Int64(),
		func(_ string, n int64) (string, int64, error) { return strconv.FormatInt(n, 10), 1, nil })
	topology.AggregateTable(byCount, topology.TimestampedStore("cnt-by-cnt", schemas.String(), schemas.Int64()), nil,
		func(keys int64, _ string, one int64) (int64, error) { return keys + one, nil },
		func(keys int64, _ string, one int64) (int64, error) { return keys - one, nil },
	).Into(topology.Topic("tagg", schemas.String(), schemas.Int64()))
}

func smokeTable[V any](b *topology.Builder, topic string, value schemas.Codec[V]) topology.Table[string, V] {
	return topology.TableFrom(b, topology.Topic(topic, schemas.String(), value), topology.TimestampedStore(topic+"-store", schemas.String(), value))
}

// smokeEcho returns the stream that is copied.
func smokeEcho(s topology.Stream[string, int32], broken string) topology.Stream[string, int32] {
	if broken == smokeDuplicate {
		return hundredthTwice(s)
	}
	return s
}

// tableValues returns the values of a table that deletes nothing.
func tableValues[K, V any](s topology.Stream[K, topology.Option[V]], name string) topology.Stream[K, V] {
	return topology.MapValues(s, name+"-values", func(v topology.Option[V]) (V, error) {
		var none V
		return v.Or(none), nil
	})
}

// finalResults returns one result per window.
func finalResults(t topology.WindowedTable[string, int32], name, broken string) topology.Stream[windowed, int32] {
	if broken == smokeEarly || broken == smokeEarlySeconds && name == "sws-suppressed" {
		return tableValues(t.Stream(), name)
	}
	return t.Closed()
}

// intoByText writes results of windows by a key that tells the window, as Kafka's Windowed.toString
// has it.
func intoByText(s topology.Stream[windowed, int32], topic string) {
	withoutFlush := s.Filter(topic+"-without-flush", func(r topology.Record[windowed, int32]) (bool, error) { return r.Key.Key != smokeFlush, nil })
	topology.SelectKey(withoutFlush, topic+"-text", func(r topology.Record[windowed, int32]) (string, error) {
		return fmt.Sprintf("[%s@%d/%d]", r.Key.Key, r.Key.Start, r.Key.End), nil
	}).Into(int32Topic(topic))
}

// intoByKey writes results of windows by the key alone.
func intoByKey[V any](t topology.WindowedTable[string, V], topic string, value schemas.Codec[V]) {
	keys := topology.SelectKey(tableValues(t.Stream(), topic), topic+"-key",
		func(r topology.Record[windowed, V]) (string, error) { return r.Key.Key, nil })
	keys.Filter(topic+"-without-flush", func(r topology.Record[string, V]) (bool, error) { return r.Key != smokeFlush, nil }).
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
