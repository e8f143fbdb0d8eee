package workload

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/topology/topologytest"
)

// TestSidesVary: the inputs of joins and sessions have what makes the workloads differ from simpler
// ones.
func TestSidesVary(t *testing.T) {
	const n = 3000
	count := func(name string) (inputs []Record, outputs int) {
		w := mustFind(t, name)
		in, out := run(t, w, w.Uses(inputOf(t, w)), n)
		return slices.Concat(in[:]...), len(slices.Concat(out[:]...))
	}
	// Of each kind of record some have no output, and most have one.
	inputs, joined := count("stream-table")
	rows, late, newest := 0, 0, int64(0)
	slices.SortFunc(inputs, func(a, b Record) int { return int(sidedOf(t, a).number) - int(sidedOf(t, b).number) })
	for _, r := range inputs {
		if sidedOf(t, r).side == rightSide {
			rows++
		}
		if r.Timestamp < newest {
			late++
		}
		newest = max(newest, r.Timestamp)
	}
	if rows < n/20 || joined < n/2 || joined >= n-rows {
		t.Errorf("of %d events and %d rows %d are joined", n-rows, rows, joined)
	}
	if late < n/20 {
		t.Errorf("%d records are late", late)
	}
	if _, pairs := count("stream-stream"); pairs < n/4 || pairs > 9*n/20 {
		t.Errorf("%d pairs of %d are joined", pairs, n/2)
	}
	inputs, _ = count("foreign-key")
	moved, last := 0, map[Account]Account{}
	for _, r := range inputs {
		s := sidedOf(t, r)
		if s.side != leftSide {
			continue
		}
		if before, there := last[s.key]; there && before != s.reference {
			moved++
		}
		last[s.key] = s.reference
	}
	if moved < n/20 || moved > n/2 {
		t.Errorf("%d rows name another row than before", moved)
	}
}

func sidedOf(t *testing.T, r Record) sidedRecord {
	t.Helper()
	s, err := decodeSided(r.Key, r.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSidedSourceIsDeterministic: an input is the same however fast it is written, but for the time
// of its first record.
func TestSidedSourceIsDeterministic(t *testing.T) {
	for _, w := range joins() {
		fast, err := w.NewSource(inputOf(t, w))
		if err != nil {
			t.Fatal(err)
		}
		slow, err := w.NewSource(inputOf(t, w))
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(500) {
			a, b := fast.Next(golden.Clock+i), slow.Next(golden.Clock+i*i*1e6)
			if string(a.Key) != string(b.Key) || string(a.Value) != string(b.Value) || a.Timestamp != b.Timestamp {
				t.Fatalf("%s: record %d is %v and %v", w.Name, i, a, b)
			}
		}
		if _, err := w.NewSource(Input{Keys: 0, Distribution: Uniform}); err == nil {
			t.Errorf("%s: an input without keys was made", w.Name)
		}
	}
}

// sidedInput makes a record by hand.
func sidedInput(key uint64, side byte, number uint64, amount int64, reference uint64, ms int64) Record {
	r := sidedRecord{key: AccountOf(key), side: side, number: number, amount: amount, reference: AccountOf(reference)}
	value := append(r.appendValue(nil), make([]byte, sidedBytes-sidedPaddingAt)...)
	return Record{Key: r.key[:], Value: value, Timestamp: ms}
}

// fields encodes an output by hand.
func fields(values ...int64) (out []byte) {
	for _, v := range values {
		out = binary.BigEndian.AppendUint64(out, uint64(v))
	}
	return out
}

// TestSidesByHand compares what topologies and judges say of a few records with what is known.
func TestSidesByHand(t *testing.T) {
	const at = 1_000_000
	type output struct {
		value []byte
		ms    int64
	}
	for _, tc := range []struct {
		name   string
		inputs []Record
		want   []output
	}{
		{"stream-table", []Record{
			sidedInput(1, leftSide, 0, 7, 0, at), sidedInput(1, rightSide, 1, 8, 0, at+2000), sidedInput(1, leftSide, 2, 9, 0, at+1000),
			sidedInput(2, leftSide, 3, 1, 0, at+3000), sidedInput(1, rightSide, 4, 3, 0, at+3000), sidedInput(1, leftSide, 5, 2, 0, at+3000),
		}, []output{{fields(2, 9, 1, 8), at + 1000}, {fields(5, 2, 4, 3), at + 3000}}},
		{"stream-stream", []Record{
			sidedInput(1, leftSide, 0, 7, 0, at), sidedInput(1, rightSide, 1, 8, 0, at+10_000), sidedInput(1, rightSide, 2, 8, 0, at+10_001),
			sidedInput(2, rightSide, 3, 1, 0, at+10_000), sidedInput(2, leftSide, 4, 2, 0, at+15_000), sidedInput(2, leftSide, 5, 2, 0, at+15_001),
			sidedInput(3, leftSide, 6, 4, 0, at+15_000), sidedInput(3, rightSide, 7, 5, 0, at+10_001),
		}, []output{
			{fields(0, 7, 1, 8), at + 10_000}, {fields(4, 2, 3, 1), at + 15_000}, {fields(6, 4, 7, 5), at + 15_000},
		}},
		{"sessions", []Record{
			sidedInput(1, leftSide, 0, 7, 0, at), sidedInput(1, rightSide, 1, 8, 0, at+10_001), sidedInput(2, leftSide, 2, 1, 0, at+10_001),
			sidedInput(1, leftSide, 3, 2, 0, at+6000), sidedInput(1, leftSide, 4, 3, 0, at+20_001), sidedInput(1, leftSide, 5, 4, 0, at+30_002),
		}, []output{
			{fields(at, at, 1, 7), at},
			{fields(at+10_001, at+10_001, 1, 8), at + 10_001},
			{fields(at+10_001, at+10_001, 1, 1), at + 10_001},
			{fields(at, at+10_001, 3, 17), at + 10_001}, // two sessions become one
			{fields(at, at+20_001, 4, 20), at + 20_001},
			{fields(at+30_002, at+30_002, 1, 4), at + 30_002},
		}},
		{"foreign-key", []Record{
			sidedInput(1, leftSide, 0, 7, 9, at), sidedInput(9, rightSide, 1, 8, 0, at), sidedInput(2, leftSide, 2, 1, 9, at),
			sidedInput(9, rightSide, 3, 2, 0, at), sidedInput(1, leftSide, 4, 5, 8, at),
		}, []output{
			{fields(0, 7, 1, 8), at}, {fields(2, 1, 1, 8), at}, {fields(0, 7, 3, 2), at}, {fields(2, 1, 3, 2), at}, {nil, at},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := mustFind(t, tc.name)
			top, err := w.Topology("judged", Topics{In: "in", Out: "out", Dead: "dead"})
			if err != nil {
				t.Fatal(err)
			}
			d, err := topologytest.New(top, topologytest.Partitions(1))
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range tc.inputs {
				if err := d.PipeRaw("in", r.Key, r.Value, topologytest.At(time.UnixMilli(r.Timestamp))); err != nil {
					t.Fatal(err)
				}
			}
			raw, err := d.OutputRaw("out")
			if err != nil {
				t.Fatal(err)
			}
			var outputs []Record
			for i, r := range raw {
				outputs = append(outputs, Record{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
				if i >= len(tc.want) || !slices.Equal(r.Value, tc.want[i].value) || r.Timestamp != tc.want[i].ms {
					t.Errorf("output %d is % x at %d", i, r.Value, r.Timestamp)
				}
			}
			if len(raw) != len(tc.want) {
				t.Errorf("there are %d outputs, want %d", len(raw), len(tc.want))
			}
			if w.Shuffles {
				err = judgeShuffled(w.NewShuffled(), [testPartitions][]Record{tc.inputs}, [testPartitions][]Record{outputs})
			} else {
				err = judgeOrdered(w.NewOrdered(), tc.inputs, outputs)
			}
			if err != nil {
				t.Errorf("the judge says %v", err)
			}
		})
	}
}

// TestReferenceJudge: what the judge of a join by a foreign key takes, and what it finds.
func TestReferenceJudge(t *testing.T) {
	inputs := []Record{
		sidedInput(8, rightSide, 0, 1, 0, 0), sidedInput(9, rightSide, 1, 2, 0, 0), sidedInput(1, leftSide, 2, 3, 8, 0),
		sidedInput(1, leftSide, 3, 4, 9, 0), sidedInput(9, rightSide, 4, 5, 0, 0), sidedInput(2, leftSide, 5, 6, 7, 0),
	}
	out := func(key uint64, values ...int64) Record {
		account := AccountOf(key)
		return Record{Key: account[:], Value: fields(values...)}
	}
	first, second, last := out(1, 2, 3, 0, 1), out(1, 3, 4, 1, 2), out(1, 3, 4, 4, 5)
	for name, tc := range map[string]struct {
		outputs []Record
		want    error
	}{
		"every change":                       {[]Record{first, second, last}, nil},
		"the last change alone":              {[]Record{last}, nil},
		"deletes between":                    {[]Record{out(1), first, out(1), out(2), last}, nil},
		"no output":                          {nil, errMissing},
		"the last change is missing":         {[]Record{first, second}, errMissing},
		"a result is deleted at last":        {[]Record{first, second, last, out(1)}, errMissing},
		"the last one twice":                 {[]Record{last, last}, errOrder},
		"one twice, with a delete between":   {[]Record{first, out(1), first, last}, errOrder},
		"an older row of the left side":      {[]Record{second, first, last}, errOrder},
		"an older row of the right side":     {[]Record{last, second}, errOrder},
		"a row that is not named":            {[]Record{out(1, 3, 4, 0, 1), last}, errValue},
		"a result without a row":             {[]Record{last, out(2, 5, 6, 0, 1)}, errValue},
		"another amount of the left side":    {[]Record{out(1, 3, 5, 4, 5)}, errOthers},
		"another amount of the right side":   {[]Record{out(1, 3, 4, 4, 6)}, errOthers},
		"the sides exchanged":                {[]Record{out(1, 4, 5, 3, 4)}, errOthers},
		"the row of another key":             {[]Record{last, out(2, 3, 4, 4, 5)}, errOthers},
		"a row that is not there":            {[]Record{out(1, 77, 4, 4, 5)}, errOthers},
		"a delete of a key that is no row's": {[]Record{last, out(9)}, errOthers},
		"a short value":                      {[]Record{out(1, 3, 4, 4)}, errLength},
	} {
		err := judgeShuffled(newReferenceJudge(), [testPartitions][]Record{inputs}, [testPartitions][]Record{tc.outputs})
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// TestSidedJudgesTakeNoOtherInput: judges refuse records of another input, and a record so late
// that an outcome would depend on how tasks move.
func TestSidedJudgesTakeNoOtherInput(t *testing.T) {
	for _, w := range joins() {
		take := func(r Record) error {
			if w.Shuffles {
				return w.NewShuffled().Input(r)
			}
			_, _, err := w.NewOrdered().Input(r)
			return err
		}
		short, other := sidedInput(1, leftSide, 0, 1, 0, 0), sidedInput(1, 'x', 0, 1, 0, 0)
		short.Value = short.Value[1:]
		if take(short) == nil || take(other) == nil {
			t.Errorf("%s: a record of another input was taken", w.Name)
		}
	}
	o := mustFind(t, "sessions").NewOrdered()
	if _, _, err := o.Input(sidedInput(1, leftSide, 0, 1, 0, 10_000)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.Input(sidedInput(1, leftSide, 1, 1, 0, 5000)); err != nil {
		t.Errorf("a record that is late: %v", err)
	}
	if _, _, err := o.Input(sidedInput(1, leftSide, 2, 1, 0, 4999)); err == nil {
		t.Error("a record that is too late was taken")
	}
}

// TestUses: the settings that a report shows are those that an input has.
func TestUses(t *testing.T) {
	all := Input{Seed: 1, Keys: 2, Distribution: Zipf, Duplicates: 0.1}
	for name, want := range map[string]Input{
		"ledger": all, "sessions": {Seed: 1, Keys: 2, Distribution: Zipf}, "stream-stream": {Seed: 1, Keys: 2},
	} {
		if got := mustFind(t, name).Uses(all); got != want {
			t.Errorf("%s uses %+v, want %+v", name, got, want)
		}
	}
}
