package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// The tests of this file are named after what the specification asks of a ledger.

// TestDerivedBalance: the contributions are the state, by ledger and id, and the balance follows
// from them. Requirement E1.
func TestDerivedBalance(t *testing.T) {
	var l ledger.Ledger[string, Entry]
	d := processortest.New(t, func(b *topology.Builder) { l = routed(b) })
	for _, key := range []string{"k", "l"} {
		d.Pipe("entries", key, `{"id":"a","amounts":[10]}`)
		d.Pipe("entries", key, `{"id":"b","amounts":[-3]}`)
	}
	if rows := d.Rows("ledger-contributions", 0); len(rows) != 4 {
		t.Errorf("there are %d contributions", len(rows))
	}
	if err := checkStores(d, l); err != nil {
		t.Error(err)
	}
	d.DeleteRow("ledger-contributions", "k\x00\x01b")
	if err := checkStores(d, l); err == nil {
		t.Error("a lost contribution is not found")
	}
}

// TestSameContribution: twice counts once, and another amount is a conflict, also one that a
// float64 could not tell apart. Requirement E2.
func TestSameContribution(t *testing.T) {
	d := newRouted(t)
	d.Pipe("entries", "k", `{"id":"a","amounts":[9007199254740993]}`)
	d.Pipe("entries", "k", `{"id":"a","amounts":[9007199254740993]}`)
	d.Pipe("entries", "k", `{"id":"a","amounts":[9007199254740992]}`)
	d.Want("balances", `{"count":1,"amounts":[9007199254740993],"contribution":"a"}`)
	d.WantCounts("ledger.accepted=1 ledger.conflicts=1 ledger.duplicates=1")
}

// TestReversal: a reversal names what it takes back and takes all of it back, once. Requirement E3.
func TestReversal(t *testing.T) {
	d := newRouted(t, ledger.Columns("x", "y"))
	pipe := func(value string) {
		t.Helper()
		d.Pipe("entries", "k", value)
	}
	pipe(`{"id":"a","amounts":[10,-1]}`)
	pipe(`{"id":"r","reverses":"a"}`)
	d.Want("balances", `{"count":1,"amounts":[10,-1],"contribution":"a"}`, `{"count":2,"amounts":[0,0],"contribution":"r"}`)
	// Again, with and without the amounts that follow.
	pipe(`{"id":"r","reverses":"a"}`)
	pipe(`{"id":"r","reverses":"a","amounts":[-10,1]}`)
	pipe(`{"id":"a","amounts":[10,-1]}`)
	// Something else under the same id, and the same thing under another one.
	pipe(`{"id":"r","reverses":"a","amounts":[-10,2]}`)
	pipe(`{"id":"r","corrects":"a","amounts":[-10,1]}`)
	pipe(`{"id":"r","amounts":[-10,1]}`)
	pipe(`{"id":"s","reverses":"a"}`)
	d.WantCounts("ledger.accepted=2 ledger.conflicts=4 ledger.duplicates=3")
	// A reversal can be reversed, and what was reversed stays so.
	pipe(`{"id":"q","reverses":"r","amounts":[10,-1]}`)
	pipe(`{"id":"p","reverses":"a"}`)
	d.WantCounts("ledger.accepted=3 ledger.conflicts=5 ledger.duplicates=3")
	d.Want("balances", `{"count":3,"amounts":[10,-1],"contribution":"q"}`)
	before := content(d)
	for value, reason := range map[string]string{
		`{"id":"z","reverses":"unknown"}`:                  "the contribution reverses one that its ledger does not have",
		`{"id":"z","reverses":"z"}`:                        "the contribution names itself",
		`{"id":"z","reverses":"q","corrects":"a"}`:         "the contribution corrects and reverses; it does one of the two",
		`{"id":"z","reverses":"q","amounts":[-10,0]}`:      errOpposite,
		`{"id":"z","corrects":"unknown","amounts":[-1,0]}`: errCorrects,
	} {
		pipe(value)
		d.WantDeadLetter("ledger", topology.Validation, reason)
	}
	if after := content(d); after != before {
		t.Errorf("the stores changed from %s to %s", before, after)
	}
	store, err := topologytest.Store(d.Driver, topology.KeyValueStore("ledger-contributions", schemas.Bytes(), schemas.Bytes()), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := store.Get([]byte("k\x00\x01r")); !ok || err != nil {
		t.Error(ok, err)
	}
}

// TestReversalUnrouted: without EmitConflicts, a second reversal is a dead letter.
func TestReversalUnrouted(t *testing.T) {
	d := newBare(t)
	d.Pipe("entries", "k", `{"id":"a","amounts":[10]}`)
	d.Pipe("entries", "k", `{"id":"r","reverses":"a"}`)
	d.Pipe("entries", "k", `{"id":"s","reverses":"a"}`)
	d.WantDeadLetter("ledger", topology.Conflict, "the contribution reverses one that another contribution has reversed already")
}

// TestReversalOverflow: the one amount that has no opposite cannot be reversed.
func TestReversalOverflow(t *testing.T) {
	d := newBare(t)
	d.Pipe("entries", "k", `{"id":"a","amounts":[-9223372036854775808]}`)
	d.Pipe("entries", "k", `{"id":"r","reverses":"a"}`)
	d.WantDeadLetter("ledger", topology.Validation, "the balance in column amount would leave the range of 64 bits")
	d.Pipe("entries", "k", `{"id":"b","amounts":[5]}`)
	d.WantCounts("ledger.accepted=2 ledger.dead-letter-validation=1")
}

// TestReversalIsStored: both sides name each other.
func TestReversalIsStored(t *testing.T) {
	var l ledger.Ledger[string, Entry]
	d := processortest.New(t, func(b *topology.Builder) { l = routed(b) })
	d.Pipe("entries", "k", `{"id":"a","amounts":[10]}`, topologytest.At(time.UnixMilli(7)))
	d.Pipe("entries", "k", `{"id":"r","reverses":"a"}`, topologytest.At(time.UnixMilli(8)))
	store, err := topologytest.Store(d.Driver, l.ContributionStore(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"a": "{[10] 7   r []}", "r": "{[-10] 8  a  []}"} {
		p, _, err := store.Get(ledger.ContributionKey[string]{Ledger: "k", ID: id})
		if got := fmt.Sprint(p); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", id, got, err, want)
		}
	}
	if err := checkStores(d, l); err != nil {
		t.Error(err)
	}
}

// visits counts the entries of each key by the hour.
func visits(b *topology.Builder, windows ledger.Windows, opts ...ledger.Option) ledger.Ledger[ledger.Window[string], Entry] {
	l := ledger.PostWindowed(topology.From(b, entryTopic), "hours", windows, contribution, opts...)
	l.Changes().Into(topology.Topic("balances", ledger.WindowCodec(schemas.String()), schemas.JSON[ledger.Balance]()))
	return l
}

// TestWindowed: a window counts facts and not deliveries: in any order and however often they come,
// each event counts once in each window that its time is in. Requirement E4.
func TestWindowed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hours := rapid.IntRange(1, 3).Draw(rt, "hours")
		windows := ledger.Windows{Size: time.Duration(hours) * time.Hour, Advance: time.Hour}
		var l ledger.Ledger[ledger.Window[string], Entry]
		d := processortest.New(t, func(b *topology.Builder) { l = visits(b, windows) })
		minutes := rapid.SliceOfN(rapid.IntRange(0, 600), 1, 12).Draw(rt, "minutes")
		order := rapid.SliceOfN(rapid.IntRange(0, len(minutes)-1), 1, 40).Draw(rt, "order")
		want := map[ledger.Window[string]]int64{}
		seen := map[int]bool{}
		for _, i := range order {
			at := topologytest.At(time.UnixMilli(int64(minutes[i]) * 60_000))
			d.Pipe("entries", "k", fmt.Sprintf(`{"id":"%d","amounts":[%d]}`, i, i+1), at)
			if seen[i] {
				continue
			}
			seen[i] = true
			hour := minutes[i] / 60
			for h := max(hour-hours+1, 0); h <= hour; h++ {
				want[ledger.Window[string]{Key: "k", Start: int64(h) * 3_600_000}] += int64(i) + 1
			}
		}
		d.Want("dead")
		store, err := topologytest.Store(d.Driver, l.BalanceStore(), 0)
		if err != nil {
			rt.Fatal(err)
		}
		n := 0
		for pair, err := range store.All() {
			n++
			if err != nil || want[pair.Key] != pair.Value.Amounts[0] {
				rt.Fatalf("window %+v is %v, %v, want %d", pair.Key, pair.Value, err, want[pair.Key])
			}
		}
		contributions, err := topologytest.Store(d.Driver, l.ContributionStore(), 0)
		if err != nil {
			rt.Fatal(err)
		}
		if err := ledger.CheckStores(contributions, store); err != nil || n != len(want) {
			rt.Fatalf("there are %d windows, want %d; %v", n, len(want), err)
		}
	})
}

// TestEventTime: the window is that of the fact, whenever it is delivered; and a correction is
// posted to its own.
func TestEventTime(t *testing.T) {
	timed := func(r entry) (int64, error) {
		text, ok := r.Header("at")
		if !ok {
			return -1, nil
		}
		at, err := time.ParseDuration(string(text))
		return at.Milliseconds(), err
	}
	d := processortest.New(t, func(b *topology.Builder) {
		l := visits(b, ledger.Tumbling(time.Hour), ledger.EventTime(timed), ledger.Columns("n"))
		l.Duplicates().Into(topology.Topic("duplicates", ledger.WindowCodec(schemas.String()), schemas.JSON[Entry]()))
	})
	at := topologytest.Header("at", "90m")
	d.Pipe("entries", "k", `{"id":"a","amounts":[5]}`, at)
	d.Pipe("entries", "k", `{"id":"a","amounts":[5]}`, at, topologytest.At(d.Now().Add(5*time.Hour)))
	if r := d.Want("duplicates", `{"id":"a","amounts":[5]}`)[0]; string(r.Key) != "\x00\x00\x00\x00\x00\x36\xee\x80k" {
		t.Errorf("the key is %q", r.Key)
	}
	d.Pipe("entries", "k", `{"id":"r","reverses":"a"}`, topologytest.Header("at", "91m"))
	d.Want("balances", `{"count":1,"amounts":[5],"contribution":"a"}`, `{"count":2,"amounts":[0],"contribution":"r"}`)
	d.Pipe("entries", "k", `{"id":"b","amounts":[5]}`)
	d.WantDeadLetter("hours-windows", topology.Validation, "the event time is negative")
	d.Pipe("entries", "k", `{"id":"b","amounts":[5]}`, topologytest.Header("at", "soon"))
	d.Pipe("entries", "k", `{"id":"q","reverses":"b"}`, topologytest.Header("at", "10h"))
	if letters := d.Take("dead"); len(letters) != 2 {
		t.Errorf("there are %d dead letters", len(letters))
	}
}

// TestOverlappingWindows: a copy with a time that is in other windows is posted to none, whether
// conflicts are emitted or fail; one that is in the same windows is a duplicate. Requirement E4.
func TestOverlappingWindows(t *testing.T) {
	for name, emitted := range map[string]bool{"emitted": true, "not emitted": false} {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				var opts []ledger.Option
				if emitted {
					opts = append(opts, ledger.EmitConflicts())
				}
				l := visits(b, ledger.Windows{Size: 3 * time.Hour, Advance: time.Hour}, opts...)
				if emitted {
					l.Conflicts().Into(topology.Topic("conflicts", ledger.WindowCodec(schemas.String()), schemas.JSON[Entry]()))
				}
			})
			at := func(minutes int64) topologytest.PipeOption { return topologytest.At(time.UnixMilli(minutes * 60_000)) }
			rows := func() string {
				return fmt.Sprintf("%x %x", d.Rows("hours-contributions", 0), d.Rows("hours-balances", 0))
			}
			d.Pipe("entries", "k", `{"id":"a","amounts":[5]}`, at(5*60+30))
			d.WantCounts("hours.accepted=3")
			before := rows()
			d.Pipe("entries", "k", `{"id":"a","amounts":[5]}`, at(5*60+40))
			d.WantCounts("hours.accepted=3 hours.duplicates=3")
			for _, other := range []int64{3 * 60, 4*60 + 59, 6 * 60, 7*60 + 59} {
				d.Pipe("entries", "k", `{"id":"a","amounts":[5]}`, at(other))
				d.WantDeadLetter("hours", topology.Conflict,
					"the contribution was posted before with another time, which is in other windows")
			}
			if after := rows(); after != before {
				t.Errorf("the rows were %s and are %s", before, after)
			}
			d.Pipe("entries", "k", `{"id":"a","amounts":[5]}`, at(8*60))
			d.WantCounts("hours.accepted=6 hours.dead-letter-conflict=4 hours.duplicates=3")
		})
	}
}

func TestWindowMistakes(t *testing.T) {
	post := func(windows ledger.Windows, opts []ledger.Option, texts ...string) {
		t.Helper()
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			ledger.PostWindowed(topology.From(b, entryTopic), "hours", windows, contribution, opts...)
			return processortest.Above()
		}, texts...)
	}
	post(ledger.Windows{Size: time.Hour}, nil, "both must be whole milliseconds")
	post(ledger.Windows{Size: time.Hour, Advance: 7 * time.Minute}, nil, "the size must be a multiple of the advance")
	post(ledger.Windows{Size: time.Hour, Advance: time.Second}, nil, "a record would be in 3600 of them, 1000 are allowed")
	post(ledger.Tumbling(time.Hour), []ledger.Option{ledger.EventTime[string, Entry](nil)}, "EventTime: the function is nil")
	other := func(topology.Record[int64, Entry]) (int64, error) { return 0, nil }
	post(ledger.Tumbling(time.Hour), []ledger.Option{ledger.EventTime(other)}, "EventTime: the function is for other types")
	post(ledger.Tumbling(time.Hour), []ledger.Option{ledger.Key(schemas.Int64())}, "Key: the codec is not one for string")
}

// Price is an entry with decimals, as they come in JSON.
type Price struct {
	ID     string         `json:"id"`
	Amount ledger.Decimal `json:"amount"`
}

// TestDecimals: money is exact: what fits into the scale counts to the last unit, and what does
// not, or leaves the range, is an error that leaves no trace. Requirement E5.
func TestDecimals(t *testing.T) {
	var l ledger.Ledger[string, Price]
	d := processortest.New(t, func(b *topology.Builder) {
		s := topology.From(b, topology.Topic("prices", schemas.String(), schemas.JSON[Price]()))
		l = ledger.Post(s, "ledger", func(r topology.Record[string, Price]) (ledger.Contribution, error) {
			return ledger.Contribution{ID: r.Value.ID, Decimals: []ledger.Decimal{r.Value.Amount}}, nil
		}, ledger.Scale("amount", 2))
		topology.MapValues(l.Changes(), "decimal", func(v ledger.Balance) ([]ledger.Decimal, error) {
			return l.Decimals(v), nil
		}).Into(topology.Topic("balances", schemas.String(), schemas.JSON[[]ledger.Decimal]()))
	})
	for i, amount := range []string{`0.1`, `"0.20"`, `1e-2`, `-5`, `90071992547409.93`} {
		d.Pipe("prices", "k", fmt.Sprintf(`{"id":"%d","amount":%s}`, i, amount))
	}
	d.Want("balances", `["0.10"]`, `["0.30"]`, `["0.31"]`, `["-4.69"]`, `["90071992547405.24"]`)
	// The same number in another form is the same contribution.
	d.Pipe("prices", "k", `{"id":"0","amount":"0.100"}`)
	d.Pipe("prices", "k", `{"id":"0","amount":0.11}`)
	d.WantDeadLetter("ledger", topology.Conflict, errConflict)
	before := content(d)
	for amount, reason := range map[string]string{
		`0.001`:                 "the number has more places behind the point than there are in column amount",
		`92233720368547758.08`:  "the number is outside the range of 64 bits",
		`922337203685477580`:    "the number is outside the range of 64 bits in column amount",
		`"92233720368547758.0"`: "the balance in column amount would leave the range of 64 bits",
	} {
		d.Pipe("prices", "k", `{"id":"z","amount":`+amount+`}`)
		letters, err := d.DeadLetters()
		if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Info.Message, reason) {
			t.Errorf("%s: %+v, %v", amount, letters, err)
		}
	}
	if after := content(d); after != before {
		t.Errorf("the stores changed from %s to %s", before, after)
	}
}

// TestDecimalsOrAmounts: amounts are stated in one way, and in the columns that there are.
func TestDecimalsOrAmounts(t *testing.T) {
	for reason, c := range map[string]ledger.Contribution{
		"the contribution has amounts and decimals": {ID: "a", Amounts: []int64{1}, Decimals: []ledger.Decimal{{Units: 1}}},
		"the contribution has 2 amounts":            {ID: "a", Decimals: []ledger.Decimal{{Units: 1}, {Units: 1}}},
		"than there are":                            {ID: "a", Decimals: []ledger.Decimal{{Units: 1}, {Units: 1, Scale: 200}}},
	} {
		d := processortest.New(t, func(b *topology.Builder) {
			ledger.Post(topology.From(b, entryTopic), "ledger", func(entry) (ledger.Contribution, error) { return c, nil },
				ledger.OnError(topology.Validation, topology.Policy{Action: topology.Stop}))
		})
		if err := d.PipeRaw("entries", []byte("k"), []byte(`{}`)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("Pipe returned %v, want %q", err, reason)
		}
	}
	if form, err := json.Marshal(ledger.Decimal{Units: -5, Scale: 2}); err != nil || string(form) != `"-0.05"` {
		t.Errorf("%s, %v", form, err)
	}
}

// TestScaleIsStored: another scale is another topology, and no scale is what it always was.
func TestScaleIsStored(t *testing.T) {
	build := func(opts ...ledger.Option) *topology.Topology {
		b := topology.NewBuilder("app", topology.DeadLetters("dead"))
		routed(b, opts...)
		top, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return top
	}
	none, zero, two := build(), build(ledger.Scale("amount", 0)), build(ledger.Scale("amount", 2))
	if none.Fingerprint() != zero.Fingerprint() || none.Fingerprint() == two.Fingerprint() {
		t.Error("the fingerprint does not follow the scale")
	}
	if got := two.Subtopologies()[0].Stores[0].ValueFormat; got != "ledger-sum-2:amount/2" {
		t.Error(got)
	}
}
