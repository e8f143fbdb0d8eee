package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/onceward/onceward/processors/effect"
	"github.com/onceward/onceward/processors/inbox"
	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/topology"
	"github.com/onceward/onceward/txn/admin"
)

// rows are the state of an instance: what its inbox knows of messages, and its ledger of captures.
type rows struct {
	messages map[string]inbox.Entry
	captures map[string]effect.Effect
}

// readRows reads the state of an instance that has stopped, which has all partitions.
func readRows(t *testing.T, dir string) rows {
	t.Helper()
	state, err := admin.OpenState(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := state.Close(); err != nil {
			t.Error(err)
		}
	}()
	return rows{
		scan(t, state, nodeInbox, inbox.EntryCodec()),
		scan(t, state, nodeCapture, schemas.JSON[effect.Effect]()),
	}
}

func scan[V any](t *testing.T, state *admin.State, store string, codec schemas.Codec[V]) map[string]V {
	t.Helper()
	found := map[string]V{}
	for partition := range int32(partitions) {
		rows, err := state.Scan(t.Context(), admin.ScanRequest{Store: store, Partition: partition})
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range rows.Rows() {
			if err == nil {
				found[string(row.Key)], err = codec.Decode(row.Value)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// compareRows compares the rows of a replay with those of the live run, and both with the requests
// that they can come from. That is one request, unless copies have come in several partitions,
// whose order is unknown.
func compareRows(all []request, live, replay rows) error {
	var differ differences
	messages, asked := map[string][]request{}, map[string][]request{}
	for _, r := range all {
		switch r.becomes {
		case requested, repeated, disputed, forged:
			messages[r.message], asked[r.capture] = append(messages[r.message], r), append(asked[r.capture], r)
		case copied, invalid, unreadable:
		}
	}
	for id, from := range messages {
		was, ok := live.messages[id]
		is, okToo := replay.messages[id]
		if err := errors.Join(messageIs(was, ok, from), messageIs(is, okToo, from)); err != nil {
			differ.add("message %s: %w", id, err)
		} else if len(from) == 1 && was != is {
			differ.add("message %s was\n%+v, and is after the replay\n%+v", id, was, is)
		}
	}
	for id, from := range asked {
		was, ok := live.captures[id]
		is, okToo := replay.captures[id]
		if err := errors.Join(captureIs(was, ok, from), captureIs(is, okToo, from)); err != nil {
			differ.add("capture %s: %w", id, err)
		} else if string(was.Payload) == string(is.Payload) && was.Request != is.Request {
			differ.add("capture %s has had the hash %s, and has after the replay %s", id, was.Request, is.Request)
		}
		if was.Status != effect.Completed && was.Status != effect.FailedTerminal || was.Due != 0 {
			differ.add("capture %s is %s, and due at %d", id, was.Status, was.Due)
		}
		if e := is; e.Status != effect.Suppressed || e.Attempts+e.Lookups != 0 || e.Due != 0 || e.Response != "" || e.ResponseBody != nil ||
			e.Doubt || e.ResolvedBy != "" || e.Resolutions != nil {
			differ.add("capture %s is not one that was held without a call: %+v", id, e)
		}
	}
	for _, r := range []rows{live, replay} {
		if len(r.messages) != len(messages) || len(r.captures) != len(asked) {
			differ.add("there are %d rows of messages and %d of captures, want %d and %d", len(r.messages), len(r.captures), len(messages), len(asked))
		}
	}
	return differ.err()
}

// rowsOf returns what a request leaves behind that comes first: the row of its message, and what
// the row of its capture says of the request.
func rowsOf(r request) (inbox.Entry, effect.Effect, error) {
	payload, err := json.Marshal(Capture{ID: r.capture, Amount: r.amount})
	if err != nil {
		return inbox.Entry{}, effect.Effect{}, err
	}
	message := inbox.Entry{Outcome: inbox.Accepted, FirstSeen: r.record.Timestamp.UnixMilli()}
	if message.Payload, err = schemas.HashJSON(r.record.Value); err != nil {
		return inbox.Entry{}, effect.Effect{}, err
	}
	capture := effect.Effect{
		Type: "capture", Target: "gateway", IdempotencyKey: effect.IdempotencyKey(nodeCapture, r.capture), Key: []byte(r.capture),
		Timestamp: r.record.Timestamp.UnixMilli(), Payload: payload,
	}
	for _, h := range r.record.Headers {
		capture.Headers = append(capture.Headers, topology.Header{Key: h.Key, Value: h.Value})
	}
	return message, capture, nil
}

// messageIs returns an error unless a row of the inbox is there, and comes from one of the
// requests.
func messageIs(e inbox.Entry, ok bool, from []request) error {
	for _, r := range from {
		want, _, err := rowsOf(r)
		if err != nil {
			return err
		}
		if ok && e == want {
			return nil
		}
	}
	return fmt.Errorf("the row is %+v", e)
}

// captureIs returns an error unless a row of the ledger is there, and what it says of its request
// is what one of the requests has said.
func captureIs(e effect.Effect, ok bool, from []request) error {
	for _, r := range from {
		_, want, err := rowsOf(r)
		if err != nil {
			return err
		}
		if ok && reflect.DeepEqual(asks(e), want) {
			return nil
		}
	}
	return fmt.Errorf("the row is %+v", e)
}

// asks is what a row says of its request: without its hash, which only another row can be compared
// with, and without its outcome and mode.
func asks(e effect.Effect) effect.Effect {
	return effect.Effect{
		Type: e.Type, Target: e.Target, BusinessKey: e.BusinessKey, IdempotencyKey: e.IdempotencyKey, Key: e.Key, Timestamp: e.Timestamp,
		Payload: e.Payload,
		Headers: slices.DeleteFunc(slices.Clone(e.Headers), func(h topology.Header) bool { return h.Key == topology.HeaderMode }),
	}
}
