package workload

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/onceward/onceward/topology/topologytest"
)

// TestBidsStay holds the generator to the sizes of its records and to the bytes of its bids,
// because published figures depend on them.
func TestBidsStay(t *testing.T) {
	source := newAuctions(Input{Seed: 1})
	counts, digest := map[byte]int{}, uint64(0)
	for i := range 5000 {
		r := source.Next(golden.Clock + int64(i)*1e6)
		kind := r.Value[0]
		counts[kind]++
		if want := []int{personBytes, auctionBytes, bidBytes}[kind]; len(r.Value) != want {
			t.Fatalf("record %d, of kind %d, has %d bytes, want %d", i, kind, len(r.Value), want)
		}
		if kind == nexmarkBid {
			digest = digest*31 + hashOf(r.Key) + hashOf(r.Value)
		}
	}
	if counts[nexmarkPerson] != 100 || counts[nexmarkAuction] != 300 || counts[nexmarkBid] != 4600 {
		t.Errorf("persons, auctions and bids: %v", counts)
	}
	if want := uint64(0xc93df2e8ae61ee39); digest != want {
		t.Errorf("the digest of the bids is %#x, want %#x", digest, want)
	}
}

// TestPersonsAndAuctions: the fields of persons and auctions have the proportions of the original.
func TestPersonsAndAuctions(t *testing.T) {
	const events, interval = 50_000, time.Millisecond
	source := newAuctions(Input{Seed: 3})
	var persons, local, sold, hot, leads int
	var length time.Duration
	perCategory := map[uint64]int{}
	for i := range events {
		r := source.Next(golden.Clock + int64(i)*interval.Nanoseconds())
		switch kindOf(r.Value) {
		case nexmarkPerson:
			p, err := decodePerson(r.Value)
			if err != nil || p.id != uint64(firstPerson+persons) || p.at != r.Timestamp || p.name[0] == 0 || p.city[0] == 0 {
				t.Fatalf("person %d is %+v, %v", persons, p, err)
			}
			persons++
			if isLocal(p.state) {
				local++
			}
		case nexmarkAuction:
			a, err := decodeAuction(r.Value)
			if err != nil || a.id != uint64(firstAuction+sold) || a.at != r.Timestamp || a.expires <= a.at || a.reserve <= a.initial ||
				a.seller < firstPerson {
				t.Fatalf("auction %d is %+v, %v", sold, a, err)
			}
			sold++
			perCategory[a.category]++
			length += time.Duration(a.expires-a.at) * time.Millisecond
			last := uint64(persons - 1)
			if a.seller == firstPerson+last/100*100 {
				hot++
			}
			if a.seller > firstPerson+last {
				leads++
			}
		}
	}
	between := func(what string, got, low, high int) {
		if got < low || got > high {
			t.Errorf("%s: %d, want %d to %d", what, got, low, high)
		}
	}
	between("persons", persons, 1000, 1000)
	between("auctions", sold, 3000, 3000)
	between("persons of the states of q3", local, 430, 570)
	between("auctions of hot sellers", hot, 2100, 2400)
	between("auctions of sellers who are not there yet", leads, 5, 80)
	between("categories", len(perCategory), categories, categories)
	for category, n := range perCategory {
		between("auctions of a category", n, 500, 700)
		between("category", int(category), firstCategory, firstCategory+categories-1)
	}
	// 100 auctions begin in 1666 events.
	between("mean length in milliseconds", int(length.Milliseconds())/sold, 1500, 1850)

	for _, value := range [][]byte{nil, {nexmarkPerson}, {nexmarkAuction}, make([]byte, 40), bytes.Repeat([]byte{9}, 500)} {
		_, personErr := decodePerson(value)
		_, auctionErr := decodeAuction(value)
		if personErr == nil || auctionErr == nil {
			t.Errorf("%d bytes were taken for a person or an auction", len(value))
		}
	}
}

// mustFind returns the workload of that name.
func mustFind(t *testing.T, name string) Workload {
	t.Helper()
	w, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// runApart is run with one partition of the input after the other. So the records behind a
// repartition topic are as far out of order as they can be.
func runApart(t *testing.T, w Workload, n int) (inputs, outputs [testPartitions][]Record) {
	t.Helper()
	_, inputs = pipe(t, mustFind(t, "nexmark-q0"), inputOf(t, w), n)
	d := newDriver(t, w)
	for _, p := range []int{2, 0, 1} {
		for _, r := range inputs[p] {
			if err := d.PipeRaw("in", r.Key, r.Value, topologytest.At(time.UnixMilli(r.Timestamp))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return inputs, byPartition(t, d, "out")
}

// statefulQueries are the queries with joins and windows.
var statefulQueries = []string{"nexmark-q3", "nexmark-q4", "nexmark-q5", "nexmark-q7", "nexmark-q8", "nexmark-q9"}

// TestQueriesInAnyOrder: the results of queries do not depend on the order in which the partitions
// of the input are read.
func TestQueriesInAnyOrder(t *testing.T) {
	for _, name := range statefulQueries {
		w := mustFind(t, name)
		inputs, outputs := runApart(t, w, 3000)
		if err := judge(w, inputs, outputs); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLateRecordsAreSeen is the control of TestQueriesInAnyOrder: without a grace that lasts for
// the whole input, records are late, and the judges see it.
func TestLateRecordsAreSeen(t *testing.T) {
	hot, sellers := mustFind(t, "nexmark-q5"), mustFind(t, "nexmark-q8")
	hot.build, sellers.build = hotItems(hotWindows), newSellers(0)
	for _, w := range []Workload{hot, sellers} {
		inputs, outputs := runApart(t, w, 3000)
		if err := judge(w, inputs, outputs); !errors.Is(err, errMissing) && !errors.Is(err, errValue) {
			t.Errorf("%s without a grace: %v", w.Name, err)
		}
	}
}

// wrongOutputs are ways to be wrong that belong to a query, beside those of all workloads. Each one
// changes the last output of a partition.
var wrongOutputs = []struct {
	query, name string
	spoil       func(r Record, inputs []Record) Record
	want        error
}{
	{"nexmark-q3", "another auction", changed(7), errValue},
	{"nexmark-q3", "another name", changed(8), errValue},
	{"nexmark-q3", "an event that is no auction", toKey(1), errKey},
	{"nexmark-q4", "another number of auctions", changed(7), errValue},
	{"nexmark-q4", "another sum", changed(15), errValue},
	{"nexmark-q4", "another price", changed(31), errOthers},
	{"nexmark-q4", "another category", toKey(1), errKey},
	{"nexmark-q5", "another number of bids", changed(7), nil},
	{"nexmark-q5", "another window", toKey(hotEveryMillis), nil},
	{"nexmark-q5", "a window without bids", toKey(1_000_000), errWindow},
	{"nexmark-q5", "one auction too many", func(r Record, _ []Record) Record {
		r.Value = append(slices.Clone(r.Value), r.Value[8:16]...)
		return r
	}, errValue},
	{"nexmark-q7", "another window", toKey(-periodMillis), errOthers},
	{"nexmark-q7", "another number of partitions", changed(7), errCount},
	{"nexmark-q7", "a window that is open", toKey(1_000_000), errWindow},
	{"nexmark-q7", "a lower bid of the window", func(r Record, inputs []Record) Record {
		highest, _ := decodeBid(r.Value[8:])
		return withBid(r, 8, inputs, func(b bid) bool { return periodOf(b.at) == periodOf(highest.at) && b.price < highest.price })
	}, errOthers},
	{"nexmark-q8", "another window", func(r Record, _ []Record) Record {
		r.Value = slices.Clone(r.Value)
		start := binary.BigEndian.Uint64(r.Value[personTextBytes:])
		binary.BigEndian.PutUint64(r.Value[personTextBytes:], start+periodMillis)
		return r
	}, errValue},
	{"nexmark-q8", "another person", toKey(100_000), errKey},
	{"nexmark-q9", "a bid that came late", func(_ Record, inputs []Record) Record {
		for _, in := range inputs {
			a, err := decodeAuction(in.Value)
			if err != nil {
				continue
			}
			r := Record{Key: binary.BigEndian.AppendUint64(nil, a.id), Value: in.Value}
			r = withBid(r, auctionBytes, inputs, func(b bid) bool { return b.auction == a.id && b.at > a.expires })
			if r.Key != nil {
				return r
			}
		}
		return Record{}
	}, errOthers},
	{"nexmark-q9", "a bid for another auction", func(r Record, inputs []Record) Record {
		a, _ := decodeAuction(r.Value)
		return withBid(r, auctionBytes, inputs, func(b bid) bool { return b.auction != a.id })
	}, errOthers},
	{"nexmark-q9", "another auction", changed(8), errOthers},
}

// changed flips a bit of a byte of the value.
func changed(at int) func(r Record, _ []Record) Record {
	return func(r Record, _ []Record) Record {
		r.Value = flipped(r.Value, at)
		return r
	}
}

// toKey adds to the number that is the key.
func toKey(n int64) func(r Record, _ []Record) Record {
	return func(r Record, _ []Record) Record {
		r.Key = binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(r.Key)+uint64(n))
		return r
	}
}

// withBid returns the output with another bid of the input behind the first bytes of its value.
func withBid(r Record, at int, inputs []Record, is func(b bid) bool) Record {
	for _, in := range inputs {
		if b, err := decodeBid(in.Value); err == nil && is(b) {
			r.Value = slices.Concat(r.Value[:at], in.Value)
			return r
		}
	}
	return Record{} // no judge names this error
}

// TestQueriesSeeWrongOutputs: the judge of each query finds a missing, a doubled and a wrong
// output.
func TestQueriesSeeWrongOutputs(t *testing.T) {
	for _, name := range statefulQueries {
		w := mustFind(t, name)
		inputs, outputs := run(t, w, inputOf(t, w), 3000)
		p := slices.IndexFunc(outputs[:], func(o []Record) bool { return len(o) > 1 })
		last := len(outputs[p]) - 1
		with := func(o ...Record) error {
			spoiled := outputs
			spoiled[p] = slices.Concat(outputs[p][:last], o)
			return judge(w, inputs, spoiled)
		}
		r := outputs[p][last]
		if err := with(); !errors.Is(err, errMissing) {
			t.Errorf("%s: a missing output: %v, want %v", name, err, errMissing)
		}
		if err := with(r, r); !errors.Is(err, errTooMany) && !errors.Is(err, errValue) && !errors.Is(err, errCount) {
			t.Errorf("%s: a doubled output: %v", name, err)
		}
		for _, wrong := range wrongOutputs {
			if wrong.query != name {
				continue
			}
			err := with(wrong.spoil(r, slices.Concat(inputs[:]...)))
			if err == nil || wrong.want != nil && !errors.Is(err, wrong.want) {
				t.Errorf("%s: %s: %v, want %v", name, wrong.name, err, wrong.want)
			}
		}
	}
}

// TestTimeOfBidsGoesBack: what a partition has closed is not defined for such an input.
func TestTimeOfBidsGoesBack(t *testing.T) {
	j := newHighestBidsJudge()
	for i, want := range []error{nil, errTimeBack} {
		err := j.Input(Record{Value: bid{auction: 1, bidder: 1, price: 1, at: int64(1000 - i)}.append(nil)})
		if !errors.Is(err, want) {
			t.Errorf("bid %d: %v, want %v", i, err, want)
		}
	}
}
