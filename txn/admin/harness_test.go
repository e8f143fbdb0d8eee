package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/e2e/virtual"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// harness is a dead-letter topic on a broker on virtual time, with the topic that its dead letters
// come from.
type harness struct {
	t       *testing.T
	ctx     context.Context
	broker  *virtual.Kafka
	cl      *kgo.Client
	client  *Client
	letters *DeadLetters
	driver  *topologytest.Driver
}

const harnessPartitions = 2

func newHarness(t *testing.T) *harness {
	t.Helper()
	network := virtual.NewNetwork(t, 1)
	broker := virtual.NewKafka(t, network, 1, kfake.SeedTopics(harnessPartitions, "in", "dead", "other"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	o := &harness{t: t, ctx: ctx, broker: broker, cl: broker.Client(t, "harness", kgo.RecordPartitioner(kgo.ManualPartitioner()))}
	var err error
	if o.client, err = ConnectWith(ctx, Config{Brokers: broker.Brokers(), Dialer: network.Host("admin").Dial}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.client.Close)
	o.letters = o.client.DeadLetters("dead")
	o.driver = harnessApplication(t, "app", time.Now().Add(-time.Hour))
	return o
}

// harnessApplication is an application in which all that it reads dies.
func harnessApplication(t *testing.T, name string, start time.Time) *topologytest.Driver {
	t.Helper()
	driver, err := topologytest.New(harnessTopology(t, name), topologytest.Partitions(harnessPartitions), topologytest.Clock(start))
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

func harnessTopology(t *testing.T, name string) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder(name, topology.DeadLetters("dead"))
	bytes := topology.Topic("in", schemas.Bytes(), schemas.Bytes())
	topology.From(b, bytes).Peek("judge", func(r topology.Record[[]byte, []byte]) error {
		if strings.HasPrefix(string(r.Value), "poison") {
			return errors.New("it is")
		}
		return topology.Fail(topology.Validation, schemas.Reason("not like this"))
	})
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}

// die lets records die, each "key=value", and writes their dead letters.
func (o *harness) die(records ...string) {
	o.t.Helper()
	for _, text := range records {
		key, value, _ := strings.Cut(text, "=")
		err := o.driver.PipeRaw("in", []byte(key), []byte(value), topologytest.Header("trace", value),
			topologytest.Header("trace", "2"))
		if err != nil {
			o.t.Fatal(err)
		}
	}
	o.post()
}

// dieAgain lets the redriven records die.
func (o *harness) dieAgain(records ...Record) {
	o.t.Helper()
	for _, r := range records {
		opts := []topologytest.PipeOption{topologytest.ToPartition(r.Partition), topologytest.At(r.Timestamp)}
		for _, h := range r.Headers {
			opts = append(opts, topologytest.Header(h.Key, string(h.Value)))
		}
		if err := o.driver.PipeRaw("in", r.Key, r.Value, opts...); err != nil {
			o.t.Fatal(err)
		}
	}
	o.post()
}

func (o *harness) post() {
	o.t.Helper()
	letters, err := o.driver.DeadLetters()
	if err != nil {
		o.t.Fatal(err)
	}
	for _, l := range letters {
		o.write(kafkaRecord(l))
	}
}

func kafkaRecord(l topologytest.DeadLetter) *kgo.Record {
	r := &kgo.Record{Topic: "dead", Partition: l.Partition, Timestamp: time.UnixMilli(l.Timestamp), Key: l.Key, Value: l.Value}
	for _, h := range l.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r
}

func (o *harness) write(r *kgo.Record) {
	o.t.Helper()
	if err := o.cl.ProduceSync(o.ctx, r).FirstErr(); err != nil {
		o.t.Fatal(err)
	}
}

func (o *harness) redrive(opts RedriveOptions) RedriveReport {
	o.t.Helper()
	report, err := o.letters.Redrive(o.ctx, opts)
	if err != nil {
		o.t.Fatal(err)
	}
	return report
}

// read returns what is committed in a topic.
func (o *harness) read(topic string) []Record {
	o.t.Helper()
	c, err := o.client.Read(o.ctx, topic)
	if err != nil {
		o.t.Fatal(err)
	}
	return c.Records
}

// want compares the committed records of a topic, whatever their order between partitions; of one
// key the order counts.
func (o *harness) want(topic string, records ...string) {
	o.t.Helper()
	got := map[string][]string{}
	for _, r := range o.read(topic) {
		got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
	}
	want := map[string][]string{}
	for _, text := range records {
		key, value, _ := strings.Cut(text, "=")
		want[key] = append(want[key], value)
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		o.t.Errorf("topic %s has %v, want %v", topic, got, want)
	}
}

func (o *harness) wantOutcomes(r RedriveReport, want map[RedriveOutcome]int64) {
	o.t.Helper()
	if !maps.Equal(r.Outcomes, want) {
		o.t.Errorf("the outcomes are %v, want %v", r.Outcomes, want)
	}
}
