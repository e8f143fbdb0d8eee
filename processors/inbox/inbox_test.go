package inbox_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

func TestOutcomes(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Want("accepted", `{"id":"a","amount":1}`)

	// Another spelling of the same payload, and another payload.
	d.Pipe("payments", "k", `{ "amount": 1, "id": "\u0061" }`)
	d.Want("duplicates", `{"id":"a","amount":1}`)
	d.Pipe("payments", "k", `{"id":"a","amount":2}`)
	d.Want("conflicts", `{"id":"a","amount":2}`)
	// The conflict has changed nothing.
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Want("duplicates", `{"id":"a","amount":1}`)

	d.Pipe("payments", "k", `{"id":"b","amount":1}`)
	d.Want("accepted", `{"id":"b","amount":1}`)
	d.Want("dead")
	d.WantCounts("inbox.accepted=2 inbox.conflicts=1 inbox.duplicates=2")
}

// TestUnroutedOutcomes: a duplicate ends without a word, and a conflict does not.
func TestUnroutedOutcomes(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Forever()).Accepted().Into(acceptedTopic)
	})
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	before := d.Rows("inbox", 0)
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Want("dead")
	d.Pipe("payments", "k", `{"id":"a","amount":2}`)
	d.WantDeadLetter("inbox", topology.Conflict, "the id was seen before with another payload")
	d.Want("accepted", `{"id":"a","amount":1}`)
	d.WantCounts("inbox.accepted=1 inbox.dead-letter-conflict=1 inbox.duplicates=1")
	if after := d.Rows("inbox", 0); !maps.Equal(before, after) {
		t.Errorf("duplicate and conflict changed the store from %x to %x", before, after)
	}
}

// TestConflictPolicy: OnError is how a conflict stops the task.
func TestConflictPolicy(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Forever(),
			inbox.OnError(topology.Conflict, topology.Policy{Action: topology.Stop}))
	})
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	err := d.PipeRaw("payments", []byte("k"), []byte(`{"id":"a","amount":2}`))
	var failure *topology.Failure
	if !errors.As(err, &failure) || failure.Class != topology.Conflict {
		t.Fatalf("Pipe returned %v", err)
	}
}

func TestMissingID(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	d.Pipe("payments", "k", `{"amount":1}`)
	d.WantDeadLetter("inbox", topology.Validation, "the id is missing")
	d.Want("accepted")

	d = processortest.New(t, func(b *topology.Builder) { routed(b, inbox.AllowMissingID()) })
	d.Pipe("payments", "k", `{"amount":1}`)
	d.Pipe("payments", "k", `{"amount":1}`)
	d.Want("accepted", `{"id":"","amount":1}`, `{"id":"","amount":1}`)
	d.Want("dead")
	d.WantCounts("inbox.missing=2")
	if content := d.Rows("inbox", 0); len(content) != 0 {
		t.Errorf("the store has %x", content)
	}
}

func TestUnusableID(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		id := func(r payment) (string, error) {
			value, _ := r.Header("id")
			return string(value), nil
		}
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", id, inbox.Forever(), inbox.AllowMissingID())
	})
	d.Pipe("payments", "k", `{}`, topologytest.Header("id", strings.Repeat("x", 1024)))
	d.Want("dead")
	d.Pipe("payments", "k", `{}`, topologytest.Header("id", strings.Repeat("x", 1025)))
	d.WantDeadLetter("inbox", topology.Validation, "the id has more than 1024 bytes")
	d.Pipe("payments", "k", `{}`, topologytest.Header("id", "\xff"))
	d.WantDeadLetter("inbox", topology.Validation, "the id is not valid UTF-8")
}

// TestIDError: the error of the id function is Validation, unless it says what it is. Poison is
// said, too.
func TestIDError(t *testing.T) {
	const reason = schemas.Reason("no id")
	cases := map[string]struct {
		err   error
		class topology.Class
	}{
		"none":       {reason, topology.Validation},
		"conflict":   {topology.Fail(topology.Conflict, reason), topology.Conflict},
		"poison":     {topology.Fail(topology.Poison, reason), topology.Poison},
		"wrapped":    {fmt.Errorf("read: %w", reason), topology.Validation},
		"both":       {fmt.Errorf("read: %w", topology.Fail(topology.Poison, reason)), topology.Poison},
		"validation": {topology.Fail(topology.Validation, reason), topology.Validation},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				id := func(payment) (string, error) { return "ignored", c.err }
				inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", id, inbox.Forever(), inbox.AllowMissingID())
			})
			d.Pipe("payments", "k", `{}`)
			d.WantDeadLetter("inbox", c.class, "no id")
		})
	}
}

// TestFailureLeavesNoTrace: a record that fails behind the inbox has not been seen, and can come
// again.
func TestFailureLeavesNoTrace(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", paymentID, inbox.Forever())
		in.Accepted().Into(acceptedTopic)
		in.Accepted().Peek("fragile", func(r payment) error {
			if _, ok := r.Header("fail"); ok {
				return schemas.Reason("asked to")
			}
			return nil
		})
	})
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, topologytest.Header("fail", ""))
	d.WantDeadLetter("fragile", topology.Poison, "asked to")
	d.Want("accepted")
	d.WantCounts("fragile.dead-letter-poison=1")
	if content := d.Rows("inbox", 0); len(content) != 0 {
		t.Errorf("the store has %x", content)
	}
	// With another payload, too: what failed is no first sight.
	d.Pipe("payments", "k", `{"id":"a","amount":2}`)
	d.Want("accepted", `{"id":"a","amount":2}`)
}

func TestRestartRemembers(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Restart()
	d.Pipe("payments", "k", `{"id":"a","amount":1}`)
	d.Pipe("payments", "k", `{"id":"a","amount":2}`)
	d.Want("accepted", `{"id":"a","amount":1}`)
	d.Want("duplicates", `{"id":"a","amount":1}`)
	d.Want("conflicts", `{"id":"a","amount":2}`)
}

func TestFirstSeen(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	first := time.UnixMilli(946_684_800_123)
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, topologytest.At(first))
	if r := d.Want("accepted", `{"id":"a","amount":1}`); len(r[0].Headers) != 0 {
		t.Errorf("an accepted record has headers %v", r[0].Headers)
	}
	later := topologytest.At(first.Add(time.Minute))
	stale := topologytest.Header(inbox.HeaderFirstSeen, "1")
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, later, stale, topologytest.Header("x", "y"))
	d.Pipe("payments", "k", `{"id":"a","amount":2}`, later)
	dup := d.Want("duplicates", `{"id":"a","amount":1}`)[0]
	if s := fmt.Sprintf("%d %s", dup.Timestamp, dup.Headers); s !=
		"946684860123 [{x y} {onceward.inbox.first-seen 946684800123}]" {
		t.Errorf("the duplicate has %s", s)
	}
	conflict := d.Want("conflicts", `{"id":"a","amount":2}`)[0]
	if s := fmt.Sprintf("%s", conflict.Headers); s != "[{onceward.inbox.first-seen 946684800123}]" {
		t.Errorf("the conflict has %s", s)
	}
}

// TestScope is requirement B2: an inbox is per partition, and two inboxes share nothing.
func TestScope(t *testing.T) {
	declare := func(b *topology.Builder) {
		s := topology.From(b, paymentsTopic)
		inbox.Dedupe(s, "one", paymentID, inbox.Forever()).Accepted().Into(acceptedTopic)
		inbox.Dedupe(s, "two", paymentID, inbox.Forever()).Accepted().Into(dupTopic)
	}
	d := processortest.New(t, declare, topologytest.Partitions(2))
	for range 2 {
		d.Pipe("payments", "k", `{"id":"a","amount":1}`, topologytest.ToPartition(0))
		d.Pipe("payments", "k", `{"id":"a","amount":1}`, topologytest.ToPartition(1))
	}
	d.WantCounts("one.accepted=2 one.duplicates=2 two.accepted=2 two.duplicates=2")
	for p := range int32(2) {
		if one, two := d.Rows("one", p), d.Rows("two", p); len(one) != 1 || !maps.Equal(one, two) {
			t.Errorf("partition %d has %x and %x", p, one, two)
		}
	}
}

// TestGolden pins what is stored, for ever: the key, and format, outcome, timestamp and hash.
func TestGolden(t *testing.T) {
	var in inbox.Inbox[string, Payment]
	d := processortest.New(t, func(b *topology.Builder) { in = routed(b) })
	at := topologytest.At(time.UnixMilli(0x0102030405))
	d.Pipe("payments", "k", `{"id":"a","amount":1}`, at)
	const golden = "01" + "01" + "0000000102030405" +
		// SHA-256 of {"amount":1,"id":"a"}
		"fd63aa8065de5ccd599a03b3cef9b47ed661650c0fd930477d8e0ba7899e455a"
	content := d.Rows("inbox", 0)
	if got := hex.EncodeToString([]byte(content["a"])); len(content) != 1 || got != golden {
		t.Errorf("the store has %x; the row of a is\n%s, want\n%s", content, got, golden)
	}
	store, err := topologytest.Store(d.Driver, in.Store(), 0)
	if err != nil {
		t.Fatal(err)
	}
	entry, ok, err := store.Get("a")
	if err != nil || !ok || entry.FirstSeen != 0x0102030405 || entry.Outcome != inbox.Accepted ||
		hex.EncodeToString(entry.Payload[:]) != golden[20:] {
		t.Errorf("the entry is %+v, %v, %v", entry, ok, err)
	}
}

// TestOtherFormat: a row that this build does not read stops the task, and is never taken for
// unseen.
func TestOtherFormat(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { routed(b) })
	d.SetRow("inbox", "a", "\x02"+strings.Repeat("\x00", 41))
	err := d.PipeRaw("payments", []byte("k"), []byte(`{"id":"a","amount":1}`))
	if err == nil || !strings.Contains(err.Error(), "a format that this build does not read") {
		t.Fatalf("Pipe returned %v", err)
	}
}

func TestDescribed(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"))
	routed(b)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if text := top.Describe(); !strings.Contains(text, "Processor: inbox (stores: [inbox])") {
		t.Error(text)
	}
	processortest.WantStores(t, top, "inbox app-inbox-changelog keyvalue string inbox-entry-1")
}

func TestMistakes(t *testing.T) {
	from := func(b *topology.Builder) payments { return topology.From(b, paymentsTopic) }
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		codec, hash := inbox.PayloadCodec[Payment](nil), inbox.PayloadHash[string, Payment](nil)
		inbox.Dedupe(from(b), "inbox", nil, inbox.Forever(), nil, codec, hash)
		return processortest.Above()
	}, "an option is nil", "PayloadCodec: the codec is nil", "PayloadHash: the function is nil",
		"the function that reads the id is nil")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		inbox.Dedupe(from(b), "in box", paymentID, inbox.Forever())
		return processortest.Above()
	}, `name of the node: "in box"`, `name of a store: "in box"`)
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		inbox.Dedupe(from(b), "inbox", paymentID, inbox.Forever(), inbox.PayloadCodec(schemas.String()))
		return processortest.Above()
	}, "whose keys are string and values inbox_test.Payment")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		hash := func(topology.Record[int64, Payment]) (h [32]byte, err error) { return h, nil }
		inbox.Dedupe(from(b), "inbox", paymentID, inbox.Forever(), inbox.PayloadHash(hash))
		return processortest.Above()
	}, "whose keys are string and values inbox_test.Payment")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		hash := func(payment) (h [32]byte, err error) { return h, nil }
		codec := schemas.JSON[Payment]()
		inbox.Dedupe(from(b), "inbox", paymentID, inbox.Forever(), inbox.PayloadHash(hash), inbox.PayloadCodec(codec))
		return processortest.Above()
	}, "the payload is declared twice")
	dedupe := func(opts []inbox.Option, texts ...string) {
		t.Helper()
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			inbox.Dedupe(from(b), "inbox", paymentID, inbox.Kept(opts...)...)
			return processortest.Above()
		}, texts...)
	}
	other := func(topology.Record[int64, Payment]) (string, error) { return "", nil }
	dedupe([]inbox.Option{inbox.BusinessKey[string, Payment](nil)}, "BusinessKey: the function is nil")
	dedupe([]inbox.Option{inbox.Retain(time.Microsecond)}, "Retain(1µs): the retention must be whole milliseconds")
	dedupe([]inbox.Option{inbox.PayloadWithout()}, "PayloadWithout: there are no names")
	dedupe([]inbox.Option{inbox.BusinessKey(other)}, "BusinessKey: the function is for other types")
	dedupe([]inbox.Option{inbox.BusinessKey(paymentID), inbox.BusinessKey(paymentID), globally()},
		"BusinessKey: the option is given twice", "BusinessKey with Globally")
	dedupe([]inbox.Option{inbox.Retain(time.Hour), inbox.Retain(time.Hour)}, "Retain: the option is given twice")
	dedupe([]inbox.Option{inbox.TolerateLongerTopics()}, "TolerateLongerTopics with Forever")
	dedupe([]inbox.Option{inbox.Archive(archiveTopic)}, "Archive with Forever")
	dedupe([]inbox.Option{inbox.EmitLate()}, "EmitLate with Forever: no id expires, so no record is late")
	dedupe([]inbox.Option{inbox.Retain(time.Hour), inbox.Forever()}, "Retain and Forever contradict each other")
	dedupe([]inbox.Option{inbox.StayByID()}, "StayByID without Globally")
	dedupe([]inbox.Option{inbox.KeepOrigin()}, "KeepOrigin without Globally")
	dedupe([]inbox.Option{globally(), inbox.ByKey()}, "ByKey: the scope is declared twice")
	dedupe([]inbox.Option{inbox.ByKey(), globally()}, "Globally: the scope is declared twice")
	dedupe([]inbox.Option{inbox.Globally[string, Payment](nil, nil)}, "Globally: a codec is nil")
	dedupe([]inbox.Option{inbox.Globally(schemas.Int64(), schemas.JSON[Payment]())}, "Globally: the codecs are for other types")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		inbox.Dedupe(from(b), "inbox", paymentID)
		return processortest.Above()
	}, "the inbox does not say how long it keeps ids; Retain lets them expire, Forever keeps all")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		in := inbox.Dedupe(from(b), "inbox", paymentID, inbox.Forever(), inbox.EmitMissing(), inbox.AllowMissingID())
		line := processortest.Above()
		in.Missing().Into(missingTopic)
		return line
	}, "EmitMissing and AllowMissingID contradict each other")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		in := inbox.Dedupe(from(b), "inbox", paymentID, inbox.Forever(), inbox.AllowMissingID())
		line := processortest.Above()
		in.Missing().Into(missingTopic)
		return line
	}, "Missing is used, but AllowMissingID accepts records without an id; EmitMissing emits them instead")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		in := inbox.Dedupe(from(b), "inbox", paymentID, inbox.Forever())
		line := processortest.Above()
		in.Late().Into(topology.Topic("late", schemas.String(), schemas.JSON[Payment]()))
		return line
	}, "Late is used, but an inbox with Forever has no late records; Retain lets ids expire")
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		inbox.Dedupe(from(b), "inbox", paymentID, inbox.Forever(), inbox.OnError(topology.Conflict, topology.Policy{}))
		return processortest.Above()
	}, "OnError(conflict)")
}
