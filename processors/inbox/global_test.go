package inbox_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/evidence"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

func globally() inbox.Option { return inbox.Globally(schemas.String(), schemas.JSON[Payment]()) }

// TestGlobally: the same id in two partitions and under several keys is found, its records keep
// key, time, headers and payload, and accepted ones are in the task of their key again.
func TestGlobally(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		in := routed(b, globally())
		seen := topology.KeyValueStore("by-key", schemas.String(), schemas.String())
		keep := topology.Stateful(in.Accepted(), "keep", seen)
		keep.Process(func(t *topology.Setup) (topology.Handler[string, Payment], error) {
			seen := seen.In(t)
			return func(_ *topology.Context, r payment) error { return seen.Put(r.Key, r.Value.ID) }, nil
		})
	}, topologytest.Partitions(4))
	pipe := func(partition int32, key, value string) {
		t.Helper()
		d.Pipe("payments", key, value, topologytest.ToPartition(partition), at(7), topologytest.Header("trace", "1"))
	}
	pipe(0, "k", `{"id":"a","amount":1}`)
	r := d.Want("accepted", `{"id":"a","amount":1}`)[0]
	if string(r.Key) != "k" || len(r.Headers) != 1 || r.Headers[0].Key != "trace" || r.Timestamp != 1_700_000_420_000 {
		t.Errorf("the accepted record is %+v", r)
	}
	pipe(1, "k", `{"id":"a","amount":1}`)
	pipe(2, "other", `{"amount":1, "id":"a"}`)
	dups := d.Want("duplicates", `{"id":"a","amount":1}`, `{"id":"a","amount":1}`)
	if string(dups[0].Key) != "k" || string(dups[1].Key) != "other" {
		t.Errorf("the duplicates have keys %s and %s", dups[0].Key, dups[1].Key)
	}
	pipe(3, "", `{"id":"a","amount":2}`)
	if r := d.Want("conflicts", `{"id":"a","amount":2}`)[0]; r.Key == nil || len(r.Key) != 0 {
		t.Errorf("the conflict has key %q", r.Key)
	}
	for i := range 20 {
		pipe(int32(i%4), fmt.Sprint("key-", i%5), fmt.Sprintf(`{"id":"%d","amount":1}`, i))
	}
	d.Want("dead")
	d.WantCounts("inbox.accepted=21 inbox.conflicts=1 inbox.duplicates=2")
	ids := 0
	for p := range int32(4) {
		for id := range d.Rows("inbox", p) {
			ids++
			if want := graph.PartitionOf([]byte(id), 4); want != p {
				t.Errorf("%s is in partition %d, want %d", id, p, want)
			}
		}
		for key := range d.Rows("by-key", p) {
			if want := graph.PartitionOf([]byte(key), 4); want != p {
				t.Errorf("key %s is in partition %d, want %d", key, p, want)
			}
		}
	}
	if ids != 21 {
		t.Errorf("there are %d ids", ids)
	}
}

// TestByKeyMissesOtherKeys is the control: what Globally is for is not found without it.
func TestByKeyMissesOtherKeys(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b, inbox.ByKey()) }, topologytest.Partitions(2))
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, topologytest.ToPartition(0))
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, topologytest.ToPartition(1))
	d.WantCounts("inbox.accepted=2")
}

// TestGloballyFailures: what has no usable id fails before the detour, as it came; a missing id
// that is allowed goes along; and what fails behind has its value as it was.
func TestGloballyFailures(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Forever(), globally()).Accepted().Into(acceptedTopic)
	})
	d.Pipe("payments", "k", `{"amount":1}`)
	letter := d.WantDeadLetter("inbox-by-id", topology.Validation, "the id is missing")
	if letter.Info.Origin.Topic != "payments" {
		t.Errorf("the dead letter is of topic %s", letter.Info.Origin.Topic)
	}
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Pipe("payments", "k", `{"id":"a","amount":2}`)
	d.WantDeadLetter("inbox", topology.Conflict, "the id was seen before with another payload")

	d = processortest.New(t, func(b *topology.Builder) { routed(b, globally(), inbox.AllowMissingID(), inbox.StayByID()) })
	d.Pipe("payments", "k", `{"amount":1}`)
	if r := d.Want("accepted", `{"id":"","amount":1}`)[0]; string(r.Key) != "k" {
		t.Errorf("the key is %q", r.Key)
	}
	d.WantCounts("inbox.missing=1")
}

// TestGloballyKeepsOrigin: with KeepOrigin the inbox and what is behind it know of which record of
// the input each record is: evidence and dead letters (G3) name it. Requirement J1.
func TestGloballyKeepsOrigin(t *testing.T) {
	for name, test := range map[string]struct {
		opts             []inbox.Option
		evidence, letter string
	}{
		"kept": {[]inbox.Option{globally(), inbox.KeepOrigin()}, "payments[1]@0 payments[1]@0 payments[1]@0", "payments[0]@0"},
		"lost": {[]inbox.Option{globally()}, "[0]@0 [0]@0 app-inbox-back-repartition[0]@0", "[0]@0"},
	} {
		t.Run(name, func(t *testing.T) {
			audit := evidence.Topic("audit")
			behind := ""
			d := processortest.New(t, func(b *topology.Builder) {
				in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Kept(test.opts...)...)
				evidence.Record(in.Decisions(), "inbox-audit", audit)
				evidence.Record(inbox.Dedupe(in.Accepted(), "second", paymentID, inbox.Forever()).Decisions(), "second-audit", audit)
				in.Accepted().Peek("see", func(r payment) error {
					topic, partition, offset := r.Source()
					behind = fmt.Sprintf("%s[%d]@%d", topic, partition, offset)
					return nil
				})
			}, topologytest.Partitions(2))
			id := ""
			for n := 0; id == "" || graph.PartitionOf([]byte(id), 2) != 0 || graph.PartitionOf([]byte(id+"key"), 2) != 0; n++ {
				id = fmt.Sprint(n) // both detours lead to partition 0
			}
			d.Pipe("payments", id+"key", `{"id":"`+id+`","amount":1}`, topologytest.ToPartition(1))
			var at []string
			for _, r := range d.Take("audit") {
				e, err := evidence.Decode(r.Key, r.Value)
				if err != nil {
					t.Fatal(err)
				}
				at = append(at, fmt.Sprintf("%s[%d]@%d", e.Topic, e.Partition, e.Offset))
			}
			if got := strings.Join(append(at, behind), " "); got != test.evidence {
				t.Errorf("evidence, and a node behind, name %s, want %s", got, test.evidence)
			}
			d.Pipe("payments", "k", `{"id":"`+id+`","amount":2}`, topologytest.ToPartition(0))
			l := d.WantDeadLetter("inbox", topology.Conflict, "the id was seen before with another payload")
			got := fmt.Sprintf("%s[%d]@%d", l.Info.Source.Topic, l.Info.Source.Partition, l.Info.Source.Offset)
			if got != test.letter || l.Info.Origin.Topic != "app-inbox-repartition" {
				t.Errorf("the letter names %s, and %s in %s, want %s", got, l.Info.Source.Topic, l.Info.Origin.Topic, test.letter)
			}
		})
	}
}

// TestGloballyKeepsNulls: null keys and values come back as nulls, and empty ones as empty ones.
func TestGloballyKeepsNulls(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		in := topology.Topic("payments", schemas.Bytes(), schemas.Bytes())
		id := func(r topology.Record[[]byte, []byte]) (string, error) {
			value, _ := r.Header("id")
			return string(value), nil
		}
		inbox.Dedupe(topology.From(b, in), "inbox", id, inbox.Forever(), inbox.Globally(schemas.Bytes(), schemas.Bytes())).Accepted().
			Into(topology.Topic("out", schemas.Bytes(), schemas.Bytes()))
	})
	for i, kv := range [][2][]byte{{nil, nil}, {{}, {}}, {[]byte("k"), nil}} {
		if err := d.PipeRaw("payments", kv[0], kv[1], topologytest.Header("id", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		r := d.Take("out")[0]
		if (r.Key == nil) != (kv[0] == nil) || (r.Value == nil) != (kv[1] == nil) || string(r.Key) != string(kv[0]) {
			t.Errorf("%q came back as %q, %q", kv, r.Key, r.Value)
		}
	}
}

// TestGloballyDescribed: the topics of the detour have stable names, and its retention is compared
// with the topic before it.
func TestGloballyDescribed(t *testing.T) {
	build := func(opts ...inbox.Option) *topology.Topology {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		routed(b, opts...)
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	top := build(globally(), inbox.Retain(time.Hour))
	internal := "app-inbox-back-repartition app-inbox-changelog app-inbox-repartition"
	if got := strings.Join(top.InternalTopics(), " "); got != internal {
		t.Error(got)
	}
	if got := fmt.Sprint(top.DedupeWindows()); got != "[{inbox 1h0m0s false [payments]}]" {
		t.Error(got)
	}
	if build(globally()).Fingerprint() != build(globally(), inbox.KeepOrigin()).Fingerprint() {
		t.Error("KeepOrigin makes another topology")
	}
	stays := build(globally(), inbox.StayByID())
	if got := strings.Join(stays.InternalTopics(), " "); got != "app-inbox-changelog app-inbox-repartition" {
		t.Error(got)
	}
	if build().Fingerprint() != build(inbox.ByKey()).Fingerprint() {
		t.Error("ByKey is not the default")
	}
}

// TestGloballyRestarts: the rows are those of the inbox without a detour, and stay.
func TestGloballyRestarts(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b, globally()) })
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	rows := d.Rows("inbox", 0)
	d.Restart()
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Want("duplicates", `{"id":"a","amount":1}`)
	if now := d.Rows("inbox", 0); !maps.Equal(now, rows) || len(rows) != 1 {
		t.Errorf("the rows are %x, they were %x", now, rows)
	}
}
