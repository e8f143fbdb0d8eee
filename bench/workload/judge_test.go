package workload

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

const testPartitions = 3

// pipe runs a workload on the driver, and returns that and the inputs by partition.
func pipe(t *testing.T, w Workload, in Input, n int) (d *topologytest.Driver, inputs [testPartitions][]Record) {
	t.Helper()
	source, err := w.NewSource(in)
	if err != nil {
		t.Fatal(err)
	}
	d = newDriver(t, w)
	for i := range n {
		r := source.Next(golden.Clock + int64(i)*intervalOf(w).Nanoseconds())
		r.Partition = graph.PartitionOf(r.Key, testPartitions)
		if err := d.PipeRaw("in", r.Key, r.Value, topologytest.At(time.UnixMilli(r.Timestamp))); err != nil {
			t.Fatal(err)
		}
		inputs[r.Partition] = append(inputs[r.Partition], r)
	}
	return d, inputs
}

func newDriver(t *testing.T, w Workload) *topologytest.Driver {
	t.Helper()
	top, err := w.Topology("judged", Topics{In: "in", Out: "out", Dead: "dead"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(top, topologytest.Partitions(testPartitions))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// intervalOf is the time between two records of an input. That of Nexmark is so long that windows
// close.
func intervalOf(w Workload) time.Duration {
	if w.Data == Nexmark {
		return 20 * time.Millisecond
	}
	return time.Millisecond
}

// byPartition returns what is in a topic of the driver.
func byPartition(t *testing.T, d *topologytest.Driver, topic string) (records [testPartitions][]Record) {
	t.Helper()
	raw, err := d.OutputRaw(topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range raw {
		p := graph.PartitionOf(r.Key, testPartitions)
		records[p] = append(records[p], Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
	}
	return records
}

// run runs a workload on the driver and returns inputs and outputs by partition.
func run(t *testing.T, w Workload, in Input, n int) (inputs, outputs [testPartitions][]Record) {
	t.Helper()
	d, inputs := pipe(t, w, in, n)
	outputs = byPartition(t, d, "out")
	if dead, err := d.DeadLetters(); err != nil || len(dead) > 0 {
		t.Fatalf("there are %d dead letters, %v", len(dead), err)
	}
	return inputs, outputs
}

// judge judges as a check does.
func judge(w Workload, inputs, outputs [testPartitions][]Record) error {
	if w.Shuffles {
		return judgeShuffled(w.NewShuffled(), inputs, outputs)
	}
	for p := range inputs {
		if err := judgeOrdered(w.NewOrdered(), inputs[p], outputs[p]); err != nil {
			return err
		}
	}
	return nil
}

func judgeOrdered(o Ordered, inputs, outputs []Record) error {
	for _, in := range inputs {
		want, leads, err := o.Input(in)
		if err != nil {
			return err
		}
		if !leads {
			continue
		}
		if len(outputs) == 0 {
			return errMissing
		}
		if err := o.Compare(outputs[0], want); err != nil {
			return err
		}
		outputs = outputs[1:]
	}
	if len(outputs) > 0 {
		return errTooMany
	}
	return nil
}

func judgeShuffled(s Shuffled, inputs, outputs [testPartitions][]Record) error {
	for _, in := range slices.Concat(inputs[:]...) {
		if err := s.Input(in); err != nil {
			return err
		}
	}
	for _, out := range slices.Concat(outputs[:]...) {
		if err := s.Output(out); err != nil {
			return err
		}
	}
	return s.Done()
}

func inputOf(t *testing.T, w Workload) Input {
	t.Helper()
	in := Input{Seed: 5, Keys: 50, Distribution: Zipf, Duplicates: 0.05}
	if w.Data == Flights {
		in.Flights = writeFlights(t, flightRows)
	}
	return in
}

// TestWorkloads: the outputs of the topologies are right for the judges, which share no code with
// them except the statistics of nexmark-q17. The judges find each kind of error in every workload.
func TestWorkloads(t *testing.T) {
	for _, w := range All() {
		t.Run(w.Name, func(t *testing.T) {
			inputs, outputs := run(t, w, inputOf(t, w), 3000)
			if err := judge(w, inputs, outputs); err != nil {
				t.Fatalf("the outputs are wrong: %v", err)
			}
			most := 0 // the partition with most outputs: the carriers are not in all of them
			for p := range outputs {
				if len(outputs[p]) > len(outputs[most]) {
					most = p
				}
			}
			if w.HasClock {
				if clock, err := Clock(outputs[most][0].Value); err != nil || clock < golden.Clock {
					t.Errorf("the clock of an output: %d, %v", clock, err)
				}
			}
			for name, spoil := range spoilers {
				spoiled := outputs
				spoiled[most] = spoil(slices.Clone(outputs[most]))
				if err := judge(w, inputs, spoiled); err == nil {
					t.Errorf("outputs were taken for right: %s", name)
				}
			}
		})
	}
}

// spoilers make the outputs of a partition wrong.
var spoilers = map[string]func(o []Record) []Record{
	"the last one is lost":    func(o []Record) []Record { return o[:len(o)-1] },
	"the last one came twice": func(o []Record) []Record { return append(o, o[len(o)-1]) },
	"one came twice":          func(o []Record) []Record { return slices.Insert(o, len(o)/2, o[len(o)/2]) },
	"one is another one":      func(o []Record) []Record { o[len(o)/2] = o[len(o)/2-1]; return o },
	"the last value is old":   func(o []Record) []Record { o[len(o)-1].Value = o[0].Value; return o },
	"a value has another bit": func(o []Record) []Record {
		r := &o[len(o)/2]
		r.Value = flipped(r.Value, len(r.Value)-1)
		return o
	},
	"a key has another bit": func(o []Record) []Record {
		r := &o[len(o)/2]
		r.Key = flipped(r.Key, KeyBytes-1)
		return o
	},
	"a value is short": func(o []Record) []Record {
		r := &o[len(o)/2]
		r.Value = r.Value[1:]
		return o
	},
}

func flipped(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 1
	return b
}

// TestShuffledSeesOtherRecords: counts that fit and a balance that comes out right do not hide
// outputs of other records.
func TestShuffledSeesOtherRecords(t *testing.T) {
	w, err := Find("flights")
	if err != nil {
		t.Fatal(err)
	}
	inputs, outputs := run(t, w, inputOf(t, w), 300)
	for p := range outputs {
		if len(outputs[p]) < 3 {
			continue
		}
		out := outputs[p][1]
		out.Value = slices.Clone(out.Value)
		binary.BigEndian.PutUint64(out.Value[clockAt:], uint64(clockOf(out.Value)+1))
		outputs[p][1] = out
		if err := judge(w, inputs, outputs); !errors.Is(err, errOthers) {
			t.Errorf("an output of another record: %v, want %v", err, errOthers)
		}
		return
	}
	t.Fatal("no partition has enough outputs")
}

// TestUndo: a judge that has taken an input back is as it was before.
func TestUndo(t *testing.T) {
	for _, name := range []string{"count", "ledger"} {
		w, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		o := w.NewOrdered()
		in := Record{Key: golden.Account[:], Value: golden.Append(nil)}
		if _, leads, err := o.Input(in); err != nil || !leads {
			t.Fatalf("the first input: %v, %v", leads, err)
		}
		second := golden
		second.ID = EventID(99)
		if _, _, err := o.Input(Record{Key: golden.Account[:], Value: second.Append(nil)}); err != nil {
			t.Fatal(err)
		}
		o.Undo()
		want := Sum{Count: 1}
		if name == "ledger" {
			want.Balance = golden.Amount
			if o.Events() != 1 {
				t.Errorf("%s: %d events", name, o.Events())
			}
		}
		if got := o.Sums()[golden.Account]; got != want {
			t.Errorf("%s: after the undo: %+v, want %+v", name, got, want)
		}
		first := w.NewOrdered()
		if _, _, err := first.Input(in); err != nil {
			t.Fatal(err)
		}
		first.Undo()
		if len(first.Sums()) > 0 || first.Events() > 0 {
			t.Errorf("%s: the undo of the only input leaves %v", name, first.Sums())
		}
	}
}
