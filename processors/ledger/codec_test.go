package ledger

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
	"github.com/onceward/onceward/schemas/codectest"
)

func TestKeyCodec(t *testing.T) {
	codec := keyCodec[string]{schemas.String()}
	type key = ContributionKey[string]
	codectest.Run(t, codec, key{"", "a"}, key{"\x00", "\x00"}, key{"\x00\x01\x00", "\x01"},
		key{codectest.Canary, codectest.Canary}, key{"k", strings.Repeat("x", 1024)})
	codectest.Refuses(t, codec, key{codectest.Canary, ""}, key{"k", codectest.Canary + "\xff"},
		key{codectest.Canary + "\xff", "a"}, key{"k", strings.Repeat("x", 1025)})
	codectest.Run(t, keyCodec[int64]{schemas.Int64()}, ContributionKey[int64]{0, "a"},
		ContributionKey[int64]{1 << 40, "a"}, ContributionKey[int64]{-1, "a"})
}

// TestKeyOrder: contributions lie in the order of their encoded ledger keys, and within them of
// their ids; no key is the beginning of another.
func TestKeyOrder(t *testing.T) {
	codec := keyCodec[[]byte]{schemas.Bytes()}
	part := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 0xfe, 0xff}), 0, 5)
	id := rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 2, 0x7f}), 1, 4, -1)
	rapid.Check(t, func(rt *rapid.T) {
		a := ContributionKey[[]byte]{part.Draw(rt, "ledger a"), id.Draw(rt, "id a")}
		b := ContributionKey[[]byte]{part.Draw(rt, "ledger b"), id.Draw(rt, "id b")}
		x, errX := codec.Append(nil, a)
		y, errY := codec.Append(nil, b)
		if errX != nil || errY != nil {
			rt.Fatal(errX, errY)
		}
		want := bytes.Compare(a.Ledger, b.Ledger)
		if want == 0 {
			want = strings.Compare(a.ID, b.ID)
		} else if bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x) {
			rt.Fatalf("%x and %x share a beginning", x, y)
		}
		if got := bytes.Compare(x, y); got != want {
			rt.Fatalf("%+v and %+v compare as %d, and encoded as %d", a, b, want, got)
		}
		if back, err := codec.Decode(x); err != nil || !bytes.Equal(back.Ledger, a.Ledger) || back.ID != a.ID {
			rt.Fatalf("%+v decodes to %+v, %v", a, back, err)
		}
	})
}

func TestRowCodecs(t *testing.T) {
	postings, sums := postingCodec{"a"}, newSumCodec("a")
	codectest.Run(t, postings,
		Posting{Amounts: []int64{0}},
		Posting{Amounts: []int64{math.MinInt64, math.MaxInt64}, Timestamp: -1, Corrects: codectest.Canary})
	codectest.Run(t, postings,
		Posting{Amounts: []int64{1}, Reverses: codectest.Canary}, Posting{Amounts: []int64{1}, ReversedBy: codectest.Canary},
		Posting{Amounts: []int64{1, 2}, Timestamp: 7, Corrects: codectest.Canary, ReversedBy: "b"},
		Posting{Amounts: []int64{1, 2}, Timestamp: 7, Reverses: strings.Repeat("a", 1024), ReversedBy: codectest.Canary})
	hash := Hash(bytes.Repeat([]byte{7}, hashBytes))
	codectest.Run(t, postings, Posting{Amounts: []int64{1}, Payload: hash},
		Posting{Amounts: []int64{1, 2}, Timestamp: 7, Corrects: codectest.Canary, Payload: hash},
		Posting{Amounts: []int64{1}, Reverses: codectest.Canary, Payload: hash},
		Posting{Amounts: []int64{1}, Corrects: "a", ReversedBy: codectest.Canary, Payload: make(Hash, hashBytes)})
	codectest.Refuses(t, postings, Posting{Amounts: []int64{1}, Payload: hash[1:], Corrects: codectest.Canary},
		Posting{Amounts: []int64{1}, Payload: Hash{}, Corrects: codectest.Canary})
	codectest.Refuses(t, postings, Posting{Amounts: []int64{1}, Corrects: "a", Reverses: codectest.Canary},
		Posting{Amounts: []int64{1}, Reverses: codectest.Canary + "\xff"},
		Posting{Amounts: []int64{1}, ReversedBy: strings.Repeat(codectest.Canary, 100)})
	codectest.Refuses(t, postings, Posting{}, Posting{Amounts: make([]int64, 256)},
		Posting{Amounts: []int64{1}, Corrects: codectest.Canary + "\xff"},
		Posting{Amounts: []int64{1}, Corrects: strings.Repeat(codectest.Canary, 100)})
	codectest.Run(t, sums, Sum{Amounts: []int64{0}},
		Sum{Count: 3, Amounts: []int64{math.MinInt64, -1, math.MaxInt64}})
	codectest.Refuses(t, sums, Sum{}, Sum{Amounts: make([]int64, 256)})
}

func TestRowCodecsAreStrict(t *testing.T) {
	codec := newSumCodec("a")
	b, err := codec.Append(nil, Sum{Count: 1, Amounts: []int64{1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty": {}, "short": b[:len(b)-1], "long": append(b[:len(b):len(b)], 0), "header": b[:rowHeaderBytes],
		"older format": append([]byte{1}, b[1:]...), "newer format": append([]byte{3}, b[1:]...),
		"no columns": append([]byte{2, 0}, b[2:]...), "other columns": append([]byte{2, 2}, b[2:]...),
		"other checksum": append(b[:len(b)-1:len(b)-1], b[len(b)-1]^1),
	} {
		if sum, err := codec.Decode(b); err == nil {
			t.Errorf("%s: decodes to %+v", name, sum)
		}
	}
}

// FuzzRows: what one of the codecs reads is the one encoding of what it has read.
func FuzzRows(f *testing.F) {
	for _, p := range []Posting{
		{Amounts: []int64{1}}, {Amounts: []int64{1, -2}, Corrects: "a"}, {Amounts: []int64{1}, Reverses: "a"},
		{Amounts: []int64{1}, Corrects: "a", ReversedBy: "b"},
		{Amounts: []int64{1}, Corrects: "a", Payload: make(Hash, hashBytes)},
		{Amounts: []int64{1}, ReversedBy: "b", Payload: make(Hash, hashBytes)},
	} {
		row, _ := postingCodec{}.Append(nil, p)
		f.Add(row)
	}
	key, _ := keyCodec[string]{schemas.String()}.Append(nil, ContributionKey[string]{"k\x00", "a"})
	window, _ := WindowCodec(schemas.String()).Append(nil, Window[string]{"k", 7})
	balance, _ := BalanceCodec().Append(nil, Balance{Count: 300, Amounts: []int64{-1, 64}, Contribution: "c"})
	f.Add(key)
	f.Add(window)
	f.Add(balance)
	f.Fuzz(func(t *testing.T, b []byte) {
		reread(t, schemas.Codec[Posting](postingCodec{}), b)
		reread(t, schemas.Codec[Sum](newSumCodec("a")), b)
		reread(t, schemas.Codec[ContributionKey[string]](keyCodec[string]{schemas.String()}), b)
		reread(t, WindowCodec(schemas.String()), b)
		reread(t, BalanceCodec(), b)
	})
}

func reread[T any](t *testing.T, codec schemas.Codec[T], b []byte) {
	t.Helper()
	v, err := codec.Decode(b)
	if err != nil {
		return
	}
	if again, err := codec.Append(nil, v); err != nil || !bytes.Equal(again, b) {
		t.Errorf("%s reads %x, and writes it as %x, %v", codec.Name(), b, again, err)
	}
}

// TestPostingRows: a contribution that is no part of a reversal is written as ever, and its row
// says the same for ever.
func TestPostingRows(t *testing.T) {
	const head = "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x00\x00\x00\x00\x00\x00\x05"
	const hash = "0123456789abcdef0123456789abcdef"
	for want, p := range map[string]Posting{
		"\x01\x01" + head + "a":                    {Amounts: []int64{5}, Timestamp: 7, Corrects: "a"},
		"\x02\x01" + head + "\x01\x00\x01a":        {Amounts: []int64{5}, Timestamp: 7, Reverses: "a"},
		"\x02\x01" + head + "\x00\x00\x00b":        {Amounts: []int64{5}, Timestamp: 7, ReversedBy: "b"},
		"\x02\x01" + head + "\x00\x00\x02aab":      {Amounts: []int64{5}, Timestamp: 7, Corrects: "aa", ReversedBy: "b"},
		"\x02\x01" + head + "\x01\x00\x02aabbb":    {Amounts: []int64{5}, Timestamp: 7, Reverses: "aa", ReversedBy: "bbb"},
		"\x03\x01" + head + hash + "a":             {Amounts: []int64{5}, Timestamp: 7, Corrects: "a", Payload: Hash(hash)},
		"\x04\x01" + head + hash + "\x00\x00\x00b": {Amounts: []int64{5}, Timestamp: 7, ReversedBy: "b", Payload: Hash(hash)},
	} {
		if got, err := (postingCodec{}).Append(nil, p); err != nil || string(got) != want {
			t.Errorf("%+v is written as %q, %v, want %q", p, got, err, want)
		}
	}
	for name, b := range map[string]string{
		"no reversal": "\x00\x00\x01a", "reverses nothing": "\x01\x00\x00b",
		"other kind": "\x02\x00\x01ab", "short": "\x01\x00\x02a",
		"no length": "\x01\x00", "not UTF-8": "\x01\x00\x01\xff",
	} {
		if p, err := (postingCodec{}).Decode([]byte("\x02\x01" + head + b)); err == nil {
			t.Errorf("%s: decodes to %+v", name, p)
		}
	}
	for name, b := range map[string]string{
		"short hash": "\x03\x01" + head + hash[1:], "hash and no reversal": "\x04\x01" + head + hash,
		"newer format": "\x05\x01" + head + hash,
	} {
		if p, err := (postingCodec{}).Decode([]byte(b)); err == nil {
			t.Errorf("%s: decodes to %+v", name, p)
		}
	}
}

func TestBalanceCodec(t *testing.T) {
	values := []Balance{
		{Count: 1, Amounts: []int64{0}, Contribution: ""},
		{Count: math.MaxInt64, Amounts: []int64{math.MinInt64, math.MaxInt64, -1}, Contribution: codectest.Canary},
	}
	codectest.Run(t, BalanceCodec(), values...)
	codectest.Run(t, schemas.JSON[Balance](), values...)
	codectest.Refuses(t, BalanceCodec(), Balance{Count: 1}, Balance{Count: -1, Amounts: []int64{1}},
		Balance{Amounts: make([]int64, 256)}, Balance{Amounts: []int64{1}, Contribution: codectest.Canary + "\xff"})
	b, err := BalanceCodec().Append(nil, Balance{Count: 300, Amounts: []int64{-1, 64}, Contribution: "c"})
	if want := "\x01\x02\xac\x02\x01\x80\x01c"; err != nil || string(b) != want {
		t.Errorf("the balance is %q, %v, want %q", b, err, want)
	}
	for name, b := range map[string]string{
		"empty": "", "no columns": "\x01\x00\x01", "other format": "\x02\x01\x01\x01", "no count": "\x01\x01",
		"longer count": "\x01\x01\x81\x00\x01", "longer amount": "\x01\x01\x01\x81\x00",
		"no amount":      "\x01\x02\x01\x01",
		"negative count": "\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01",
	} {
		if v, err := BalanceCodec().Decode([]byte(b)); err == nil {
			t.Errorf("%s: decodes to %+v", name, v)
		}
	}
}
