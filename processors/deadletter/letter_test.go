package deadletter_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/deadletter"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/graph"
	"github.com/onceward/onceward/topology/topologytest"
)

// failing declares a topology of bytes in which every record fails with err, or panics if err is
// nil.
func failing(b *topology.Builder, err error) {
	topic := topology.Topic("in", schemas.Bytes(), schemas.Bytes())
	topology.From(b, topic).Peek("fragile", func(r topology.Record[[]byte, []byte]) error {
		if err == nil {
			panic(string(r.Value))
		}
		return err
	})
}

// parseOne parses the only dead letter.
func parseOne(t *testing.T, d *topologytest.Driver) deadletter.Letter {
	t.Helper()
	records := take(t, d)
	if len(records) != 1 {
		t.Fatalf("there are %d dead letters", len(records))
	}
	letter, err := deadletter.Parse(records[0])
	if err != nil {
		t.Fatal(err)
	}
	return letter
}

// TestParse: a dead letter has everything that was known of the record, and of its death after
// three attempts.
func TestParse(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"), topology.OnError(topology.Transient,
		topology.Policy{Action: topology.Retry, Attempts: 3, Backoff: time.Second, BackoffMax: time.Second,
			Then: topology.DeadLetter}))
	failing(b, topology.Fail(topology.Transient, schemas.Reason("not now")))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(top, topologytest.Partitions(4))
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(946_684_800_123).UTC()
	for _, value := range []string{"first", "second"} {
		err := d.PipeRaw("in", []byte("k"), []byte(value), topologytest.ToPartition(3), topologytest.At(at),
			topologytest.Header("traceparent", "00"), topologytest.Header("onceward.mine", "1"),
			topologytest.Header("traceparent", "01"))
		if err != nil {
			t.Fatal(err)
		}
	}
	records := take(t, d)
	if len(records) != 2 {
		t.Fatalf("there are %d dead letters", len(records))
	}
	letter, err := deadletter.Parse(records[1])
	if err != nil {
		t.Fatal(err)
	}
	if !equalBytes(letter.Key, "k") || !equalBytes(letter.Value, "second") ||
		!equalHeaders(letter.Headers, "traceparent=00", "onceward.mine=1", "traceparent=01") {
		t.Errorf("the record is %q=%q, %q", letter.Key, letter.Value, letter.Headers)
	}
	origin := graph.DeadLetterOrigin{Topic: "in", Partition: 3, Offset: 1, Timestamp: at.UnixMilli()}
	// The first record has moved the clock on by its two pauses.
	first := at.Add(2 * time.Second)
	want := graph.DeadLetterInfo{
		ID: graph.DeadLetterID("app", origin), Application: "app", Version: top.Fingerprint(), Task: "in_3",
		Node: "fragile", Class: topology.Transient, Message: "not now", Attempts: 3,
		FirstFailure: first, LastFailure: first.Add(2 * time.Second), Origin: origin,
		LastTimestamp: at.UnixMilli(), Deaths: 1,
	}
	if letter.DeadLetterInfo != want {
		t.Errorf("the letter says\n%+v, want\n%+v", letter.DeadLetterInfo, want)
	}
}

// TestParseNulls: null and empty stay apart.
func TestParseNulls(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { failing(b, schemas.Reason("no")) })
	if err := d.PipeRaw("in", nil, nil); err != nil {
		t.Fatal(err)
	}
	if l := parseOne(t, d.Driver); l.Key != nil || l.Value != nil || l.Headers != nil {
		t.Errorf("the record is %q=%q, %v", l.Key, l.Value, l.Headers)
	}
	d.Pipe("in", "", "")
	if l := parseOne(t, d.Driver); l.Key == nil || l.Value == nil {
		t.Error("an empty key or value is null")
	}
}

// TestOwnHeaders: of the headers that topology puts on a dead letter, in all its forms, none is
// taken for the record's own. This is what notices a header that is new in topology.
func TestOwnHeaders(t *testing.T) {
	b := topology.NewBuilder("app", topology.DeadLetters("dead"), topology.DeadLetterStacks())
	failing(b, nil)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.New(top, topologytest.MaxMessageBytes("dead", 16<<10))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.PipeRaw("in", []byte("k"), make([]byte, 15<<10), topologytest.Header("x", "y")); err != nil {
		t.Fatal(err)
	}
	l := parseOne(t, d)
	if l.Cut == "" || len(l.Value) == 15<<10 {
		t.Error("the record was not cut")
	}
	if !equalHeaders(l.Headers, "x=y") {
		t.Errorf("the headers are %q", l.Headers)
	}
	if !strings.HasSuffix(l.String(), ", cut") {
		t.Error(l.String())
	}
}

// TestParseAgain: a record that was redriven and died again keeps its origin.
func TestParseAgain(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { failing(b, schemas.Reason("no")) })
	d.Pipe("in", "k", "first")
	d.Pipe("in", "k", "v", topologytest.Header("x", "y"))
	dead := take(t, d.Driver)[1]
	var redrive []topologytest.PipeOption
	for _, h := range dead.Headers {
		redrive = append(redrive, topologytest.Header(h.Key, string(h.Value)))
	}
	d.Pipe("in", "k", string(dead.Value), redrive...)
	if l := parseOne(t, d.Driver); l.Deaths != 2 || l.Origin.Offset != 1 || !equalHeaders(l.Headers, "x=y") {
		t.Errorf("the letter says %+v, with headers %q", l.DeadLetterInfo, l.Headers)
	}
}

func TestParseRefuses(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { failing(b, schemas.Reason("no")) })
	d.Pipe("in", "k", "v")
	dead := take(t, d.Driver)[0]

	plain := topology.Record[[]byte, []byte]{Headers: []topology.Header{{Key: "x"}}}
	if l, err := deadletter.Parse(plain); !errors.Is(err, graph.ErrNoDeadLetter) || l.Headers != nil {
		t.Errorf("Parse returned %v, %v", l, err)
	}
	broken := dead.WithHeader(graph.HeaderOffset, []byte(codectest.Canary))
	_, err := deadletter.Parse(broken)
	if err == nil || !strings.Contains(err.Error(), graph.HeaderOffset) ||
		strings.Contains(err.Error(), codectest.Canary) {
		t.Errorf("Parse returned %v", err)
	}
}

// TestText: no form of a dead letter that ends up in a log shows what is in the record.
func TestText(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { failing(b, nil) })
	d.Pipe("in", codectest.Canary, codectest.Canary, topologytest.Header(codectest.Canary, codectest.Canary))
	l := parseOne(t, d.Driver)
	want := "in-0@0 died of poison at node fragile of app (death 1, attempts 1): panic with a value of type " +
		"string; key 13 bytes, value 13 bytes, 1 headers"
	if l.String() != want {
		t.Errorf("the letter is %q, want %q", l, want)
	}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("dead", "letter", l)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("dead", "letter", l)
	texts := []string{fmt.Sprint(&l), logged.String()}
	for _, verb := range "vsqxXdtbeg" {
		texts = append(texts, fmt.Sprintf("%"+string(verb), l), fmt.Sprintf("%#"+string(verb), l),
			fmt.Sprintf("%+"+string(verb), []any{l}))
	}
	// The canary as text, in hexadecimal, and as a slice of numbers.
	shapes := []string{codectest.Canary, fmt.Sprintf("%x", codectest.Canary), "107 97 110"}
	for _, s := range texts {
		for _, shape := range shapes {
			if strings.Contains(s, shape) || !strings.Contains(s, "died of poison") {
				t.Error(s)
			}
		}
	}
	if s := fmt.Sprintf("%s %x %d", l.Value, l.Value, l.Value); strings.Count(s, shapes[0])+
		strings.Count(s, shapes[1])+strings.Count(s, shapes[2]) != 3 {
		t.Errorf("the control: the fields hold the record, and are printed as %s", s)
	}
}

// TestTextOfForgedHeaders: headers that somebody else wrote cannot forge lines of a log.
func TestTextOfForgedHeaders(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) { failing(b, schemas.Reason("no")) })
	if err := d.PipeRaw("in", nil, nil); err != nil {
		t.Fatal(err)
	}
	forged := take(t, d.Driver)[0].WithHeader(graph.HeaderMessage, []byte("a\nlevel=ERROR\x1b[2J"))
	l, err := deadletter.Parse(forged)
	if err != nil {
		t.Fatal(err)
	}
	s := l.String()
	if strings.ContainsAny(s, "\n\x1b") || !strings.HasSuffix(s, "; key null, value null, 0 headers") {
		t.Errorf("the letter is %q", s)
	}
}
