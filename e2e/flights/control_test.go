package flights

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clone returns a copy whose lists and maps can be changed. Records are replaced, not changed.
func (o *observed) clone() *observed {
	return &observed{
		latest: cloneLists(o.latest), stale: cloneLists(o.stale), dead: cloneLists(o.dead),
		byCarrier: cloneLists(o.byCarrier), totals: cloneLists(o.totals), twice: cloneLists(o.twice),
		planes: cloneMaps(o.planes), sums: cloneMaps(o.sums), contributions: cloneMaps(o.contributions),
	}
}

func cloneLists(lists [][]*kgo.Record) [][]*kgo.Record {
	lists = slices.Clone(lists)
	for i := range lists {
		lists[i] = slices.Clone(lists[i])
	}
	return lists
}

func cloneMaps[V any](tasks []map[string]V) []map[string]V {
	tasks = slices.Clone(tasks)
	for i := range tasks {
		tasks[i] = maps.Clone(tasks[i])
	}
	return tasks
}

// The breakages of a topic. Each works on the longest partition.

func longest(topic [][]*kgo.Record) int {
	longest := 0
	for p := range topic {
		if len(topic[p]) > len(topic[longest]) {
			longest = p
		}
	}
	return longest
}

func drop(topic [][]*kgo.Record) {
	p := longest(topic)
	topic[p] = slices.Delete(topic[p], len(topic[p])/2, len(topic[p])/2+1)
}

func dropLast(topic [][]*kgo.Record) {
	p := longest(topic)
	topic[p] = topic[p][:len(topic[p])-1]
}

func double(topic [][]*kgo.Record) {
	p := longest(topic)
	topic[p] = append(topic[p], topic[p][len(topic[p])/2])
}

func swap(topic [][]*kgo.Record) {
	swapLike(func(a, b *kgo.Record) bool { return true })(topic)
}

// swapLike swaps a record with the next one that the function likes to see swapped.
func swapLike(like func(a, b *kgo.Record) bool) func(topic [][]*kgo.Record) {
	return func(topic [][]*kgo.Record) {
		p := topic[longest(topic)]
		i := len(p) / 2
		for j := i + 1; ; j++ {
			if like(p[i], p[j]) {
				p[i], p[j] = p[j], p[i]
				return
			}
		}
	}
}

func sameKey(a, b *kgo.Record) bool { return bytes.Equal(a.Key, b.Key) }

// move puts a record at the end of the next partition.
func move(topic [][]*kgo.Record) {
	p := longest(topic)
	i := len(topic[p]) / 2
	q := (p + 1) % len(topic)
	topic[q] = append(topic[q], topic[p][i])
	topic[p] = slices.Delete(topic[p], i, i+1)
}

// change replaces a record by a changed copy.
func change(f func(r *kgo.Record)) func(topic [][]*kgo.Record) {
	return func(topic [][]*kgo.Record) {
		p := longest(topic)
		i := len(topic[p]) / 2
		r := *topic[p][i]
		r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
		f(&r)
		topic[p][i] = &r
	}
}

var (
	otherKey    = change(func(r *kgo.Record) { r.Key = append(r.Key, 'X') })
	nullKey     = change(func(r *kgo.Record) { r.Key = nil })
	otherTime   = change(func(r *kgo.Record) { r.Timestamp = r.Timestamp.Add(time.Millisecond) })
	otherHeader = change(func(r *kgo.Record) { r.Headers[0].Value = []byte("1") })
	noHeader    = change(func(r *kgo.Record) { r.Headers = r.Headers[1:] })
	moreHeaders = change(func(r *kgo.Record) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: "more"}) })
	longerValue = change(func(r *kgo.Record) { r.Value = append(r.Value, '1') })
	nullValue   = change(func(r *kgo.Record) { r.Value = nil })
)

// replace changes the text of a value. It fails by panic if the text is not there.
func replace(old, with string) func(topic [][]*kgo.Record) {
	return change(func(r *kgo.Record) {
		if !bytes.Contains(r.Value, []byte(old)) {
			panic(old + " is not in " + string(r.Value))
		}
		r.Value = bytes.Replace(r.Value, []byte(old), []byte(with), 1)
	})
}

func setHeader(key, value string) func(topic [][]*kgo.Record) {
	return change(func(r *kgo.Record) {
		i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == key })
		r.Headers[i].Value = []byte(value)
	})
}

// any1 returns a key of the first task that has one, with the task.
func any1[V any](tasks []map[string]V) (int, string) {
	for p, rows := range tasks {
		if len(rows) > 0 {
			return p, slices.Min(slices.Collect(maps.Keys(rows)))
		}
	}
	panic("no task has anything")
}

func lose[V any](tasks []map[string]V) {
	p, key := any1(tasks)
	delete(tasks[p], key)
}

func misplace[V any](tasks []map[string]V) {
	p, key := any1(tasks)
	q := (p + 1) % len(tasks)
	tasks[q][key] = tasks[p][key]
	delete(tasks[p], key)
}

func alter[V any](tasks []map[string]V, f func(v *V)) {
	p, key := any1(tasks)
	v := tasks[p][key]
	f(&v)
	tasks[p][key] = v
}

// TestControls breaks, one at a time, what a correct run has left behind. Each has to be found,
// where it is.
func TestControls(t *testing.T) {
	inputs := inputsOf(t, readRows(t)[:3000], 25)
	want := recompute(inputs, partitions)
	correct := drive(t, inputs)
	for subject, err := range correct.check(want, inMemory) {
		if err != nil {
			t.Fatalf("before anything is broken: %s: %v", subject, err)
		}
	}
	// by-carrier has an order only among the records of one source partition.
	from := map[string]int32{}
	for _, in := range inputs {
		from[strconv.Itoa(in.Row.Line)] = in.Partition
	}
	for topic, breakages := range map[string]map[string]func([][]*kgo.Record){
		latestTopic: {
			"version": replace(`"version":2`, `"version":3`), "value": replace(`"carrier":"`, `"carrier":"Z`),
		},
		staleTopic: {
			"outcome": replace(`"stale"`, `"duplicate"`), "applied": replace(`"applied":2`, `"applied":3`),
		},
		deadTopic: {
			"class": setHeader("onceward.class", "conflict"), "offset": setHeader("onceward.offset", "0"),
			"partition": setHeader("onceward.partition", "9"), "deaths": setHeader("onceward.deaths", "2"),
			"empty id": setHeader("onceward.id", ""), "node": setHeader("onceward.node", "planes"),
			"header twice": change(func(r *kgo.Record) { r.Headers = append(r.Headers, r.Headers[0]) }),
		},
		byCarrierNode: {
			"swap":   swapLike(func(a, b *kgo.Record) bool { return from[line(a)] == from[line(b)] }),
			"schema": change(func(r *kgo.Record) { r.Value[5]++ }),
			"line":   change(func(r *kgo.Record) { r.Value[10] ^= 2 }),
			"short":  change(func(r *kgo.Record) { r.Value = r.Value[:len(r.Value)-3] }),
		},
		totalsTopic: {
			"swap":  swapLike(sameKey),
			"count": replace(`"count":`, `"count":1`), "sum": replace(`"amounts":[`, `"amounts":[1`),
			"other id": replace(`"contribution":"`, `"contribution":"X`),
			"columns":  replace(`"amounts":[`, `"amounts":[0,`),
		},
	} {
		for name, f := range map[string]func([][]*kgo.Record){
			"drop": drop, "drop last": dropLast, "double": double, "swap": swap, "move": move,
			"key": otherKey, "null key": nullKey, "time": otherTime, "header": otherHeader, "no header": noHeader,
			"value longer": longerValue, "null value": nullValue,
			"no partition": func(topic [][]*kgo.Record) { topic[longest(topic)] = nil },
		} {
			if breakages[name] == nil {
				breakages[name] = f
			}
		}
		if topic != deadTopic {
			breakages["more headers"] = moreHeaders
		}
		for name, f := range breakages {
			t.Run(topic+"/"+name, func(t *testing.T) {
				o := correct.clone()
				f(o.topic(topic))
				finds(t, o.check(want, inMemory), topic)
			})
		}
	}
}

// TestOrderControl swaps two records of different carriers: every sum stays right, and only the
// order is not that of the input.
func TestOrderControl(t *testing.T) {
	inputs := inputsOf(t, readRows(t)[:3000], 25)
	want := recompute(inputs, partitions)
	o := drive(t, inputs)
	i := len(o.totals[longest(o.totals)]) / 2
	for sameKey(o.totals[longest(o.totals)][i], o.totals[longest(o.totals)][i+1]) {
		i++
	}
	p := o.totals[longest(o.totals)]
	p[i], p[i+1] = p[i+1], p[i]
	finds(t, o.check(want, inMemory), "order")
}

// TestTwiceControl gives a row to the pipeline a second time. The ledger makes good for it; it has
// to be found nevertheless, in each of the topics that show it.
func TestTwiceControl(t *testing.T) {
	inputs := inputsOf(t, readRows(t)[:3000], 0)
	want := recompute(inputs, partitions)
	again := slices.IndexFunc(inputs, func(in input) bool { return in.Key != nil })
	o := drive(t, append(slices.Clone(inputs), inputs[again]))
	for subject, err := range o.check(want, inMemory) {
		wrong := subject == staleTopic || subject == byCarrierNode || subject == twiceTopic || subject == "order"
		if wrong != (err != nil) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// TestStateControls is [TestControls] for the stores.
func TestStateControls(t *testing.T) {
	inputs := inputsOf(t, readRows(t)[:3000], 25)
	want := recompute(inputs, partitions)
	correct := drive(t, inputs)
	for name, test := range map[string]struct {
		subject  string
		breakage func(o *observed)
	}{
		"plane lost":      {"planes", func(o *observed) { lose(o.planes) }},
		"plane misplaced": {"planes", func(o *observed) { misplace(o.planes) }},
		"plane invented":  {"planes", func(o *observed) { o.planes[0]["N0"] = 2 }},
		"plane older":     {"planes", func(o *observed) { alter(o.planes, func(line *int) { *line-- }) }},
		"planes of a task": {"planes", func(o *observed) {
			o.planes = o.planes[:len(o.planes)-1]
		}},
		"sum lost":      {"sums", func(o *observed) { lose(o.sums) }},
		"sum misplaced": {"sums", func(o *observed) { misplace(o.sums) }},
		"minute":        {"sums", func(o *observed) { alter(o.sums, func(v *carrierTotals) { v.Minutes++ }) }},
		"flight":        {"sums", func(o *observed) { alter(o.sums, func(v *carrierTotals) { v.Flights++ }) }},
		"cancelled": {"sums", func(o *observed) {
			alter(o.sums, func(v *carrierTotals) { v.Cancelled++; v.Diverted-- })
		}},
		"posting lost":      {"contributions", func(o *observed) { lose(o.contributions) }},
		"posting misplaced": {"contributions", func(o *observed) { misplace(o.contributions) }},
		"posting invented": {"contributions", func(o *observed) {
			p, id := any1(o.contributions)
			o.contributions[p][id+"0"] = o.contributions[p][id]
		}},
		"posting's time": {"contributions", func(o *observed) {
			alter(o.contributions, func(v *posting) { v.Timestamp++ })
		}},
		"posting's amount": {"contributions", func(o *observed) {
			alter(o.contributions, func(v *posting) { v.Amounts.Minutes++ })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := correct.clone()
			test.breakage(o)
			finds(t, o.check(want, inMemory), test.subject)
		})
	}
}

// finds asserts that the subject has an error, and no other one has. What breaks by-carrier or
// carrier-totals can break the order between them too.
func finds(t *testing.T, found map[string]error, subject string) {
	t.Helper()
	for s, err := range found {
		switch {
		case s == subject && err == nil:
			t.Errorf("%s: nothing was found", s)
		case s == subject:
			t.Log(strings.SplitN(err.Error(), "\n", 3)[:2])
		case err != nil && (s != "order" || subject != byCarrierNode && subject != totalsTopic):
			t.Errorf("%s was not broken: %v", s, err)
		}
	}
}

// line returns the line header of a record.
func line(r *kgo.Record) string { return string(r.Headers[0].Value) }

func (o *observed) topic(name string) [][]*kgo.Record {
	return map[string][][]*kgo.Record{
		latestTopic: o.latest, staleTopic: o.stale, deadTopic: o.dead, byCarrierNode: o.byCarrier, totalsTopic: o.totals,
	}[name]
}
