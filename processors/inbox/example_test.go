package inbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func ExampleDedupe() {
	type Capture struct {
		EventID string `json:"event_id"`
		Amount  int64  `json:"amount"`
	}
	captures := topology.Topic("captures", schemas.String(), schemas.JSON[Capture]())
	once := topology.Topic("captures-once", schemas.String(), schemas.JSON[Capture]())
	disputed := topology.Topic("captures-disputed", schemas.String(), schemas.JSON[Capture]())

	b := topology.NewBuilder("payments", topology.DeadLetters("payments.dead"))
	eventID := func(r topology.Record[string, Capture]) (string, error) { return r.Value.EventID, nil }
	in := inbox.Dedupe(topology.From(b, captures), "inbox", eventID, inbox.Forever(), inbox.EmitConflicts())
	in.Accepted().Into(once)
	in.Conflicts().Into(disputed)
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
		`{"event_id":"e1","amount":100}`,
		`{"amount":100, "event_id":"e1"}`, // the same, spelled in another way
		`{"event_id":"e1","amount":999}`,  // the same id, and something else
		`{"amount":5}`,                    // no id
	} {
		if err := d.PipeRaw("captures", []byte("account-7"), []byte(value)); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	// Output:
	// accepted 1
	// conflicts 1
	// dead-letter-validation 1
	// duplicates 1
}

// Order is an order with the document that it was read from.
type Order struct {
	ID       string `json:"id"`
	document json.RawMessage
}

func (o *Order) UnmarshalJSON(b []byte) error {
	type fields Order // without the methods
	o.document = slices.Clone(b)
	return json.Unmarshal(b, (*fields)(o))
}

func (o Order) MarshalJSON() ([]byte, error) {
	if o.document == nil { // it was not read
		type fields Order
		return json.Marshal(fields(o))
	}
	return o.document, nil
}

// A producer may add fields that this program does not know yet. A type that keeps its document has
// them compared.
func ExampleDedupe_wholeDocuments() {
	orders := topology.Topic("orders", schemas.String(), schemas.JSON[Order]())
	b := topology.NewBuilder("shop", topology.DeadLetters("orders.dead"))
	inbox.Dedupe(topology.From(b, orders), "inbox", func(r topology.Record[string, Order]) (string, error) { return r.Value.ID, nil }, inbox.Forever())
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
		`{"id":"o1","coupon":"SPRING"}`,
		`{"coupon": "SPRING", "id": "o1"}`,
		`{"id":"o1","coupon":"AUTUMN"}`, // differs where Order knows nothing
	} {
		if err := d.PipeRaw("orders", []byte("customer-7"), []byte(value)); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	// Output:
	// accepted 1
	// dead-letter-conflict 1
	// duplicates 1
}

func ExampleBusinessKey() {
	type Capture struct {
		EventID string `json:"event_id"`
		Order   string `json:"order"`
		Amount  int64  `json:"amount"`
	}
	captures := topology.Topic("captures", schemas.String(), schemas.JSON[Capture]())
	b := topology.NewBuilder("payments", topology.DeadLetters("payments.dead"))
	in := inbox.Dedupe(topology.From(b, captures), "inbox",
		func(r topology.Record[string, Capture]) (string, error) { return r.Value.EventID, nil }, inbox.Forever(),
		inbox.BusinessKey(func(r topology.Record[string, Capture]) (string, error) { return r.Value.Order, nil }),
		inbox.PayloadWithout("event_id"))
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
	for _, capture := range []Capture{
		{"e1", "order-7", 100},
		{"e2", "order-7", 100}, // the button was pressed again
		{"e3", "order-7", 999}, // the same order, and something else
	} {
		if err := topologytest.Pipe(d, captures, "account-7", capture); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	seen, err := topologytest.Store(d, in.Store(), 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for pair, err := range seen.All() {
		fmt.Println(pair.Key, pair.Value.Outcome.Status(), err)
	}
	// Output:
	// accepted 1
	// dead-letter-conflict 1
	// duplicates 1
	// e1 PROCESSED <nil>
	// e2 DUPLICATE <nil>
}

// Binary UUIDs in a header are the ids. Operators see them in hexadecimal digits.
func ExampleReadBinaryIDs() {
	events := topology.Topic("events", schemas.String(), schemas.String())
	b := topology.NewBuilder("events", topology.DeadLetters("events.dead"))
	in := inbox.Dedupe(topology.From(b, events), "inbox", envelope.EventID[string, string], inbox.Forever(), inbox.ReadBinaryIDs())
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
	uuid := [16]byte{0x01, 0x8f, 0x3a, 0xc4, 0xde, 0x10, 0x7b, 0x52, 0x9c, 0x1a, 0x5e, 0x00, 0xfa, 0xce, 0xd0, 0x0d}
	for range 2 {
		id := topologytest.Header(envelope.HeaderEventID, string(uuid[:]))
		if err := topologytest.Pipe(d, events, "key", "paid", id); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	seen, err := topologytest.Store(d, in.Store(), 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	for pair, err := range seen.All() {
		fmt.Println(pair.Key, pair.Value.Outcome.Status(), err)
	}
	// Output:
	// accepted 1
	// duplicates 1
	// 018f3ac4de107b529c1a5e00faced00d PROCESSED <nil>
}

func ExampleGlobally() {
	events := topology.Topic("events", schemas.String(), schemas.String())
	once := topology.Topic("events-once", schemas.String(), schemas.String())
	b := topology.NewBuilder("events", topology.DeadLetters("events.dead"))
	id := func(r topology.Record[string, string]) (string, error) { return r.Value, nil }
	inbox.Dedupe(topology.From(b, events), "inbox", id, inbox.Forever(), inbox.Globally(schemas.String(), schemas.String())).
		Accepted().Into(once)
	t, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := topologytest.New(t, topologytest.Partitions(2))
	if err != nil {
		fmt.Println(err)
		return
	}
	for partition, key := range []string{"here", "there"} {
		if err := topologytest.Pipe(d, events, key, "event-1", topologytest.ToPartition(int32(partition))); err != nil {
			fmt.Println(err)
			return
		}
	}
	records, err := topologytest.Output(d, once)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range records {
		fmt.Println(r.Key, r.Value)
	}
	// Output: here event-1
}

func ExampleArchive() {
	events := topology.Topic("events", schemas.String(), schemas.String())
	archive := topology.Topic("events-archive", schemas.String(), inbox.EntryCodec())
	b := topology.NewBuilder("events")
	id := func(r topology.Record[string, string]) (string, error) { return r.Value, nil }
	inbox.Dedupe(topology.From(b, events), "inbox", id, inbox.Retain(24*time.Hour), inbox.Archive(archive))
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
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, event := range []string{"event-1", "event-2"} {
		at := topologytest.At(day.AddDate(0, 0, i))
		if err := topologytest.Pipe(d, events, "key", event, at); err != nil {
			fmt.Println(err)
			return
		}
	}
	records, err := topologytest.Output(d, archive)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range records {
		fmt.Println(r.Key, r.Value.Outcome, time.UnixMilli(r.Value.FirstSeen).UTC())
	}
	// Output: event-1 accepted 2026-01-01 00:00:00 +0000 UTC
}

// An inbox with a retention uses the timestamps of the records. A record that is older than the
// dedupe window is late, and never taken for new.
func ExampleRetain() {
	events := topology.Topic("events", schemas.String(), schemas.String())
	late := topology.Topic("events-late", schemas.String(), schemas.String())
	b := topology.NewBuilder("events")
	id := func(r topology.Record[string, string]) (string, error) { return r.Value, nil }
	in := inbox.Dedupe(topology.From(b, events), "inbox", id, inbox.Retain(24*time.Hour), inbox.EmitLate())
	in.Late().Into(late)
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
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, event := range []struct {
		id    string
		after time.Duration
	}{{"event-1", 0}, {"event-1", 23 * time.Hour}, {"event-2", 24 * time.Hour}, {"event-1", 0}} {
		if err := topologytest.Pipe(d, events, "key", event.id, topologytest.At(first.Add(event.after))); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	records, err := topologytest.Output(d, late)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range records {
		fmt.Println("nobody knows:", r.Value)
	}
	// Output:
	// accepted 2
	// duplicates 1
	// late 1
	// nobody knows: event-1
}

// A record without a usable id is a dead letter, unless the program uses this stream: with the
// reason, for example to show it to a person.
func ExampleInbox_Malformed() {
	events := topology.Topic("events", schemas.String(), schemas.String())
	unusable := topology.Topic("events-unusable", schemas.String(), schemas.String())
	b := topology.NewBuilder("events")
	id := func(r topology.Record[string, string]) (string, error) {
		number, _, found := strings.Cut(r.Value, ":")
		switch {
		case !found:
			return "", nil
		case strings.Trim(number, "0123456789") != "":
			return "", schemas.Reason("the id is no number")
		}
		return number, nil
	}
	in := inbox.Dedupe(topology.From(b, events), "inbox", id, inbox.Forever(), inbox.EmitMissing(), inbox.EmitMalformed())
	in.Missing().Merge("unusable", in.Malformed()).Into(unusable)
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
	for _, event := range []string{"17:paid", "paid", "x7:paid"} {
		if err := topologytest.Pipe(d, events, "account-7", event); err != nil {
			fmt.Println(err)
			return
		}
	}
	for _, c := range d.Counts() {
		fmt.Println(c.Outcome, c.N)
	}
	records, err := topologytest.Output(d, unusable)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range records {
		reason, _ := r.Header(inbox.HeaderReason)
		fmt.Printf("%q: %s\n", r.Value, reason)
	}
	// Output:
	// accepted 1
	// malformed 1
	// missing 1
	// "paid": the id is missing
	// "x7:paid": the id is no number
}
