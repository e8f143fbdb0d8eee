package inbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/processors/envelope"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/processors/internal/processortest"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/topology/topologytest"
)

// The UUIDs 00112233-4455-6677-8899-aabbccddeeff and the same with another last byte. Neither is
// UTF-8.
const (
	uuid    = "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"
	another = "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xfe"
	inHex   = "00112233445566778899aabbccddeeff"
)

// binaryScopes are the options of an inbox with binary ids, without and with a detour.
var binaryScopes = map[string][]inbox.Option{
	"by key": {inbox.ReadBinaryIDs()}, "globally": {inbox.ReadBinaryIDs(), globally()},
}

// TestBinaryIDs: two records with the same 16 bytes as their id are duplicates, and the id is
// stored in hexadecimal digits.
func TestBinaryIDs(t *testing.T) {
	for name, opts := range binaryScopes {
		t.Run(name, func(t *testing.T) {
			var in inbox.Inbox[string, Payment]
			d := processortest.New(t, func(b *topology.Builder) {
				in = inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", envelope.EventID[string, Payment], inbox.Kept(opts...)...)
			})
			for _, id := range []string{uuid, uuid, another} {
				d.Pipe("payments", "k", `{"amount":5}`, topologytest.Header(envelope.HeaderEventID, id))
			}
			d.WantCounts("inbox.accepted=2 inbox.duplicates=1")
			rows, err := topologytest.Store(d.Driver, in.Store(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok, err := rows.Get(inHex); !ok || err != nil {
				t.Errorf("the id %s is not stored: %v", inHex, err)
			}
		})
	}
}

// TestBinaryIDWithoutTheOption is the negative control of TestBinaryIDs: bytes are no id by
// default.
func TestBinaryIDWithoutTheOption(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", envelope.EventID[string, Payment], inbox.Forever())
	})
	d.Pipe("payments", "k", `{"amount":5}`, topologytest.Header(envelope.HeaderEventID, uuid))
	d.WantCounts("inbox.dead-letter-validation=1")
}

// TestUnusableBinaryIDs: no bytes are no id, more than 512 bytes are a malformed one, and the
// function's own error stays.
func TestUnusableBinaryIDs(t *testing.T) {
	for name, way := range map[string]noID{
		"none":     {returns("", nil), "missing", "the id is missing"},
		"too long": {returns(strings.Repeat("\xff", 513), nil), "malformed", "the id has more than 1024 bytes"},
		"a reason": {returns(uuid, schemas.Reason("the id is no UUID")), "malformed", "the id is no UUID"},
	} {
		t.Run(name, func(t *testing.T) {
			d := processortest.New(t, func(b *topology.Builder) {
				in := inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", way.id, inbox.Forever(), inbox.ReadBinaryIDs(),
					inbox.EmitMissing(), inbox.EmitMalformed())
				in.Missing().Into(missingTopic)
				in.Malformed().Into(malformedTopic)
			})
			d.Pipe("payments", "k", `{"amount":5}`)
			d.WantCounts("inbox." + way.outcome + "=1")
			out := d.Take(way.outcome)
			if len(out) != 1 {
				t.Fatalf("%d records are %s", len(out), way.outcome)
			}
			if reason := fmt.Sprint(headerOf(out[0], inbox.HeaderReason)); reason != way.reason {
				t.Errorf("the reason is %q, want %q", reason, way.reason)
			}
		})
	}
}

// headerOf returns the value of a header of a record, "" if it has none.
func headerOf(r topologytest.Raw, key string) string {
	value, _ := topology.Record[string, string]{Headers: r.Headers}.Header(key)
	return string(value)
}

// TestBinaryIDsAreArchivedInHex: what leaves the inbox as an id is text.
func TestBinaryIDsAreArchivedInHex(t *testing.T) {
	d := processortest.New(t, func(b *topology.Builder) {
		inbox.Dedupe(topology.From(b, paymentsTopic), "inbox", envelope.EventID[string, Payment], inbox.ReadBinaryIDs(),
			inbox.Retain(time.Hour), inbox.Archive(archiveTopic))
	})
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, id := range []string{uuid, another} {
		d.Pipe("payments", "k", `{"amount":5}`, topologytest.Header(envelope.HeaderEventID, id), topologytest.At(begin.Add(time.Duration(i)*2*time.Hour)))
	}
	if out := d.Take(archiveTopic.Name()); len(out) != 1 || string(out[0].Key) != inHex {
		t.Errorf("the archive has %v", out)
	}
}
