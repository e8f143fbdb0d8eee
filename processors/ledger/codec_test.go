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

// TestKeyOrder: contributions lie in the order of their encoded ledger keys, and within them of their ids;
// no key is the beginning of another.
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
	postings, sums := postingCodec{[]string{"a"}}, sumCodec{[]string{"a"}}
	codectest.Run(t, postings,
		Posting{Amounts: []int64{0}},
		Posting{Amounts: []int64{math.MinInt64, math.MaxInt64}, Timestamp: -1, Corrects: codectest.Canary})
	codectest.Refuses(t, postings, Posting{}, Posting{Amounts: make([]int64, 256)},
		Posting{Amounts: []int64{1}, Corrects: codectest.Canary + "\xff"},
		Posting{Amounts: []int64{1}, Corrects: strings.Repeat(codectest.Canary, 100)})
	codectest.Run(t, sums, Sum{Amounts: []int64{0}},
		Sum{Count: 3, Amounts: []int64{math.MinInt64, -1, math.MaxInt64}})
	codectest.Refuses(t, sums, Sum{}, Sum{Amounts: make([]int64, 256)})
}

func TestRowCodecsAreStrict(t *testing.T) {
	b, err := sumCodec{}.Append(nil, Sum{Count: 1, Amounts: []int64{1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty": {}, "short": b[:len(b)-1], "long": append(b[:len(b):len(b)], 0), "header": b[:rowHeaderBytes],
		"other format": append([]byte{2}, b[1:]...), "no columns": append([]byte{1, 0}, b[2:]...),
		"other columns": append([]byte{1, 2}, b[2:]...),
	} {
		if sum, err := (sumCodec{}).Decode(b); err == nil {
			t.Errorf("%s: decodes to %+v", name, sum)
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
