package ledger_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

const (
	errConflict = "the contribution was posted before with other amounts or another correction"
	errCorrects = "the contribution corrects one that its ledger does not have"
	errOpposite = "the amounts of the reversal are not those of what it reverses, with the other sign"
)

func newRouted(tb testing.TB, opts ...ledger.Option) *processortest.Driver {
	tb.Helper()
	return processortest.New(tb, func(b *topology.Builder) { routed(b, opts...) })
}

// newBare is a ledger of which only the changes are used.
func newBare(tb testing.TB, opts ...ledger.Option) *processortest.Driver {
	tb.Helper()
	return processortest.New(tb, func(b *topology.Builder) {
		ledger.Post(topology.From(b, entryTopic), "ledger", contribution, opts...).Changes().Into(balanceTopic)
	})
}

// checksum is that of the default columns: printf amount | sha256sum
const checksum = "\xcf\x38\xd9\x5c"

// content returns both stores.
func content(d *processortest.Driver) string {
	return fmt.Sprintf("%x %x", d.Rows("ledger-contributions", 0), d.Rows("ledger-balances", 0))
}

func TestOutcomes(t *testing.T) {
	d := newRouted(t)
	d.Pipe("entries", "k", `{"id":"a","amounts":[10]}`)
	d.Pipe("entries", "k", `{"id":"b","amounts":[-3]}`)
	d.Want("balances", `{"count":1,"amounts":[10],"contribution":"a"}`,
		`{"count":2,"amounts":[7],"contribution":"b"}`)
	before := content(d)
	d.Pipe("entries", "k", `{"id":"a","amounts":[10]}`, topologytest.At(d.Now().Add(time.Hour)))
	d.Want("duplicates", `{"id":"a","amounts":[10]}`)
	d.Pipe("entries", "k", `{"id":"a","amounts":[11]}`)
	d.Want("conflicts", `{"id":"a","amounts":[11]}`)
	d.Want("balances")
	if after := content(d); after != before {
		t.Errorf("duplicate and conflict changed the stores from %s to %s", before, after)
	}
	// Another ledger has ids of its own.
	d.Pipe("entries", "other", `{"id":"a","amounts":[11]}`)
	d.Want("balances", `{"count":1,"amounts":[11],"contribution":"a"}`)
	d.Want("dead")
	d.WantCounts("ledger.accepted=3 ledger.conflicts=1 ledger.duplicates=1")
}

func TestUnroutedOutcomes(t *testing.T) {
	d := newBare(t)
	d.Pipe("entries", "k", `{"id":"a","amounts":[10]}`)
	d.Pipe("entries", "k", `{"id":"a","amounts":[10]}`)
	d.Want("dead")
	d.Pipe("entries", "k", `{"id":"a","amounts":[11]}`)
	d.WantDeadLetter("ledger", topology.Conflict, errConflict)
	d.Want("balances", `{"count":1,"amounts":[10],"contribution":"a"}`)
	d.WantCounts("ledger.accepted=1 ledger.dead-letter-conflict=1 ledger.duplicates=1")
}

func TestColumns(t *testing.T) {
	d := newRouted(t, ledger.Columns("minutes", "flights"))
	d.Pipe("entries", "k", `{"id":"a","amounts":[17,1]}`)
	d.Pipe("entries", "k", `{"id":"b","amounts":[-5,1]}`)
	d.Want("balances", `{"count":1,"amounts":[17,1],"contribution":"a"}`,
		`{"count":2,"amounts":[12,2],"contribution":"b"}`)
	// The order of the amounts matters, and so does each of them.
	d.Pipe("entries", "k", `{"id":"a","amounts":[1,17]}`)
	d.Pipe("entries", "k", `{"id":"a","amounts":[17,2]}`)
	d.WantCounts("ledger.accepted=2 ledger.conflicts=2")
}

// TestCorrections is requirement E3: a correction names what it corrects, which its ledger has.
func TestCorrections(t *testing.T) {
	d := newRouted(t)
	d.Pipe("entries", "k", `{"id":"a","amounts":[10]}`)
	d.Pipe("entries", "k", `{"id":"a-reversed","amounts":[-10],"corrects":"a"}`)
	d.Pipe("entries", "k", `{"id":"a-again","amounts":[12],"corrects":"a-reversed"}`)
	d.Want("balances", `{"count":1,"amounts":[10],"contribution":"a"}`,
		`{"count":2,"amounts":[0],"contribution":"a-reversed"}`,
		`{"count":3,"amounts":[12],"contribution":"a-again"}`)

	d.Pipe("entries", "k", `{"id":"a-reversed","amounts":[-10],"corrects":"a"}`)
	d.Want("duplicates", `{"id":"a-reversed","amounts":[-10],"corrects":"a"}`)
	// The same amounts as a correction of something else, or of nothing, are another intent.
	d.Pipe("entries", "k", `{"id":"a-reversed","amounts":[-10],"corrects":"a-again"}`)
	d.Pipe("entries", "k", `{"id":"a-reversed","amounts":[-10],"corrects":"unknown"}`)
	d.Pipe("entries", "k", `{"id":"a-reversed","amounts":[-10]}`)
	d.WantCounts("ledger.accepted=3 ledger.conflicts=3 ledger.duplicates=1")
}

func TestUnknownCorrection(t *testing.T) {
	d := newRouted(t)
	d.Pipe("entries", "other", `{"id":"a","amounts":[10]}`)
	before := content(d)
	d.Pipe("entries", "k", `{"id":"b","amounts":[-10],"corrects":"a"}`)
	d.WantDeadLetter("ledger", topology.Validation, errCorrects)
	d.Pipe("entries", "k", `{"id":"b","amounts":[-10],"corrects":"b"}`)
	d.WantDeadLetter("ledger", topology.Validation, "the contribution names itself")
	if after := content(d); after != before {
		t.Errorf("the stores changed from %s to %s", before, after)
	}
	// A failed correction can come again, after the contribution that it corrects.
	d.Pipe("entries", "k", `{"id":"a","amounts":[10]}`)
	d.Pipe("entries", "k", `{"id":"b","amounts":[-10],"corrects":"a"}`)
	d.WantCounts("ledger.accepted=3 ledger.dead-letter-validation=2")
}

// TestOverflow is requirement E5: no sum leaves the range of 64 bits, in any column, and the record
// that would do it leaves no trace, not even in the column before.
func TestOverflow(t *testing.T) {
	for _, c := range []struct {
		amounts [2]int64
		// column is the one that overflows, empty if none does.
		column string
	}{
		{[2]int64{math.MaxInt64 - 5, math.MinInt64 + 20}, ""},
		{[2]int64{math.MaxInt64 - 4, 0}, "first"},
		{[2]int64{math.MaxInt64, math.MinInt64}, "first"},
		{[2]int64{1, math.MinInt64 + 19}, "second"},
		{[2]int64{1, math.MinInt64}, "second"},
		{[2]int64{math.MinInt64, math.MaxInt64}, ""},
	} {
		d := newRouted(t, ledger.Columns("first", "second"))
		d.Pipe("entries", "k", `{"id":"a","amounts":[5,-20]}`)
		d.Take("balances")
		before := content(d)
		d.Pipe("entries", "k", fmt.Sprintf(`{"id":"b","amounts":[%d,%d]}`, c.amounts[0], c.amounts[1]))
		if c.column == "" {
			d.Want("balances", fmt.Sprintf(`{"count":2,"amounts":[%d,%d],"contribution":"b"}`,
				5+c.amounts[0], -20+c.amounts[1]))
			continue
		}
		d.WantDeadLetter("ledger", topology.Validation,
			"the balance in column "+c.column+" would leave the range of 64 bits")
		if after := content(d); after != before {
			t.Errorf("%v changed the stores from %s to %s", c.amounts, before, after)
		}
		d.Pipe("entries", "k", `{"id":"b","amounts":[1,1]}`)
		d.Want("balances", `{"count":2,"amounts":[6,-19],"contribution":"b"}`)
	}
}

func TestUnusableContribution(t *testing.T) {
	d := newRouted(t)
	d.Pipe("entries", "k", `{"amounts":[10]}`)
	d.WantDeadLetter("ledger", topology.Validation, "the id is missing")
	d.Pipe("entries", "k", `{"id":"`+strings.Repeat("x", 1025)+`","amounts":[10]}`)
	d.WantDeadLetter("ledger", topology.Validation, "the id has more than 1024 bytes")
	d.Pipe("entries", "k", `{"id":"a","amounts":[10],"corrects":"`+strings.Repeat("x", 1025)+`"}`)
	d.WantDeadLetter("ledger", topology.Validation, "the id has more than 1024 bytes")
	for name, class := range map[string]topology.Class{"none": topology.Validation, "poison": topology.Poison} {
		d := processortest.New(t, func(b *topology.Builder) {
			ledger.Post(topology.From(b, entryTopic), "ledger", func(entry) (ledger.Contribution, error) {
				var err error = schemas.Reason("no contribution")
				if name == "poison" {
					err = topology.Fail(topology.Poison, err)
				}
				return ledger.Contribution{ID: "a", Amounts: []int64{1}}, err
			})
		})
		d.Pipe("entries", "k", `{}`)
		d.WantDeadLetter("ledger", class, "no contribution")
	}
}

// TestNumberOfAmounts: a contribution with other columns than the ledger is a mistake of the
// program.
func TestNumberOfAmounts(t *testing.T) {
	for _, amounts := range []string{`[]`, `null`, `[1,2]`} {
		err := newRouted(t).PipeRaw("entries", []byte("k"), []byte(`{"id":"a","amounts":`+amounts+`}`))
		if err == nil || !strings.Contains(err.Error(), "config: the contribution has") {
			t.Errorf("amounts %s: Pipe returned %v", amounts, err)
		}
	}
}

// TestOtherColumns is a part of requirement E5: a program that means another thing by the amounts
// does not open a ledger that was written before, and one that means the same does.
func TestOtherColumns(t *testing.T) {
	days, halves := ledger.Tumbling(24*time.Hour), ledger.Windows{Size: 24 * time.Hour, Advance: 12 * time.Hour}
	type options = []ledger.Option
	two := ledger.Columns("amount", "fee")
	for name, c := range map[string]struct {
		before, after       options
		windows, newWindows *ledger.Windows
		opens               bool
	}{
		"same":            {before: options{two}, after: options{two, ledger.Scale("fee", 0)}, opens: true},
		"renamed":         {before: options{two}, after: options{ledger.Columns("amount", "tax")}},
		"other order":     {before: options{two}, after: options{ledger.Columns("fee", "amount")}},
		"one more":        {before: options{two}, after: options{ledger.Columns("amount", "fee", "tax")}},
		"other scale":     {before: options{two, ledger.Scale("fee", 2)}, after: options{two, ledger.Scale("fee", 3)}},
		"scale elsewhere": {before: options{two, ledger.Scale("fee", 2)}, after: options{two, ledger.Scale("amount", 2)}},
		"no scale":        {before: options{two, ledger.Scale("fee", 2)}, after: options{two}},
		"same windows":    {before: options{two}, after: options{two}, windows: &days, newWindows: &days, opens: true},
		"other windows":   {before: options{two}, after: options{two}, windows: &days, newWindows: &halves},
	} {
		t.Run(name, func(t *testing.T) {
			start := func(windows *ledger.Windows, opts options) *processortest.Driver {
				return processortest.New(t, func(b *topology.Builder) {
					if s := topology.From(b, entryTopic); windows != nil {
						ledger.PostWindowed(s, "ledger", *windows, contribution, opts...)
					} else {
						ledger.Post(s, "ledger", contribution, opts...)
					}
				})
			}
			before, after := start(c.windows, c.before), start(c.newWindows, c.after)
			before.Pipe("entries", "k", `{"id":"a","amounts":[1,2]}`, topologytest.At(time.UnixMilli(1)))
			for _, store := range []string{"ledger-contributions", "ledger-balances"} {
				for key, row := range before.Rows(store, 0) {
					after.SetRow(store, key, row)
				}
			}
			err := after.Driver.Restart()
			if c.opens {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), "node ledger") ||
				!strings.Contains(err.Error(), "give the ledger another name") {
				t.Errorf("Restart returned %v", err)
			}
		})
	}
}

// TestDamagedColumns: a row that was damaged in the number of its columns stops the task.
func TestDamagedColumns(t *testing.T) {
	const amounts = "\x00\x00\x00\x00\x00\x00\x00\x01" + "\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x00\x00\x00\x00\x00\x00\x00\x01"
	for store, row := range map[string][2]string{
		"ledger-contributions": {"k\x00\x01a", "\x01\x02" + amounts}, "ledger-balances": {"k", "\x02\x02" + amounts + checksum},
	} {
		d := newRouted(t)
		d.SetRow(store, row[0], row[1])
		err := d.PipeRaw("entries", []byte("k"), []byte(`{"id":"a","amounts":[1]}`))
		if err == nil || !strings.Contains(err.Error(), "config: the ledger's rows have 2 columns") {
			t.Errorf("%s: Pipe returned %v", store, err)
		}
	}
}

// TestOtherFormat: a row that this build does not read stops the task, and is never taken for
// absent.
func TestOtherFormat(t *testing.T) {
	for store, key := range map[string]string{"ledger-contributions": "k\x00\x01a", "ledger-balances": "k"} {
		d := newRouted(t)
		d.SetRow(store, key, "\x05"+strings.Repeat("\x00", 17))
		err := d.PipeRaw("entries", []byte("k"), []byte(`{"id":"a","amounts":[1]}`))
		if err == nil || !strings.Contains(err.Error(), "a format that this build does not read") {
			t.Errorf("%s: Pipe returned %v", store, err)
		}
	}
}

// TestNullKey: the null key is not the empty one, and no ledger.
func TestNullKey(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		s := topology.From(b, topology.Topic("entries", schemas.Bytes(), schemas.JSON[Entry]()))
		ledger.Post(s, "ledger", func(topology.Record[[]byte, Entry]) (ledger.Contribution, error) {
			return ledger.Contribution{ID: "a", Amounts: []int64{1}}, nil
		})
	})
	if err := d.PipeRaw("entries", nil, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	d.WantDeadLetter("ledger", topology.Validation, "the key is null, and the state is kept by key")
	d.Pipe("entries", "", `{}`)
	d.WantCounts("ledger.accepted=1 ledger.dead-letter-validation=1")
}

func TestFailureLeavesNoTrace(t *testing.T) {
	d := newRouted(t)
	d.Pipe("entries", "k", `{"id":"a","amounts":[1]}`)
	before := content(d)
	d.Pipe("entries", "k", `{"id":"b","amounts":[2]}`, topologytest.Header("fail", ""))
	d.WantDeadLetter("fragile", topology.Poison, "asked to")
	if after := content(d); after != before {
		t.Errorf("the stores changed from %s to %s", before, after)
	}
	// With other amounts, too: what failed was not posted.
	d.Restart()
	d.Pipe("entries", "k", `{"id":"b","amounts":[3]}`)
	d.Want("balances", `{"count":1,"amounts":[1],"contribution":"a"}`,
		`{"count":2,"amounts":[4],"contribution":"b"}`)
}

func TestOnError(t *testing.T) {
	d := newBare(t, ledger.OnError(topology.Conflict, topology.Policy{Action: topology.Stop}))
	d.Pipe("entries", "k", `{"id":"a","amounts":[1]}`)
	err := d.PipeRaw("entries", []byte("k"), []byte(`{"id":"a","amounts":[2]}`))
	if err == nil || !strings.Contains(err.Error(), errConflict) {
		t.Fatalf("Pipe returned %v", err)
	}
}

// TestGolden pins what is stored, for ever.
func TestGolden(t *testing.T) {
	d := newRouted(t, ledger.Columns("x", "y"))
	at := topologytest.At(time.UnixMilli(0x0102030405))
	d.Pipe("entries", "k", `{"id":"a","amounts":[1,-1]}`, at)
	d.Pipe("entries", "k\u0000\u0000l", `{"id":"a","amounts":[7,7]}`, at)
	d.Pipe("entries", "k", `{"id":"b","amounts":[256,-256],"corrects":"a"}`, at)
	const time = "0000000102030405"
	const columns = "968e772c" // printf x,y | sha256sum
	want := map[string]string{
		"k\x00\x01a":                  "01" + "02" + time + "0000000000000001" + "ffffffffffffffff",
		"k\x00\x01b":                  "01" + "02" + time + "0000000000000100" + "ffffffffffffff00" + "61",
		"k\x00\xff\x00\xffl\x00\x01a": "01" + "02" + time + "0000000000000007" + "0000000000000007",
	}
	if got := hexValues(d.Rows("ledger-contributions", 0)); !maps.Equal(got, want) {
		t.Errorf("the contributions are %q, want %q", got, want)
	}
	want = map[string]string{
		"k":          "02" + "02" + "0000000000000002" + "0000000000000101" + "fffffffffffffeff" + columns,
		"k\x00\x00l": "02" + "02" + "0000000000000001" + "0000000000000007" + "0000000000000007" + columns,
	}
	if got := hexValues(d.Rows("ledger-balances", 0)); !maps.Equal(got, want) {
		t.Errorf("the balances are %q, want %q", got, want)
	}
}

func hexValues(rows map[string]string) map[string]string {
	values := map[string]string{}
	for key, value := range rows {
		values[key] = hex.EncodeToString([]byte(value))
	}
	return values
}

func TestStores(t *testing.T) {
	var l ledger.Ledger[string, Entry]
	d := processortest.New(t, func(b *topology.Builder) { l = routed(b) })
	d.Pipe("entries", "k", `{"id":"a","amounts":[5]}`, topologytest.At(time.UnixMilli(7)))
	d.Pipe("entries", "k", `{"id":"b","amounts":[-2],"corrects":"a"}`, topologytest.At(time.UnixMilli(8)))
	contributions, err := topologytest.Store(d.Driver, l.ContributionStore(), 0)
	if err != nil {
		t.Fatal(err)
	}
	posting, ok, err := contributions.Get(ledger.ContributionKey[string]{Ledger: "k", ID: "b"})
	if s := fmt.Sprint(posting, ok, err); s != "{[-2] 8 a   []} true <nil>" {
		t.Error(s)
	}
	balances, err := topologytest.Store(d.Driver, l.BalanceStore(), 0)
	if err != nil {
		t.Fatal(err)
	}
	sum, ok, err := balances.Get("k")
	if s := fmt.Sprint(sum, ok, err); s != "{2 [3]} true <nil>" {
		t.Error(s)
	}
}

// TestDescribed: the stores are there with their formats, and other columns are another topology.
func TestDescribed(t *testing.T) {
	build := func(opts ...ledger.Option) *topology.Topology {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		routed(b, opts...)
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	one, same, two := build(), build(ledger.Columns("amount")), build(ledger.Columns("amount", "fee"))
	if one.Fingerprint() != same.Fingerprint() || one.Fingerprint() == two.Fingerprint() {
		t.Error("the fingerprint does not follow the columns")
	}
	if text := two.Describe(); !strings.Contains(text,
		"Processor: ledger (stores: [ledger-balances, ledger-contributions])") {
		t.Error(text)
	}
	processortest.WantStores(t, two, "ledger-balances app-ledger-balances-changelog keyvalue string ledger-sum-2:amount,fee",
		"ledger-contributions app-ledger-contributions-changelog keyvalue ledger-contribution-key-1:string ledger-posting-1:amount,fee")
}

func TestMistakes(t *testing.T) {
	from := func(b *topology.Builder) entries { return topology.From(b, entryTopic) }
	post := func(texts []string, opts ...ledger.Option) {
		t.Helper()
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			ledger.Post(from(b), "ledger", contribution, opts...)
			return processortest.Above()
		}, texts...)
	}
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		ledger.Post(from(b), "ledger", nil, nil)
		return processortest.Above()
	}, "an option is nil", "the function that reads the contribution is nil")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		ledger.Post(from(b), "led ger", contribution)
		return processortest.Above()
	}, `name of the node: "led ger"`, `name of a store: "led ger-contributions"`,
		`name of a store: "led ger-balances"`)
	post([]string{"Columns: there are 0 names; a ledger has 1 to 255 columns"}, ledger.Columns())
	post([]string{"Columns: there are 256 names"}, ledger.Columns(names(256)...))
	post([]string{`Columns: "a" is there twice`}, ledger.Columns("a", "b", "a"))
	post([]string{`Columns: "a,b" is no name`}, ledger.Columns("a,b", "c"))
	post([]string{`Columns: "" is no name`}, ledger.Columns(""))
	post([]string{"Columns is given twice"}, ledger.Columns("a"), ledger.Columns("a"))
	post([]string{"Key: the codec is nil"}, ledger.Key[string](nil))
	post([]string{"Key: the codec is not one for string"}, ledger.Key(schemas.Int64()))
	post([]string{`Scale: there is no column "fee"; there are amount`}, ledger.Scale("fee", 2))
	post([]string{`Scale("amount") is given twice`}, ledger.Scale("amount", 2), ledger.Scale("amount", 0))
	post([]string{`Scale("amount", 19): a column has at most 18 places`}, ledger.Scale("amount", 19))
	post([]string{"OnError(conflict)"}, ledger.OnError(topology.Conflict, topology.Policy{}))
}

func names(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint("c", i))
	}
	return all
}

// TestColumnsMax: a ledger with as many columns as there can be works.
func TestColumnsMax(t *testing.T) {
	d := newRouted(t, ledger.Columns(names(255)...))
	amounts := strings.Join(strings.Split(strings.Repeat("1", 255), ""), ",")
	d.Pipe("entries", "k", `{"id":"a","amounts":[`+amounts+`]}`)
	d.Want("balances", `{"count":1,"amounts":[`+amounts+`],"contribution":"a"}`)
}
