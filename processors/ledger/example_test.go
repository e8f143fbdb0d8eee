package ledger_test

import (
	"fmt"
	"time"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func ExamplePost() {
	type Booking struct {
		ID       string `json:"id"`
		Cents    int64  `json:"cents"`
		Reverses string `json:"reverses,omitempty"`
	}
	bookings := topology.Topic("bookings", schemas.String(), schemas.JSON[Booking]())
	balances := topology.Topic("balances", schemas.String(), schemas.JSON[ledger.Balance]())

	b := topology.NewBuilder("accounts", topology.DeadLetters("accounts.dead"))
	contribution := func(r topology.Record[string, Booking]) (ledger.Contribution, error) {
		c := ledger.Contribution{ID: r.Value.ID, Reverses: r.Value.Reverses}
		if c.Reverses == "" { // the amounts of a reversal follow from what it reverses
			c.Amounts = []int64{r.Value.Cents}
		}
		return c, nil
	}
	accounts := ledger.Post(topology.From(b, bookings), "accounts", contribution, ledger.Columns("cents"))
	accounts.Changes().Into(balances)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	d, err := topologytest.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, booking := range []Booking{
		{ID: "b1", Cents: 1000},
		{ID: "b2", Cents: 250},
		{ID: "b1", Cents: 1000},    // again
		{ID: "b3", Reverses: "b1"}, // takes b1 back
	} {
		if err := topologytest.Pipe(d, bookings, "account-7", booking); err != nil {
			fmt.Println(err)
			return
		}
	}
	changes, err := topologytest.Output(d, balances)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range changes {
		fmt.Printf("%s %+v\n", r.Key, r.Value)
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	// Output:
	// account-7 {Count:1 Amounts:[1000] Contribution:b1}
	// account-7 {Count:2 Amounts:[1250] Contribution:b2}
	// account-7 {Count:3 Amounts:[250] Contribution:b3}
	// accepted 3
	// duplicates 1
}

func ExampleCheckStores() {
	entries := topology.Topic("entries", schemas.String(), schemas.Int64())
	b := topology.NewBuilder("accounts")
	accounts := ledger.Post(topology.From(b, entries), "accounts",
		func(r topology.Record[string, int64]) (ledger.Contribution, error) {
			_, _, offset := r.Source() // an ingestion key, where the source has no id
			return ledger.Contribution{ID: fmt.Sprint(offset), Amounts: []int64{r.Value}}, nil
		})
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, amount := range []int64{5, 7} {
		if err := topologytest.Pipe(d, entries, "account-7", amount); err != nil {
			fmt.Println(err)
			return
		}
	}

	contributions, err := topologytest.Store(d, accounts.ContributionStore(), 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	balances, err := topologytest.Store(d, accounts.BalanceStore(), 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ledger.CheckStores(contributions, balances))

	if err := balances.Put("account-7", ledger.Sum{Count: 2, Amounts: []int64{13}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ledger.CheckStores(contributions, balances))
	// Output:
	// <nil>
	// ledger: the balance of a ledger (its key has 9 bytes) is not what its contributions come to: column 1 of 1
}

func ExamplePostWindowed() {
	type Sale struct {
		ID    string         `json:"id"`
		Price ledger.Decimal `json:"price"`
	}
	sales := topology.Topic("sales", schemas.String(), schemas.JSON[Sale]())
	revenue := topology.Topic("revenue", ledger.WindowCodec(schemas.String()), schemas.JSON[ledger.Balance]())
	b := topology.NewBuilder("shop", topology.DeadLetters("shop.dead"))
	hours := ledger.PostWindowed(topology.From(b, sales), "hours", ledger.Tumbling(time.Hour),
		func(r topology.Record[string, Sale]) (ledger.Contribution, error) {
			return ledger.Contribution{ID: r.Value.ID, Decimals: []ledger.Decimal{r.Value.Price}}, nil
		}, ledger.Columns("price"), ledger.Scale("price", 2))
	hours.Changes().Into(revenue)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, sale := range []struct {
		minute      int
		id, decimal string
	}{{5, "s1", "0.10"}, {61, "s2", "1"}, {50, "s3", "0.2"}, {5, "s1", "0.10"}} {
		price, err := ledger.ParseDecimal(sale.decimal)
		if err != nil {
			fmt.Println(err)
			return
		}
		at := topologytest.At(noon.Add(time.Duration(sale.minute) * time.Minute))
		if err := topologytest.Pipe(d, sales, "berlin", Sale{sale.id, price}, at); err != nil {
			fmt.Println(err)
			return
		}
	}
	changes, err := topologytest.Output(d, revenue)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range changes {
		fmt.Println(r.Key.Key, time.UnixMilli(r.Key.Start).UTC().Format("15:04"), r.Value.Contribution, hours.Decimals(r.Value))
	}
	// Output:
	// berlin 12:00 s1 [0.10]
	// berlin 13:00 s2 [1.00]
	// berlin 12:00 s3 [0.30]
}

// A reversed contribution cannot be reversed again. The reversal can be reversed: then the amounts
// of the contribution count again.
func ExampleContribution_reversal() {
	type Booking struct {
		ID       string `json:"id"`
		Cents    int64  `json:"cents,omitempty"`
		Reverses string `json:"reverses,omitempty"`
	}
	bookings := topology.Topic("bookings", schemas.String(), schemas.JSON[Booking]())
	balances := topology.Topic("balances", schemas.String(), schemas.JSON[ledger.Balance]())
	disputed := topology.Topic("bookings-disputed", schemas.String(), schemas.JSON[Booking]())
	b := topology.NewBuilder("accounts", topology.DeadLetters("accounts.dead"))
	accounts := ledger.Post(topology.From(b, bookings), "accounts",
		func(r topology.Record[string, Booking]) (ledger.Contribution, error) {
			if r.Value.Reverses != "" {
				return ledger.Contribution{ID: r.Value.ID, Reverses: r.Value.Reverses}, nil
			}
			return ledger.Contribution{ID: r.Value.ID, Amounts: []int64{r.Value.Cents}}, nil
		}, ledger.EmitConflicts())
	accounts.Changes().Into(balances)
	accounts.Conflicts().Into(disputed)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, booking := range []Booking{
		{ID: "b1", Cents: 1000},
		{ID: "r1", Reverses: "b1"},
		{ID: "r2", Reverses: "b1"}, // it was taken back already
		{ID: "r3", Reverses: "r1"},
	} {
		if err := topologytest.Pipe(d, bookings, "account-7", booking); err != nil {
			fmt.Println(err)
			return
		}
	}
	changes, err := topologytest.Output(d, balances)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range changes {
		fmt.Println(r.Value.Contribution, r.Value.Amounts)
	}
	conflicts, err := topologytest.Output(d, disputed)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range conflicts {
		fmt.Println(r.Value.ID, "is a conflict")
	}
	// Output:
	// b1 [1000]
	// r1 [0]
	// r3 [1000]
	// r2 is a conflict
}

// Decimals are counted in units of the last place of their column, and never rounded.
func ExampleScale() {
	type Sale struct {
		ID    string         `json:"id"`
		Price ledger.Decimal `json:"price"`
	}
	sales := topology.Topic("sales", schemas.String(), schemas.JSON[Sale]())
	revenue := topology.Topic("revenue", schemas.String(), schemas.JSON[ledger.Balance]())
	b := topology.NewBuilder("shop", topology.DeadLetters("shop.dead"))
	shops := ledger.Post(topology.From(b, sales), "shops",
		func(r topology.Record[string, Sale]) (ledger.Contribution, error) {
			return ledger.Contribution{ID: r.Value.ID, Decimals: []ledger.Decimal{r.Value.Price}}, nil
		}, ledger.Columns("price"), ledger.Scale("price", 2))
	shops.Changes().Into(revenue)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, value := range []string{
		`{"id":"s1","price":0.1}`,
		`{"id":"s2","price":"0.20"}`,
		`{"id":"s3","price":0.005}`, // has no place in a column of two
		`{"id":"s4","price":1e2}`,
	} {
		if err := d.PipeRaw("sales", []byte("berlin"), []byte(value)); err != nil {
			fmt.Println(err)
			return
		}
	}
	changes, err := topologytest.Output(d, revenue)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range changes {
		fmt.Println(r.Value.Contribution, r.Value.Amounts, shops.Decimals(r.Value))
	}
	letters, err := d.DeadLetters()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range letters {
		fmt.Println("dead:", l.Info.Message)
	}
	// Output:
	// s1 [10] [0.10]
	// s2 [30] [0.30]
	// s4 [10030] [100.30]
	// dead: the number has more places behind the point than there are in column price
}

// A ledger that compares payloads needs no inbox before it: a copy is a duplicate, and a known id
// with another payload is a conflict, even if the amount is the same.
func ExampleComparePayload() {
	type Payment struct {
		ID    string `json:"id"`
		Cents int64  `json:"cents"`
		Payer string `json:"payer"`
	}
	payments := topology.Topic("payments", schemas.String(), schemas.JSON[Payment]())
	balances := topology.Topic("balances", schemas.String(), schemas.JSON[ledger.Balance]())
	disputed := topology.Topic("payments-disputed", schemas.String(), schemas.JSON[Payment]())
	b := topology.NewBuilder("accounts", topology.DeadLetters("accounts.dead"))
	accounts := ledger.Post(topology.From(b, payments), "accounts",
		func(r topology.Record[string, Payment]) (ledger.Contribution, error) {
			return ledger.Contribution{ID: r.Value.ID, Amounts: []int64{r.Value.Cents}}, nil
		}, ledger.ComparePayload(), ledger.EmitConflicts())
	accounts.Changes().Into(balances)
	accounts.Conflicts().Into(disputed)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(t)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, payment := range []Payment{{"p1", 1000, "Ada"}, {"p1", 1000, "Ada"}, {"p1", 1000, "Eve"}} {
		if err := topologytest.Pipe(d, payments, "account-7", payment); err != nil {
			fmt.Println(err)
			return
		}
	}
	changes, err := topologytest.Output(d, balances)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range changes {
		fmt.Println("posted", r.Value.Contribution, r.Value.Amounts)
	}
	conflicts, err := topologytest.Output(d, disputed)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range conflicts {
		fmt.Println("a conflict:", r.Value.ID, r.Value.Payer)
	}
	// Output:
	// posted p1 [1000]
	// a conflict: p1 Eve
}
