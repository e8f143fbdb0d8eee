package ledger_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// delivery is one step of a random history. Few ids and amounts make many collisions, and the large
// amounts overflow.
//
// A delivery of copies has one amount, so that many records differ in their payload alone.
type delivery struct {
	Ledger  string
	Entry   Entry
	Fails   bool
	Restart bool
}

var deliveries, copies = deliveriesOf(-3, 0, 5, math.MaxInt64, math.MinInt64), deliveriesOf(5)

func deliveriesOf(amounts ...int64) *rapid.Generator[[]delivery] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) delivery { return drawDelivery(t, amounts) }), 1, 60)
}

func drawDelivery(t *rapid.T, amounts []int64) delivery {
	amount := rapid.SampledFrom(amounts)
	id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	return delivery{
		Ledger: rapid.SampledFrom([]string{"k", "", "k\x00"}).Draw(t, "ledger"),
		Entry: Entry{
			ID:       id.Draw(t, "id"),
			Amounts:  []int64{amount.Draw(t, "x"), amount.Draw(t, "y")},
			Corrects: rapid.OneOf(rapid.Just(""), rapid.Just(""), id).Draw(t, "corrects"),
			Note:     rapid.SampledFrom([]string{"", "", "", "x"}).Draw(t, "note"),
		}.reversing(rapid.OneOf(rapid.Just(""), rapid.Just(""), id).Draw(t, "reverses"), rapid.Bool().Draw(t, "derived")),
		Fails:   rapid.IntRange(0, 5).Draw(t, "fails") == 0,
		Restart: rapid.IntRange(0, 9).Draw(t, "restart") == 0,
	}
}

// reversing makes a reversal of the entry, with the amounts that it has or with derived ones.
func (e Entry) reversing(id string, derived bool) Entry {
	if id == "" {
		return e
	}
	e.Corrects, e.Reverses = "", id
	if derived {
		e.Amounts = nil
	}
	return e
}

// reversed returns the contribution that e reverses, and its amounts with the other sign; ok is
// false if these leave the range.
func (m model) reversed(ledgerKey string, e Entry) (original posted, opposite []int64, ok bool) {
	original, known := m.ledgers[ledgerKey][e.Reverses]
	for _, amount := range original.Amounts {
		if amount == math.MinInt64 {
			return original, nil, false
		}
		opposite = append(opposite, -amount)
	}
	return original, opposite, known
}

// hasReversal reports whether a contribution was reversed.
func (m model) hasReversal(ledgerKey, id string) bool {
	for _, e := range m.ledgers[ledgerKey] {
		if e.Reverses == id {
			return true
		}
	}
	return false
}

// model is what the ledgers should be: contributions by ledger and id, and nothing that is derived
// from them.
type model struct {
	ledgers map[string]map[string]posted
	// compares says that payloads are compared.
	compares bool
}

// posted is an entry with the amounts that counted, and as it came.
type posted struct {
	Entry
	payload string
}

// apply returns the topic that the delivery goes to, and the balance if it is accepted.
func (m model) apply(step delivery) (topic string, balance ledger.Balance) {
	e, payload := step.Entry, payloadOf(step.Entry)
	first, seen := m.ledgers[step.Ledger][e.ID]
	_, known := m.ledgers[step.Ledger][e.Corrects]
	_, opposite, reversible := m.reversed(step.Ledger, e)
	_, reversedKnown := m.ledgers[step.Ledger][e.Reverses]
	switch {
	case e.Corrects == e.ID, e.Reverses == e.ID:
		return "dead", balance
	case seen && (!m.compares || first.payload == payload) && first.Corrects == e.Corrects && first.Reverses == e.Reverses &&
		(slices.Equal(first.Amounts, e.Amounts) || e.Reverses != "" && e.Amounts == nil):
		return "duplicates", balance
	case seen:
		return "conflicts", balance
	case e.Reverses != "" && reversedKnown && m.hasReversal(step.Ledger, e.Reverses):
		return "conflicts", balance
	case e.Reverses != "" && (!reversible || e.Amounts != nil && !slices.Equal(e.Amounts, opposite)):
		return "dead", balance
	case e.Corrects != "" && !known, step.Fails:
		return "dead", balance
	}
	if e.Reverses != "" {
		e.Amounts = opposite
	}
	balance = ledger.Balance{Count: int64(len(m.ledgers[step.Ledger])) + 1, Contribution: e.ID}
	for column, amount := range e.Amounts {
		sum := big.NewInt(amount)
		for _, before := range m.ledgers[step.Ledger] {
			sum.Add(sum, big.NewInt(before.Amounts[column]))
		}
		if !sum.IsInt64() {
			return "dead", balance
		}
		balance.Amounts = append(balance.Amounts, sum.Int64())
	}
	if m.ledgers[step.Ledger] == nil {
		m.ledgers[step.Ledger] = map[string]posted{}
	}
	m.ledgers[step.Ledger][e.ID] = posted{e, payload}
	return "balances", balance
}

// payloadOf is what ComparePayload compares of an entry.
func payloadOf(e Entry) string {
	form, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(form)
}

// checkHistory compares a ledger with the model, step by step, and its two stores with each other.
func checkHistory(
	tb testing.TB, history []delivery, compares bool, declare func(b *topology.Builder) ledger.Ledger[string, Entry],
) error {
	var l ledger.Ledger[string, Entry]
	d := processortest.New(tb, func(b *topology.Builder) { l = declare(b) })
	m := model{map[string]map[string]posted{}, compares}
	for i, step := range history {
		if step.Restart {
			d.Restart()
		}
		want, balance := m.apply(step)
		got, records, err := deliver(d, step)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("step %d of %+v went to %q, want %q", i, history, got, want)
		}
		form, err := json.Marshal(balance)
		if want == "balances" && (err != nil || string(records[0].Value) != string(form)) {
			return fmt.Errorf("step %d of %+v gave %s, want %s", i, history, records[0].Value, form)
		}
		if err := checkStores(d, l); err != nil {
			return fmt.Errorf("step %d of %+v: %w", i, history, err)
		}
	}
	return m.compare(d)
}

// pipe pipes the record of a step.
func pipe(d *processortest.Driver, step delivery) error {
	var opts []topologytest.PipeOption
	if step.Fails {
		opts = append(opts, topologytest.Header("fail", ""))
	}
	return topologytest.Pipe(d.Driver, entryTopic, step.Ledger, step.Entry, opts...)
}

// deliver returns the names of the topics that the record went to, and what they got.
func deliver(d *processortest.Driver, step delivery) (topics string, records []topologytest.Raw, err error) {
	if err := pipe(d, step); err != nil {
		return "", nil, err
	}
	for _, topic := range []string{"balances", "duplicates", "conflicts", "dead"} {
		for _, r := range d.Take(topic) {
			topics += topic
			records = append(records, r)
		}
	}
	return topics, records, nil
}

func checkStores(d *processortest.Driver, l ledger.Ledger[string, Entry]) error {
	contributions, err := topologytest.Store(d.Driver, l.ContributionStore(), 0)
	if err != nil {
		return err
	}
	balances, err := topologytest.Store(d.Driver, l.BalanceStore(), 0)
	if err != nil {
		return err
	}
	return ledger.CheckStores(contributions, balances)
}

func (m model) compare(d *processortest.Driver) error {
	n := 0
	for _, contributions := range m.ledgers {
		n += len(contributions)
	}
	if got := len(d.Rows("ledger-contributions", 0)); got != n {
		return fmt.Errorf("there are %d contributions, want %d", got, n)
	}
	if got := len(d.Rows("ledger-balances", 0)); got != len(m.ledgers) {
		return fmt.Errorf("there are %d balances, want %d", got, len(m.ledgers))
	}
	return nil
}

func declare(b *topology.Builder) ledger.Ledger[string, Entry] {
	return routed(b, ledger.Columns("x", "y"))
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if err := checkHistory(t, deliveries.Draw(rt, "history"), false, declare); err != nil {
			rt.Fatal(err)
		}
	})
}

func declareComparing(b *topology.Builder) ledger.Ledger[string, Entry] {
	return routed(b, ledger.Columns("x", "y"), ledger.ComparePayload())
}

func TestModelComparingPayloads(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if err := checkHistory(t, copies.Draw(rt, "history"), true, declareComparing); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestModelFindsPayloadsNotCompared is the control: a ledger that takes another payload for a
// duplicate does not pass for one that compares payloads, nor the other way round.
func TestModelFindsPayloadsNotCompared(t *testing.T) {
	for name, test := range map[string]struct {
		compares bool
		declare  func(b *topology.Builder) ledger.Ledger[string, Entry]
	}{"compares none": {true, declare}, "compares all": {false, declareComparing}} {
		found := false
		for seed := range 50 {
			found = found || checkHistory(t, copies.Example(seed), test.compares, test.declare) != nil
		}
		if !found {
			t.Errorf("a ledger that %s passes", name)
		}
	}
}

// TestUndone: what crashes and aborts undo of a history comes again once.
// Row of the failure matrix: crash after processing before flush.
func TestUndone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := deliveries.Draw(rt, "history")
		err := processortest.CheckUndone(t, func(b *topology.Builder) { declare(b) },
			processortest.Steps(len(history)).Draw(rt, "steps"), func(d *processortest.Driver, i int) {
				if err := pipe(d, history[i]); err != nil {
					rt.Fatal(err)
				}
			})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// TestModelFindsBrokenLedger is the control: ledgers that are told of other contributions than the
// records hold are found.
func TestModelFindsBrokenLedger(t *testing.T) {
	broken := map[string]func(c *ledger.Contribution, r entry){
		"counts deliveries": func(c *ledger.Contribution, r entry) {
			_, _, offset := r.Source()
			c.ID += fmt.Sprint(offset)
		},
		"ignores amounts":     func(c *ledger.Contribution, _ entry) { c.Amounts = []int64{1, 1} },
		"ignores corrections": func(c *ledger.Contribution, _ entry) { c.Corrects = "" },
		"ignores reversals":   func(c *ledger.Contribution, _ entry) { c.Reverses = "" },
		"loses a column":      func(c *ledger.Contribution, _ entry) { c.Amounts[1] = 0 },
	}
	for name, distort := range broken {
		found := false
		for seed := range 50 {
			found = found || checkHistory(t, deliveries.Example(seed), false,
				func(b *topology.Builder) ledger.Ledger[string, Entry] {
					post := func(r entry) (ledger.Contribution, error) {
						c, err := contribution(r)
						if c.Reverses != "" && c.Amounts == nil {
							return c, err
						}
						c.Amounts = slices.Clone(c.Amounts)
						distort(&c, r)
						return c, err
					}
					return routedFrom(b, post, ledger.Columns("x", "y"))
				}) != nil
		}
		if !found {
			t.Errorf("a ledger that %s passes", name)
		}
	}
}

// TestAnyOrder: contributions without corrections come to the same balance in any order, however
// often each of them comes. Row of the failure matrix: duplicate delivery.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		amounts := rapid.SliceOfN(rapid.Int64Range(-1000, 1000), 1, 20).Draw(rt, "amounts")
		total := int64(0)
		indices := make([]int, len(amounts))
		for i, amount := range amounts {
			total += amount
			indices[i] = i
		}
		order := rapid.Permutation(indices).Draw(rt, "order")
		order = append(order, rapid.SliceOf(rapid.SampledFrom(indices)).Draw(rt, "again")...)
		d := newBare(t)
		for _, i := range order {
			d.Pipe("entries", "k", fmt.Sprintf(`{"id":"%d","amounts":[%d]}`, i, amounts[i]))
		}
		changes := d.Take("balances")
		var last ledger.Balance
		if err := json.Unmarshal(changes[len(changes)-1].Value, &last); err != nil {
			rt.Fatal(err)
		}
		if len(changes) != len(amounts) || last.Count != int64(len(amounts)) || last.Amounts[0] != total {
			rt.Fatalf("the last of %d balances is %+v, want %d in %d", len(changes), last, total, len(amounts))
		}
	})
}
