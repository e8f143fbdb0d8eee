package topology_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
)

// The windows of the examples, and a topic whose keys are windowed by them.
var (
	perMinute = topology.Tumbling(time.Minute).Grace(10 * time.Second)
	minutes   = topology.Topic("minutes", topology.WindowedCodec(schemas.String(), perMinute.Size()), schemas.Int64())
)

const second = time.Second

// How often everybody has said something in each minute: every update, with the window as the
// beginning and the end in milliseconds. The last record comes too late for its minute.
func ExampleCountWindows() {
	counts := topology.WindowStore("counts", schemas.String(), schemas.Int64(), perMinute.Retention())
	b := topology.NewBuilder("count-windows")
	topology.CountWindows(topology.From(b, said), perMinute, counts).Into(minutes)
	d := run(b, minutes, sendAt(10*second, said, "ann", "hello"), sendAt(65*second, said, "ann", "hi"),
		sendAt(50*second, said, "ann", "late, but not too late"), sendAt(75*second, said, "bob", "hi"),
		sendAt(20*second, said, "ann", "too late"))
	fmt.Println("late:", d.Count("counts", "late"))
	// Output:
	// {ann 0 60000} 1
	// {ann 60000 120000} 1
	// {ann 0 60000} 2
	// {bob 60000 120000} 1
	// late: 1
}

// The longest thing that everybody has said in each minute.
func ExampleReduceWindows() {
	longest := topology.WindowStore("longest", schemas.String(), schemas.String(), perMinute.Retention())
	texts := topology.Topic("texts", topology.WindowedCodec(schemas.String(), perMinute.Size()), schemas.String())
	b := topology.NewBuilder("reduce-windows")
	topology.ReduceWindows(topology.From(b, said), perMinute, longest,
		func(sofar string, r topology.Record[string, string]) (string, error) {
			if len(r.Value) > len(sofar) {
				return r.Value, nil
			}
			return sofar, nil
		}).Into(texts)
	run(b, texts, sendAt(0, said, "ann", "hello"), sendAt(5*second, said, "ann", "hi"), sendAt(60*second, said, "ann", "hi"))
	// Output:
	// {ann 0 60000} hello
	// {ann 0 60000} hello
	// {ann 60000 120000} hi
}

// How many letters everybody has used in the last minute, every half minute.
func ExampleAggregateWindows() {
	windows := topology.Hopping(time.Minute, 30*time.Second)
	letters := topology.WindowStore("letters", schemas.String(), schemas.Int64(), windows.Retention())
	b := topology.NewBuilder("aggregate-windows")
	topology.AggregateWindows(topology.From(b, said), windows, letters, nil,
		func(sofar int64, r topology.Record[string, string]) (int64, error) {
			return sofar + int64(len(r.Value)), nil
		}).Into(minutes)
	run(b, minutes, sendAt(20*second, said, "ann", "hello"), sendAt(40*second, said, "ann", "hi"))
	// Output:
	// {ann 0 60000} 5
	// {ann 0 60000} 7
	// {ann 30000 90000} 2
}

// How many records of the same person were less than a minute apart. Each window ends with a
// record, or begins behind one.
func ExampleSliding() {
	windows := topology.Sliding(time.Minute).Grace(time.Minute)
	counts := topology.WindowStore("counts", schemas.String(), schemas.Int64(), windows.Retention())
	b := topology.NewBuilder("sliding")
	topology.CountWindows(topology.From(b, said), windows, counts).Into(minutes)
	run(b, minutes, sendAt(100*second, said, "ann", "hello"), sendAt(130*second, said, "ann", "hi"),
		sendAt(170*second, said, "ann", "still here"))
	// Output:
	// {ann 40000 100000} 1
	// {ann 100001 160001} 1
	// {ann 70000 130000} 2
	// {ann 130001 190001} 1
	// {ann 110000 170000} 2
}

// One record for each minute, when it is over and the grace as well. The time moves with the
// records only.
func ExampleWindowedTable_Closed() {
	counts := topology.WindowStore("counts", schemas.String(), schemas.Int64(), perMinute.Retention())
	b := topology.NewBuilder("closed")
	topology.CountWindows(topology.From(b, said), perMinute, counts).Closed().Into(minutes)
	run(b, minutes, sendAt(10*second, said, "bob", "hello"), sendAt(20*second, said, "ann", "hello"),
		sendAt(69*second, said, "ann", "hi"), sendAt(59*second, said, "ann", "late, but not too late"),
		sendAt(70*second, said, "ann", "this closes the first minute"), sendAt(10*time.Minute, said, "ann", "and this the second"))
	// Output:
	// {ann 0 60000} 2
	// {bob 0 60000} 1
	// {ann 60000 120000} 2
}

// How long each visit was, and how often the visitor spoke. A pause of more than a minute ends a
// visit. The second record of ann makes her first session longer, which deletes the shorter one.
func ExampleCountSessions() {
	visit := topology.Sessions(time.Minute)
	counts := topology.SessionStore("visits", schemas.String(), schemas.Int64(), visit.Retention())
	visits := topology.Topic("visits", topology.SessionCodec(schemas.String()), schemas.Int64())
	b := topology.NewBuilder("sessions")
	topology.CountSessions(topology.From(b, said), visit, counts).Into(visits)
	run(b, visits, sendAt(10*second, said, "ann", "hello"), sendAt(70*second, said, "ann", "still here"),
		sendAt(200*second, said, "ann", "back again"))
	// Output:
	// {ann 10000 10000} 1
	// {ann 10000 10000} null
	// {ann 10000 70000} 2
	// {ann 200000 200000} 1
}

// One record for each visit, when it is over: nothing was said for more than a minute, by the time
// of later records.
func ExampleSessionTable_Closed() {
	visit := topology.Sessions(time.Minute)
	counts := topology.SessionStore("visits", schemas.String(), schemas.Int64(), visit.Retention())
	visits := topology.Topic("visits", topology.SessionCodec(schemas.String()), schemas.Int64())
	b := topology.NewBuilder("sessions")
	topology.CountSessions(topology.From(b, said), visit, counts).Closed().Into(visits)
	run(b, visits, sendAt(10*second, said, "ann", "hello"), sendAt(70*second, said, "ann", "still here"),
		sendAt(100*second, said, "bob", "hi"), sendAt(131*second, said, "bob", "this closes the visit of ann"))
	// Output:
	// {ann 10000 70000} 2
}

func ExampleAggregateSessions() {
	visit := topology.Sessions(time.Minute).Grace(time.Minute)
	words := topology.SessionStore("visits", schemas.String(), schemas.String(), visit.Retention())
	visits := topology.Topic("visits", topology.SessionCodec(schemas.String()), schemas.String())
	b := topology.NewBuilder("sessions")
	topology.AggregateSessions(topology.From(b, said), visit, words, nil,
		func(sofar string, r topology.Record[string, string]) (string, error) {
			return sofar + "[" + r.Value + "]", nil
		},
		func(_, a, b string) (string, error) { return a + b, nil }).Into(visits)
	run(b, visits, sendAt(0, said, "ann", "one"), sendAt(90*second, said, "ann", "two"), sendAt(45*second, said, "ann", "between"))
	// Output:
	// {ann 0 0} [one]
	// {ann 90000 90000} [two]
	// {ann 0 0} null
	// {ann 90000 90000} null
	// {ann 0 90000} [one][two][between]
}

// The bytes of the key of a session are the key, the end and the beginning.
func ExampleSessionCodec() {
	codec := topology.SessionCodec(schemas.String())
	b, err := codec.Append(nil, topology.Windowed[string]{Key: "ann", Start: 1, End: 60_000})
	fmt.Printf("%s: %q %v\n", codec.Name(), b, err)
	// Output: session:string: "ann\x00\x00\x00\x00\x00\x00\xea`\x00\x00\x00\x00\x00\x00\x00\x01" <nil>
}

// A key that people read, for a topic that they look into.
func ExampleWindowedTextCodec() {
	codec := topology.WindowedTextCodec(schemas.String())
	b, err := codec.Append(nil, topology.Windowed[string]{Key: "ann", Start: 60_000, End: 120_000})
	fmt.Printf("%s: %s %v\n", codec.Name(), b, err)
	// Output: windowed-text:string: ann@1970-01-01T00:01:00.000Z/1970-01-01T00:02:00.000Z <nil>
}

// The bytes of a windowed key are the key, and the beginning of the window.
func ExampleWindowedCodec() {
	codec := topology.WindowedCodec(schemas.String(), time.Minute)
	b, err := codec.Append(nil, topology.Windowed[string]{Key: "ann", Start: 60_000, End: 120_000})
	fmt.Printf("%s: %q %v\n", codec.Name(), b, err)
	// Output: windowed:string/60000: "ann\x00\x00\x00\x00\x00\x00\xea`" <nil>
}

// Orders say themselves when they were placed. The second one was placed in the first minute.
func ExampleEventTime() {
	type order struct {
		Placed time.Time `json:"placed"`
	}
	orders := topology.Topic("orders", schemas.String(), schemas.JSON[order]())
	counts := topology.WindowStore("counts", schemas.String(), schemas.Int64(), perMinute.Retention())

	b := topology.NewBuilder("orders")
	placed := topology.From(b, orders, topology.EventTime(func(r topology.Record[string, order]) (time.Time, error) {
		return r.Value.Placed, nil
	}))
	topology.CountWindows(placed, perMinute, counts).Into(minutes)
	at := func(seconds int64) order { return order{Placed: time.Unix(seconds, 0).UTC()} }
	run(b, minutes, send(orders, "ann", at(61)), send(orders, "ann", at(59)))
	// Output:
	// {ann 60000 120000} 1
	// {ann 0 60000} 1
}

// Orders without a time are left out and counted, instead of becoming dead letters.
func ExampleOnInvalidTimestamp() {
	type order struct {
		Placed time.Time `json:"placed"`
	}
	orders := topology.Topic("orders", schemas.String(), schemas.JSON[order]())
	checked := topology.Topic("checked", schemas.String(), schemas.JSON[order]())

	b := topology.NewBuilder("orders")
	topology.From(b, orders, topology.OnInvalidTimestamp(topology.SkipInvalid),
		topology.EventTime(func(r topology.Record[string, order]) (time.Time, error) { return r.Value.Placed, nil })).Into(checked)
	d := run(b, checked, send(orders, "ann", order{}), send(orders, "bob", order{Placed: time.Unix(7, 0).UTC()}))
	fmt.Println("skipped:", d.Count("orders-source", "invalid-timestamp"))
	// Output:
	// bob {1970-01-01 00:00:07 +0000 UTC}
	// skipped: 1
}
