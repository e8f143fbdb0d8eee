package workload

import (
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"testing"
)

func makeGenerator(t *testing.T, name string, in Input) *generator {
	t.Helper()
	w, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	g, err := w.newGenerator(in)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// events returns the first n records of a generator. The clock of the i-th is i.
func events(g *generator, n int) []Event {
	out := make([]Event, n)
	for i := range out {
		out[i] = g.next(int64(i))
	}
	return out
}

func TestGeneratorIsDeterministic(t *testing.T) {
	in := Input{Seed: 7, Keys: 100, Distribution: Zipf, Duplicates: 0.1}
	a, b := events(makeGenerator(t, "ledger", in), 5000), events(makeGenerator(t, "ledger", in), 5000)
	in.Seed++
	c := events(makeGenerator(t, "ledger", in), 5000)
	ids := map[[IDBytes]byte]bool{}
	same := 0
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("record %d differs with the same seed", i)
		}
		if a[i].ID == c[i].ID {
			same++
		}
		ids[a[i].ID] = true
	}
	if same > 0 {
		t.Errorf("with another seed, %d ids are the same", same)
	}
	if got := len(ids); got < 4300 || got > 4700 {
		t.Errorf("%d of 5000 records are events, want about 4500", got)
	}
}

// TestDuplicatesAreCopies: a duplicate has everything of its event, the clock included.
func TestDuplicatesAreCopies(t *testing.T) {
	first := map[[IDBytes]byte]Event{}
	for i, e := range events(makeGenerator(t, "ledger", Input{Seed: 1, Keys: 10, Distribution: Uniform, Duplicates: 0.5}), 20_000) {
		before, duplicate := first[e.ID]
		if duplicate && before != e {
			t.Fatalf("record %d is no copy", i)
		}
		if !duplicate && e.Clock != int64(i) {
			t.Fatalf("record %d is new and has the clock %d", i, e.Clock)
		}
		first[e.ID] = e
	}
}

// TestDistributions: uniform keys come equally often; of Zipf's, one of a hundred has most.
func TestDistributions(t *testing.T) {
	const n, keys = 100_000, 1000
	for d, inTheFirst := range map[Distribution][2]float64{Uniform: {0.009, 0.016}, Zipf: {0.3, 0.7}} {
		counts := map[Account]int{}
		for _, e := range events(makeGenerator(t, "count", Input{Seed: 3, Keys: keys, Distribution: d}), n) {
			counts[e.Account]++
			if e.Amount < 1 || e.Amount > amountMax {
				t.Fatalf("an amount of %d", e.Amount)
			}
		}
		most := make([]int, 0, len(counts))
		for _, c := range counts {
			most = append(most, c)
		}
		// The share of the ten most frequent ones.
		share := 0.0
		for range 10 {
			at := 0
			for i := range most {
				if most[i] > most[at] {
					at = i
				}
			}
			share += float64(most[at]) / n
			most[at] = 0
		}
		if share < inTheFirst[0] || share > inTheFirst[1] {
			t.Errorf("%s: ten of %d keys have %.3f of the records", d, keys, share)
		}
		if len(counts) > keys || d == Uniform && len(counts) != keys {
			t.Errorf("%s: %d keys of %d", d, len(counts), keys)
		}
	}
}

func TestMistakenInputs(t *testing.T) {
	for _, in := range []Input{
		{Keys: 0, Distribution: Uniform}, {Keys: 1, Distribution: "normal"}, {Keys: 1, Distribution: Uniform, Duplicates: 0.6},
		{Keys: 1, Distribution: Uniform, Duplicates: math.Inf(-1)},
	} {
		w, err := Find("pass")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.newGenerator(in); err == nil {
			t.Errorf("%+v was taken", in)
		}
	}
	if _, err := Find("nothing"); err == nil {
		t.Error("a workload that is not there was found")
	}
}

// flightRows are made up, with what the real ones have: an unknown plane, and a flight that did not
// arrive.
const flightRows = "scheduled,carrier,flight,origin,destination,tail,departed,arrival_delay\n" +
	"22617255,UA,1545,EWR,IAH,N14228,1,11\n22617269,UA,1714,LGA,IAH,,1,-20\n22617280,AA,1141,JFK,MIA,N619AA,0,\n"

func writeFlights(t *testing.T, rows string) string {
	t.Helper()
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed)
	if _, err := w.Write([]byte(rows)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "flights.csv.gz")
	if err := os.WriteFile(path, compressed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlights(t *testing.T) {
	got := events(makeGenerator(t, "flights", Input{Flights: writeFlights(t, flightRows)}), 4)
	for i, want := range []Event{
		{Account: padded("N14228"), Counterparty: padded("UA"), Amount: 11}, {Counterparty: padded("UA"), Amount: -20},
		{Account: padded("N619AA"), Counterparty: padded("AA")}, {Account: padded("N14228"), Counterparty: padded("UA"), Amount: 11},
	} {
		want.ID, want.Clock, want.Padding = EventID(uint64(i)), int64(i), got[i].Padding
		if got[i] != want {
			t.Errorf("flight %d is %+v, want %+v", i, got[i], want)
		}
	}
	w, err := Find("flights")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"", filepath.Join(t.TempDir(), "none"), writeFlights(t, ""), writeFlights(t, "a,b\n"),
		writeFlights(t, flightRows[:len(flightRows)-1]+"x\n"),
	} {
		if _, err := w.newGenerator(Input{Flights: path}); err == nil {
			t.Errorf("file %q was taken", path)
		}
	}
}
