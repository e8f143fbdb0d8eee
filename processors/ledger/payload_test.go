package ledger_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

const errPayload = "the contribution was posted before with another payload"

// outcomes pipes entries of one ledger, and returns what became of each: a for accepted, d for
// duplicate, c for conflict, x for a dead letter.
func outcomes(d *processortest.Driver, values ...string) string {
	var got strings.Builder
	for _, value := range values {
		d.Pipe("entries", "k", value)
		for topic, outcome := range map[string]string{"balances": "a", "duplicates": "d", "conflicts": "c", "dead": "x"} {
			got.WriteString(strings.Repeat(outcome, len(d.Take(topic))))
		}
	}
	return got.String()
}

// notes are spellings of one entry, then entries that differ from it in what is no contribution,
// and in the amount.
var notes = []string{
	`{"id":"a","amounts":[10],"note":"x"}`, ` {"note":"x", "amounts" : [10], "id":"\u0061"}`,
	`{"id":"a","amounts":[10],"note":"y"}`, `{"id":"a","amounts":[10]}`, `{"id":"a","amounts":[11],"note":"x"}`,
}

// TestComparePayload is the negative control too: without the option only the amounts count.
func TestComparePayload(t *testing.T) {
	byNote := ledger.PayloadHash(func(r entry) ([32]byte, error) { return sha256.Sum256([]byte(r.Value.Note)), nil })
	refuses := ledger.PayloadHash(func(entry) (h [32]byte, err error) { return h, errors.New("no") })
	for name, test := range map[string]struct {
		want string
		opts []ledger.Option
	}{
		"no option":         {"adddc", nil},
		"ComparePayload":    {"adccc", []ledger.Option{ledger.ComparePayload()}},
		"PayloadCodec":      {"adccc", []ledger.Option{ledger.PayloadCodec(schemas.JSON[Entry]())}},
		"PayloadWithout":    {"adddc", []ledger.Option{ledger.PayloadWithout("note")}},
		"PayloadHash":       {"adccc", []ledger.Option{byNote}},
		"a hash that fails": {"xxxxx", []ledger.Option{refuses}},
	} {
		if got := outcomes(newRouted(t, test.opts...), notes...); got != test.want {
			t.Errorf("%s: the outcomes are %s, want %s", name, got, test.want)
		}
	}
}

// TestPayloadConflictFails: without EmitConflicts another payload is a dead letter, and changes no
// row.
func TestPayloadConflictFails(t *testing.T) {
	d := newBare(t, ledger.ComparePayload())
	d.Pipe("entries", "k", notes[0])
	before := content(d)
	d.Pipe("entries", "k", notes[2])
	d.WantDeadLetter("ledger", topology.Conflict, errPayload)
	d.Pipe("entries", "k", notes[4])
	d.WantDeadLetter("ledger", topology.Conflict, errConflict)
	if after := content(d); after != before {
		t.Errorf("conflicts changed the stores from %s to %s", before, after)
	}
}

// TestPayloadOfOlderRows: a ledger can get and lose the option. A row without a hash is compared by
// its amounts, and so is every row by a ledger without the option.
func TestPayloadOfOlderRows(t *testing.T) {
	without := newRouted(t)
	outcomes(without, notes[0])
	with := newRouted(t, ledger.ComparePayload())
	outcomes(with, notes[0])
	const key = "k\x00\x01a"
	older, newer := without.Rows("ledger-contributions", 0)[key], with.Rows("ledger-contributions", 0)[key]
	if len(newer) != len(older)+32 {
		t.Fatalf("the rows are %x and %x", older, newer)
	}
	without.SetRow("ledger-contributions", key, newer)
	if got := outcomes(without, notes[1:]...); got != "dddc" {
		t.Errorf("without the option the outcomes are %s", got)
	}
	with.SetRow("ledger-contributions", key, older)
	if got := outcomes(with, notes[1:]...); got != "dddc" {
		t.Errorf("of an older row the outcomes are %s", got)
	}
}

// TestPayloadOfReversals: the rows of a reversal and of what it reverses keep their own hashes.
func TestPayloadOfReversals(t *testing.T) {
	d := newRouted(t, ledger.ComparePayload())
	got := outcomes(d,
		`{"id":"a","amounts":[10],"note":"x"}`, `{"id":"r","reverses":"a","note":"x"}`,
		`{"id":"r","reverses":"a","note":"x"}`, `{"id":"r","reverses":"a","note":"y"}`,
		`{"id":"a","amounts":[10],"note":"x"}`, `{"id":"a","amounts":[10],"note":"y"}`,
		`{"id":"c","amounts":[1],"corrects":"a"}`, `{"id":"c","amounts":[1],"corrects":"a"}`,
		`{"id":"c","amounts":[1],"corrects":"a","note":"y"}`)
	if want := "aa" + "dc" + "dc" + "adc"; got != want {
		t.Errorf("the outcomes are %s, want %s", got, want)
	}
}

// TestPayloadInWindows: a contribution has its payload in each of its windows, and a function gets
// the key of the record.
func TestPayloadInWindows(t *testing.T) {
	byKey := func(r entry) ([32]byte, error) { return sha256.Sum256([]byte(r.Key + r.Value.Note)), nil }
	for name, opt := range map[string]ledger.Option{"ComparePayload": ledger.ComparePayload(), "PayloadHash": ledger.PayloadHash(byKey)} {
		d := processortest.New(t, func(b *topology.Builder) {
			l := ledger.PostWindowed(topology.From(b, entryTopic), "ledger", ledger.Windows{Size: time.Hour, Advance: 30 * time.Minute},
				contribution, ledger.EmitConflicts(), opt)
			l.Changes().Into(topology.Topic("balances", ledger.WindowCodec(schemas.String()), schemas.JSON[ledger.Balance]()))
			l.Duplicates().Into(topology.Topic("duplicates", ledger.WindowCodec(schemas.String()), schemas.JSON[Entry]()))
			l.Conflicts().Into(topology.Topic("conflicts", ledger.WindowCodec(schemas.String()), schemas.JSON[Entry]()))
		})
		at := topologytest.At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		for _, value := range notes[:3] {
			d.Pipe("entries", "k", value, at)
		}
		if a, dup, c := len(d.Take("balances")), len(d.Take("duplicates")), len(d.Take("conflicts")); a != 2 || dup != 2 || c != 2 {
			t.Errorf("%s: %d accepted, %d duplicates, %d conflicts, want 2 each", name, a, dup, c)
		}
	}
}

func TestPayloadMistakes(t *testing.T) {
	post := func(text string, opts ...ledger.Option) {
		t.Helper()
		processortest.WantMistakes(t, func(b *topology.Builder) int {
			ledger.Post(topology.From(b, entryTopic), "ledger", contribution, opts...)
			return processortest.Above()
		}, text)
	}
	post("the payload is declared twice", ledger.ComparePayload(), ledger.PayloadWithout("note"))
	post("the payload is declared twice", ledger.PayloadCodec(schemas.JSON[Entry]()), ledger.ComparePayload())
	post("PayloadCodec: the codec is nil", ledger.PayloadCodec[Entry](nil))
	post("PayloadHash: the function is nil", ledger.PayloadHash[string, Entry](nil))
	post("PayloadWithout: there are no names", ledger.PayloadWithout())
	post("the payload is declared for other types than those of the stream", ledger.PayloadCodec(schemas.String()))
	processortest.WantMistakes(t, func(b *topology.Builder) int {
		s := topology.From(b, topology.Topic("in", schemas.String(), schemas.JSON[float64]()))
		read := func(topology.Record[string, float64]) (c ledger.Contribution, err error) { return c, nil }
		ledger.Post(s, "ledger", read, ledger.ComparePayload())
		return processortest.Above()
	}, "which is a float64; declare how with PayloadCodec or PayloadHash")
}

// TestHashText: tools show the hash in hexadecimal digits.
func TestHashText(t *testing.T) {
	row := ledger.Posting{Amounts: []int64{1}, Payload: make([]byte, 32)}
	text, err := json.Marshal(row)
	if want := `{"amounts":[1],"timestamp":0,"payload":"` + strings.Repeat("00", 32) + `"}`; string(text) != want || err != nil {
		t.Errorf("the row is shown as %s, %v, want %s", text, err, want)
	}
	var back ledger.Posting
	if err := json.Unmarshal(text, &back); err != nil || string(back.Payload) != string(row.Payload) {
		t.Errorf("the row is read as %+v, %v", back, err)
	}
	for _, wrong := range []string{`"00"`, `"x"`, `""`} {
		var h ledger.Hash
		if err := json.Unmarshal([]byte(wrong), &h); err == nil {
			t.Errorf("%s is read as %x", wrong, h)
		}
	}
}
