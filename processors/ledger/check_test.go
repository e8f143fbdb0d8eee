package ledger_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
	"github.com/onceward/onceward/topology"
)

// books fills a ledger with three ledgers, one of them with the canary as its key, whose sums leave
// the range of 64 bits when they are made in the order of the ids.
func books(t *testing.T) (*processortest.Driver, ledger.Ledger[string, Entry]) {
	t.Helper()
	var l ledger.Ledger[string, Entry]
	d := processortest.New(t, func(b *topology.Builder) { l = routed(b) })
	for _, key := range []string{"", "a\u0000b", codectest.Canary} {
		for _, value := range []string{
			`{"id":"1","amounts":[9223372036854775807]}`, `{"id":"3","amounts":[-9223372036854775807]}`,
			`{"id":"2","amounts":[9223372036854775807]}`, `{"id":"4","amounts":[-9],"corrects":"1"}`,
		} {
			d.Pipe("entries", key, value)
		}
	}
	d.Want("dead")
	return d, l
}

// database copies the stores of the driver into a database.
func database(t *testing.T, d *processortest.Driver) state.Database {
	t.Helper()
	var writes []state.Write
	for _, store := range []string{"ledger-contributions", "ledger-balances"} {
		for key, value := range d.Rows(store, 0) {
			writes = append(writes, state.Write{Store: state.IDOf(store), Key: []byte(key), Value: []byte(value)})
		}
	}
	db := memstore.New()
	if err := db.Declare(state.KeyValues("ledger-contributions", "ledger-balances")...); err != nil {
		t.Fatal(err)
	}
	if err := db.Apply(state.Positions{}, state.Positions{}, slices.Values(writes)); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestCheck(t *testing.T) {
	d, l := books(t)
	if err := checkStores(d, l); err != nil {
		t.Error(err)
	}
	if err := ledger.Check(database(t, d), "ledger"); err != nil {
		t.Error(err)
	}
	view, err := database(t, d).View()
	if err != nil {
		t.Fatal(err)
	}
	if err := ledger.Check(view, "ledger"); err != nil {
		t.Errorf("through a view: %v", err)
	}
	empty := processortest.New(t, func(b *topology.Builder) { routed(b) })
	if err := ledger.Check(database(t, empty), "ledger"); err != nil {
		t.Errorf("an empty ledger: %v", err)
	}
	err = ledger.Check(database(t, d), "leger")
	if !errors.Is(err, state.ErrUnknownStore) || !strings.Contains(err.Error(), `"leger-contributions"`) {
		t.Errorf("a ledger that is not there: %v", err)
	}
}

// TestCheckFindsDifferences is requirement E1: a balance is checked against its contributions. It
// damages one row at a time, as the control of Check. No value means that the row is deleted.
func TestCheckFindsDifferences(t *testing.T) {
	const (
		contributions = "ledger-contributions"
		balances      = "ledger-balances"
		canary        = codectest.Canary
		second        = "\x00\x01" + "2"
		zeros         = "\x00\x00\x00\x00\x00\x00\x00\x00"
		amount        = "\x00\x00\x00\x00\x00\x00\x00\x08"
		posting       = "\x01\x01" + zeros + amount
		sum           = "\x02\x01" + "\x00\x00\x00\x00\x00\x00\x00\x04" + amount + checksum
		empty         = "\x02\x01" + zeros + amount + checksum
		wide          = "\x01\x02" + "\x00\x00\x00\x00\x00\x00\x00\x04" + amount + amount
		wideSum       = "\x02\x02" + "\x00\x00\x00\x00\x00\x00\x00\x04" + amount + amount + checksum
	)
	for name, damage := range map[string]struct{ store, key, value, reason string }{
		"balance lost":          {balances, canary, "", "there is no balance"},
		"first balance lost":    {balances, "", "", "there is no balance"},
		"balance too many":      {balances, "b", sum, "there are no contributions"},
		"balance behind":        {balances, "z", sum, "there are no contributions"},
		"amount":                {balances, canary, sum, "column 1 of 1"},
		"columns":               {balances, canary, wideSum, "another number of columns"},
		"count":                 {balances, "", empty, "the balance counts 0 contributions, there are 4"},
		"contribution lost":     {contributions, canary + second, "", "counts 4 contributions, there are 3"},
		"contribution changed":  {contributions, canary + second, posting, "column 1 of 1"},
		"contribution too many": {contributions, "c" + second, posting, "there is no balance"},
		"contribution behind":   {contributions, "z" + second, posting, "there is no balance"},
		"mixed columns":         {contributions, canary + second, wide, "have different numbers of columns"},
	} {
		t.Run(name, func(t *testing.T) {
			d, l := books(t)
			if damage.value != "" {
				d.SetRow(damage.store, damage.key, damage.value)
			} else {
				d.DeleteRow(damage.store, damage.key)
			}
			for _, err := range []error{checkStores(d, l), ledger.Check(database(t, d), "ledger")} {
				var difference *ledger.DifferenceError
				if !errors.As(err, &difference) || !strings.HasSuffix(difference.Reason, damage.reason) {
					t.Errorf("Check returned %v, want %q", err, damage.reason)
					continue
				}
				key, _, _ := strings.Cut(damage.key, "\x00")
				if string(difference.Key) != key {
					t.Errorf("the difference is in ledger %q, want %q", difference.Key, key)
				}
				if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, canary) {
					t.Errorf("the error quotes the key: %s", text)
				}
			}
		})
	}
}

// TestCheckRows: a check that goes on counts what differs behind the first difference too, and has
// the figures of both sides. Requirement E1.
func TestCheckRows(t *testing.T) {
	const zeros = "\x00\x00\x00\x00\x00\x00\x00"
	row := func(count, amount string) string { return "\x02\x01" + zeros + count + zeros + amount + checksum }
	d, _ := books(t)
	check := func(firstMax int) ledger.Checked {
		t.Helper()
		db := database(t, d)
		contributions, balances := ledger.Stores("ledger")
		found, err := ledger.CheckRows(db.Scan(state.IDOf(contributions), state.Range{}), db.Scan(state.IDOf(balances), state.Range{}), firstMax)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if found := check(9); found.Ledgers != 3 || found.Contributions != 12 || found.Differences != 0 || found.First != nil {
		t.Errorf("without damage it has found %+v", found)
	}
	d.DeleteRow("ledger-balances", "")
	d.SetRow("ledger-balances", "a", row("\x01", "\x05"))
	d.SetRow("ledger-balances", "a\x00b", row("\x04", "\x08"))
	d.SetRow("ledger-contributions", codectest.Canary+"\x00\x015", "\x01\x02"+zeros+"\x00"+zeros+"\x01"+zeros+"\x01")
	var got []string
	for _, d := range check(9).First {
		got = append(got, fmt.Sprintf("%d bytes: %s: %v of %d, %v of %d", len(d.Key), d.Reason, d.Balance.Amounts, d.Balance.Count,
			d.Sums, d.Contributions))
	}
	slices.Sort(got)
	want := []string{
		"0 bytes: there is no balance: [] of 0, [9223372036854775798] of 4",
		"1 bytes: there are no contributions: [5] of 1, [] of 0",
		"3 bytes: column 1 of 1: [8] of 4, [9223372036854775798] of 4",
		fmt.Sprintf("%d bytes: its contributions have different numbers of columns: [9223372036854775798] of 4, [] of 5", len(codectest.Canary)),
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the differences are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if found := check(1); found.Ledgers != 4 || found.Contributions != 13 || found.Differences != 4 || len(found.First) != 1 {
		t.Errorf("of one difference to keep it has found %+v", found)
	}
}

// TestLedgerNeedsAllItsStores: a ledger is there with both of its stores, of their layout.
func TestLedgerNeedsAllItsStores(t *testing.T) {
	stores := state.KeyValues("b-balances", "b-contributions", "-balances", "-contributions", "a-contributions", "a-balances", "c-balances",
		"d-contributions", "e-contributions", "e-balances", "seen")
	stores[9].Layout = state.Layout{Kind: state.TimestampedKind}
	if got := ledger.Names(stores); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the ledgers are %q", got)
	}
}

// TestCheckDoesNotWrapAround: contributions that come to two to the power of 64 are not a balance
// of zero.
func TestCheckDoesNotWrapAround(t *testing.T) {
	const most = "\x7f\xff\xff\xff\xff\xff\xff\xff"
	zeros := strings.Repeat("\x00", 8)
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	d.SetRow("ledger-contributions", "k\x00\x01a", "\x01\x01"+zeros+most)
	d.SetRow("ledger-contributions", "k\x00\x01b", "\x01\x01"+zeros+most)
	d.SetRow("ledger-contributions", "k\x00\x01c", "\x01\x01"+zeros+zeros[1:]+"\x02")
	d.SetRow("ledger-balances", "k", "\x02\x01"+zeros[1:]+"\x03"+zeros+checksum)
	var difference *ledger.DifferenceError
	if err := ledger.Check(database(t, d), "ledger"); !errors.As(err, &difference) {
		t.Errorf("Check returned %v", err)
	}
}

// TestCheckRefusesDamage: keys and rows that cannot be read are no differences.
// Row of the failure matrix: corrupt state directory.
func TestCheckRefusesDamage(t *testing.T) {
	for _, damage := range [][2]string{
		{"ledger-contributions", codectest.Canary},
		{"ledger-contributions", codectest.Canary + "\x00\x01x"},
		{"ledger-balances", codectest.Canary},
	} {
		d, _ := books(t)
		d.SetRow(damage[0], damage[1], codectest.Canary)
		err := ledger.Check(database(t, d), "ledger")
		var difference *ledger.DifferenceError
		if !errors.Is(err, state.ErrCorrupt) || errors.As(err, &difference) || strings.Contains(err.Error(), codectest.Canary) {
			t.Errorf("%s, %q: Check returned %v", damage[0], damage[1], err)
		}
	}
}

// failingReader is a reader whose scans of one store fail after some entries.
type failingReader struct {
	state.Reader
	store string
	after int
}

var errDisk = errors.New("disk")

func (r failingReader) Scan(store state.StoreID, rng state.Range) iter.Seq2[state.Entry, error] {
	if store != state.IDOf(r.store) {
		return r.Reader.Scan(store, rng)
	}
	return func(yield func(state.Entry, error) bool) {
		n := 0
		for e, err := range r.Reader.Scan(store, rng) {
			if n == r.after {
				yield(state.Entry{}, errDisk)
				return
			}
			n++
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestCheckReportsReadErrors: a scan that fails, anywhere, is neither the end of the store nor a
// difference.
func TestCheckReportsReadErrors(t *testing.T) {
	d, _ := books(t)
	db := database(t, d)
	for store, rows := range map[string]int{"ledger-contributions": 12, "ledger-balances": 3} {
		for after := range rows {
			if err := ledger.Check(failingReader{db, store, after}, "ledger"); !errors.Is(err, errDisk) {
				t.Errorf("%s fails after %d rows: Check returned %v", store, after, err)
			}
		}
	}
}
