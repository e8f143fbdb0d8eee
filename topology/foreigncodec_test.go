package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
	"github.com/onceward/onceward/state"
	"github.com/onceward/onceward/state/memstore"
)

// goldenHash is the first half of the SHA-256 of "abc", as FIPS 180 gives it.
const goldenHash = "\xba\x78\x16\xbf\x8f\x01\xcf\xea\x41\x41\x40\xde\x5d\xae\x22\x23"

// TestForeignKeyForms are the golden bytes of what joins by a foreign key store and send. They do
// not change: a new form has a new version.
func TestForeignKeyForms(t *testing.T) {
	hash := hashOf([]byte("abc"))
	if string(hash[:]) != goldenHash {
		t.Errorf("the hash is %x", hash)
	}
	subscriptions := subscriptionCodec[string]{schemas.String()}
	for _, test := range []struct {
		subscription subscription[string]
		bytes        string
	}{
		{subscription[string]{Kind: leave, Partition: 258, Key: "k"}, "\x01\x00\x00\x00\x01\x02k"},
		{subscription[string]{Kind: leaveAnswered, Partition: 1, Key: ""}, "\x01\x01\x00\x00\x00\x01"},
		{subscription[string]{Kind: subscribe, Partition: 0, Hash: hash, Key: "k"}, "\x01\x02\x00\x00\x00\x00" + goldenHash + "k"},
		{subscription[string]{Kind: subscribeAlways, Partition: 3, Hash: hash, Key: "key"}, "\x01\x03\x00\x00\x00\x03" + goldenHash + "key"},
		{subscription[string]{Kind: confirm, Partition: 1<<31 - 1, Hash: hash, Key: "\x00"}, "\x01\x04\x7f\xff\xff\xff" + goldenHash + "\x00"},
	} {
		wantForm(t, subscriptions, test.subscription, test.bytes)
	}
	answers := answerCodec[string]{schemas.String()}
	for _, test := range []struct {
		answer answer[string]
		bytes  string
	}{
		{answer[string]{Kind: answerLeft}, "\x01\x00"},
		{answer[string]{Kind: answerNothing, Hash: hash}, "\x01\x01" + goldenHash},
		{answer[string]{Kind: answerRow, Hash: hash, Value: "row"}, "\x01\x02" + goldenHash + "row"},
		{answer[string]{Kind: answerRow, Hash: hash}, "\x01\x02" + goldenHash},
	} {
		b, err := answers.Append(nil, test.answer)
		if string(b) != test.bytes || err != nil {
			t.Errorf("%+v is encoded as %q, %v, want %q", test.answer, b, err, test.bytes)
		}
		a, err := answers.Decode([]byte(test.bytes))
		if a.Kind != test.answer.Kind || a.Hash != test.answer.Hash || a.Value != test.answer.Value || err != nil {
			t.Errorf("%q is decoded as %+v, %v", test.bytes, a, err)
		}
	}
	keys := subscriberKeyCodec[string, string]{schemas.String(), schemas.String()}
	for _, test := range []struct {
		key   subscriberKey[string, string]
		bytes string
	}{
		{subscriberKey[string, string]{"foreign", "left"}, "\x01\x00\x00\x00\x07foreignleft"},
		{subscriberKey[string, string]{"", "left"}, "\x01\x00\x00\x00\x00left"},
		{subscriberKey[string, string]{strings.Repeat("f", 258), ""}, "\x01\x00\x00\x01\x02" + strings.Repeat("f", 258)},
	} {
		wantForm(t, keys, test.key, test.bytes)
	}
	wantForm(t, subscriberCodec{}, subscriber{Hash: hash, Partition: 258}, goldenHash+"\x00\x00\x01\x02")
	for codec, name := range map[string]string{
		subscriptions.Name(): "subscription:string", answers.Name(): "answer:string", keys.Name(): "subscriber:string,string", subscriberCodec{}.Name(): "subscriber",
	} {
		if codec != name {
			t.Errorf("the name is %s, want %s", codec, name)
		}
	}
}

func wantForm[T comparable](t *testing.T, codec schemas.Codec[T], v T, form string) {
	t.Helper()
	b, err := codec.Append([]byte("head"), v)
	if string(b) != "head"+form || err != nil {
		t.Errorf("%+v is encoded as %q, %v, want %q", v, b, err, form)
		return
	}
	if got, err := codec.Decode([]byte(form)); got != v || err != nil {
		t.Errorf("%q is decoded as %+v, %v", form, got, err)
	}
}

// TestForeignKeyCodecs: the codecs do what codecs promise.
func TestForeignKeyCodecs(t *testing.T) {
	hash := hashOf([]byte(codectest.Canary))
	t.Run("subscription", func(t *testing.T) {
		codec := subscriptionCodec[string]{schemas.String()}
		codectest.Run(t, codec, subscription[string]{Kind: leave}, subscription[string]{Kind: subscribe, Partition: 5, Hash: hash, Key: codectest.Canary})
		codectest.Refuses(t, codec, subscription[string]{Kind: subscriptionKinds}, subscription[string]{Partition: -1})
		codectest.Refuses(t, subscriptionCodec[string]{refusing{schemas.String()}}, subscription[string]{Key: "bad"})
	})
	t.Run("answer", func(t *testing.T) {
		codec := answerCodec[int64]{schemas.Int64()}
		for _, bad := range []answer[int64]{{Kind: answerKinds}} {
			if b, err := codec.Append([]byte("head"), bad); err == nil || string(b) != "head" {
				t.Errorf("%+v is encoded as %q, %v", bad, b, err)
			}
		}
		if b, err := (answerCodec[string]{refusing{schemas.String()}}).Append([]byte("head"), answer[string]{Kind: answerRow, Value: "bad"}); err == nil || string(b) != "head" {
			t.Errorf("a value that is refused is encoded as %q, %v", b, err)
		}
	})
	t.Run("row", func(t *testing.T) {
		codec := subscriberKeyCodec[string, string]{schemas.String(), schemas.String()}
		codectest.Run(t, codec, subscriberKey[string, string]{"", ""}, subscriberKey[string, string]{codectest.Canary, codectest.Canary})
		bad := subscriberKeyCodec[string, string]{refusing{schemas.String()}, refusing{schemas.String()}}
		codectest.Refuses(t, bad, subscriberKey[string, string]{"bad", ""}, subscriberKey[string, string]{"", "bad"})
		codectest.Run(t, subscriberCodec{}, subscriber{}, subscriber{hash, 7})
		codectest.Refuses(t, subscriberCodec{}, subscriber{Partition: -1})
	})
}

// TestForeignKeyVersion: a form of another version stops the task, since another build can read it.
// Other bytes that were not written by these codecs are errors of class Poison.
func TestForeignKeyVersion(t *testing.T) {
	subscriptions, answers := subscriptionCodec[int64]{schemas.Int64()}, answerCodec[int64]{schemas.Int64()}
	keys := subscriberKeyCodec[int64, int64]{schemas.Int64(), schemas.Int64()}
	decoders := map[string]func(b []byte) error{
		"subscription": func(b []byte) error { _, err := subscriptions.Decode(b); return err },
		"answer":       func(b []byte) error { _, err := answers.Decode(b); return err },
		"key of a row": func(b []byte) error { _, err := keys.Decode(b); return err },
	}
	for what, decode := range decoders {
		err := decode([]byte("\x02\x00\x00\x00\x00\x00\x00"))
		if ClassOf(err) != Config || !strings.Contains(err.Error(), "version 2 is not known, this build has 1") {
			t.Errorf("%s: the error of another version is %v, of class %s", what, err, ClassOf(err))
		}
		for _, b := range []string{
			"", "\x01", "\x01\x05", "\x01\x00\x00\x00", "\x01\x00\xff\xff\xff\xff", "\x01\x03\x00\x00\x00\x00", "\x01\x01" + goldenHash + "x", "\x01\x02" + goldenHash,
			"\x01\x00x", "\x01\x00\x00\x00\x09", "\x01\x00\x00\x00\x08" + "12345678", "\x01\xff\xff\xff\xff",
		} {
			if err := decode([]byte(b)); err == nil || ClassOf(err) != Poison {
				t.Errorf("%s: of %q the error is %v, of class %s", what, b, err, ClassOf(err))
			}
		}
	}
	for _, b := range []string{"", goldenHash, goldenHash + "\x80\x00\x00\x00", goldenHash + "\x00\x00\x00\x00\x00"} {
		if _, err := (subscriberCodec{}).Decode([]byte(b)); err == nil {
			t.Errorf("%q is decoded", b)
		}
	}
}

// TestSubscribersAreNeighbours: a scan over the prefix of a foreign key finds all its rows and no
// others. The keys may be empty, the beginning of each other, or full of the bytes that the form
// has itself.
func TestSubscribersAreNeighbours(t *testing.T) {
	codec := subscriberKeyCodec[[]byte, []byte]{schemas.Bytes(), schemas.Bytes()}
	part := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), 0, 4)
	rapid.Check(t, func(rt *rapid.T) {
		st, err := state.NewTask(memstore.New(), []state.Declaration{{Name: "rows"}})
		if err != nil {
			rt.Fatal(err)
		}
		rows, model := st.Store("rows"), map[string]map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(rt, "rows") {
			foreign, key := part.Draw(rt, "foreign"), part.Draw(rt, "key")
			row, err := codec.Append(nil, subscriberKey[[]byte, []byte]{foreign, key})
			if err != nil {
				rt.Fatal(err)
			}
			if err := rows.Put(row, nil); err != nil {
				rt.Fatal(err)
			}
			if model[string(foreign)] == nil {
				model[string(foreign)] = map[string]bool{}
			}
			model[string(foreign)][string(key)] = true
		}
		for foreign, want := range model {
			prefix, err := codec.appendPrefix(nil, []byte(foreign))
			if err != nil {
				rt.Fatal(err)
			}
			got, last := map[string]bool{}, []byte(nil)
			for e, err := range rows.Scan(state.Prefix(prefix)) {
				if err != nil {
					rt.Fatal(err)
				}
				s, err := codec.Decode(e.Key)
				if err != nil || string(s.Foreign) != foreign || bytes.Compare(s.Key, last) < 0 {
					rt.Fatalf("a scan of %q finds %q, %v behind %q", foreign, s, err, last)
				}
				got[string(s.Key)], last = true, s.Key
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("a scan of %q finds %v, want %v", foreign, got, want)
			}
		}
	})
}

// TestSubscribersForTools: rows are shown, and found by the text that shows them.
func TestSubscribersForTools(t *testing.T) {
	keys := rowCodec(subscriberKeyCodec[string, int64]{schemas.String(), schemas.Int64()})
	values := rowCodec(schemas.Codec[subscriber](subscriberCodec{}))
	form, err := keys.Parse(`{"foreign":"f","key":7}`)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keys.Decode(form)
	if err != nil {
		t.Fatal(err)
	}
	value, err := values.Decode([]byte(goldenHash + "\x00\x00\x00\x02"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal([]any{key, value})
	if want := `[{"foreign":"f","key":7},{"hash":"ba7816bf8f01cfea414140de5dae2223","partition":2}]`; string(text) != want || err != nil {
		t.Errorf("the row is shown as %s, %v, want %s", text, err, want)
	}
	if b, err := values.Parse(`{"hash":"ba7816bf8f01cfea414140de5dae2223","partition":2}`); string(b) != goldenHash+"\x00\x00\x00\x02" || err != nil {
		t.Errorf("its text is read as %q, %v", b, err)
	}
	if _, err := values.Parse(`{"hash":"ba78","partition":2}`); err == nil {
		t.Error("a short hash is read")
	}
}
