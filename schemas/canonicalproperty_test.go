package schemas_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/schemas"
)

// A node is a JSON document apart from its spelling. It shares nothing with the
// code under test: identity says what makes two documents one, spell writes one of
// the many forms of a document.
type node interface {
	identity() string
	spell(t *rapid.T) string
}

type (
	word   string // true, false, null
	text   string
	list   []node
	object map[string]node
	number struct {
		negative bool
		digits   string // no zero in front, unless it is "0"
		exponent *big.Int
	}
)

func (w word) identity() string { return string(w) }
func (s text) identity() string { return strconv.Quote(string(s)) }

func (n number) identity() string {
	mantissa, exponent := mustInt(n.digits), new(big.Int).Set(n.exponent)
	if mantissa.Sign() == 0 {
		return "0"
	}
	ten, rest := big.NewInt(10), new(big.Int)
	for {
		quotient, _ := new(big.Int).QuoRem(mantissa, ten, rest)
		if rest.Sign() != 0 {
			return fmt.Sprintf("%t %d e %d", n.negative, mantissa, exponent)
		}
		mantissa = quotient
		exponent.Add(exponent, big.NewInt(1))
	}
}

func (l list) identity() string {
	parts := make([]string, len(l))
	for i, item := range l {
		parts[i] = item.identity()
	}
	return "[" + strings.Join(parts, ",") + "]"
}

func (o object) identity() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(o)) {
		parts = append(parts, strconv.Quote(key)+":"+o[key].identity())
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (w word) spell(*rapid.T) string { return string(w) }

func (s text) spell(t *rapid.T) string {
	short := map[rune]string{
		'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`,
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range string(s) {
		plain := r >= 0x20 && r != '"' && r != '\\'
		escape, hasShort := short[r]
		switch rapid.IntRange(0, 2).Draw(t, "escape") {
		case 0:
			if plain {
				out.WriteRune(r)
				continue
			}
		case 1:
			if hasShort {
				out.WriteString(escape)
				continue
			}
		}
		format := rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "hex")
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, format, unit)
		}
	}
	out.WriteByte('"')
	return out.String()
}

func (n number) spell(t *rapid.T) string {
	zeros := rapid.IntRange(0, 3).Draw(t, "zeros")
	digits := n.digits + strings.Repeat("0", zeros)
	exponent := new(big.Int).Sub(n.exponent, big.NewInt(int64(zeros)))
	sign := ""
	if n.negative || n.digits == "0" && rapid.Bool().Draw(t, "minus zero") {
		sign = "-"
	}
	// The point goes behind the first so many digits, or behind zeros in front.
	point := rapid.IntRange(-2, len(digits)).Draw(t, "point")
	if n.digits == "0" {
		point = min(point, 1)
	}
	exponent.Add(exponent, big.NewInt(int64(len(digits)-point)))
	var mantissa string
	switch {
	case point <= 0:
		mantissa = "0." + strings.Repeat("0", -point) + digits
	case point == len(digits):
		mantissa = digits + rapid.SampledFrom([]string{"", ".0", ".00"}).Draw(t, "fraction")
	default:
		mantissa = digits[:point] + "." + digits[point:]
	}
	if exponent.Sign() == 0 && rapid.Bool().Draw(t, "no exponent") {
		return sign + mantissa
	}
	mark := rapid.SampledFrom([]string{"e", "E"}).Draw(t, "e")
	switch {
	case exponent.Sign() < 0:
		mark += "-"
	default:
		mark += rapid.SampledFrom([]string{"", "+"}).Draw(t, "plus")
	}
	mark += rapid.SampledFrom([]string{"", "0", "00"}).Draw(t, "exponent zeros")
	return sign + mantissa + mark + new(big.Int).Abs(exponent).String()
}

func (l list) spell(t *rapid.T) string {
	parts := make([]string, len(l))
	for i, item := range l {
		parts[i] = space(t) + item.spell(t) + space(t)
	}
	return "[" + space(t) + strings.Join(parts, ",") + "]"
}

func (o object) spell(t *rapid.T) string {
	keys := slices.Sorted(maps.Keys(o))
	if len(keys) > 1 {
		keys = rapid.Permutation(keys).Draw(t, "order")
	}
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = space(t) + text(key).spell(t) + space(t) + ":" + space(t) + o[key].spell(t) + space(t)
	}
	return "{" + space(t) + strings.Join(parts, ",") + "}"
}

func space(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\r\n\t"}).Draw(t, "space")
}

func mustInt(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic("not an integer: " + s)
	}
	return n
}

// texts are drawn from a small alphabet, so that equal ones come up, and from all
// of Unicode.
func texts() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune("ab\"\\/\x00\n\x1f\x7fé\uffff\U0001f600")), 0, 3, -1),
		rapid.String())
}

func numbers() *rapid.Generator[node] {
	return rapid.Custom(func(t *rapid.T) node {
		exponent := big.NewInt(rapid.Int64Range(-30, 30).Draw(t, "exponent"))
		if rapid.IntRange(0, 4).Draw(t, "huge") == 0 {
			// Around the places where exponents stop fitting what computers have.
			huge := rapid.SampledFrom([]string{"1000000000000000000", "9223372036854775807",
				"9223372036854775808", "99999999999999999999999999"}).Draw(t, "about")
			exponent.Add(exponent, mustInt(huge))
			if rapid.Bool().Draw(t, "negative exponent") {
				exponent.Neg(exponent)
			}
		}
		return number{
			negative: rapid.Bool().Draw(t, "negative"),
			digits:   rapid.StringMatching(`0|[1-9][0-9]{0,2}|[1-9][0-9]{17,24}`).Draw(t, "digits"),
			exponent: exponent,
		}
	})
}

func documents(depth int) *rapid.Generator[node] {
	scalars := []*rapid.Generator[node]{
		rapid.Map(rapid.SampledFrom([]string{"true", "false", "null"}), func(s string) node { return word(s) }),
		rapid.Map(texts(), func(s string) node { return text(s) }),
		numbers(),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	items := rapid.Deferred(func() *rapid.Generator[node] { return documents(depth - 1) })
	lists := rapid.Map(rapid.SliceOfN(items, 0, 4), func(l []node) node { return list(l) })
	objects := rapid.Map(rapid.MapOfN(texts(), items, 0, 20), func(m map[string]node) node { return object(m) })
	return rapid.OneOf(append(scalars, lists, objects, objects)...)
}

// change returns a document that is like n but for one place.
func change(t *rapid.T, n node) node {
	switch n := n.(type) {
	case object:
		changed := maps.Clone(n)
		key := ""
		if len(n) > 0 {
			key = rapid.SampledFrom(slices.Sorted(maps.Keys(n))).Draw(t, "member")
		}
		switch rapid.IntRange(0, 3).Draw(t, "object change") {
		case 0:
			changed[key+"x"] = word("null")
		case 1:
			delete(changed, key)
		case 2:
			if value, ok := n[key]; ok { // rename
				delete(changed, key)
				changed[key+"y"] = value
			}
		default:
			if value, ok := n[key]; ok {
				changed[key] = change(t, value)
			}
		}
		return changed
	case list:
		changed := slices.Clone(n)
		if len(n) == 0 {
			return append(changed, word("null"))
		}
		i := rapid.IntRange(0, len(n)-1).Draw(t, "item")
		switch rapid.IntRange(0, 3).Draw(t, "list change") {
		case 0:
			return append(changed, n[i])
		case 1:
			return slices.Delete(changed, i, i+1)
		case 2:
			changed[i], changed[0] = changed[0], changed[i]
		default:
			changed[i] = change(t, n[i])
		}
		return changed
	case number:
		switch rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "number change") {
		case 0:
			n.negative = !n.negative
		case 1:
			n.exponent = new(big.Int).Add(n.exponent, big.NewInt(1))
		case 2:
			n.digits = new(big.Int).Add(mustInt(n.digits), big.NewInt(1)).String()
		default:
			return text(n.spell(t))
		}
		return n
	case text:
		changed := []node{
			n + " ", n + "\x00", list{n}, text(strings.ToUpper(string(n))),
			// Both are written as a backslash and themselves.
			text(strings.ReplaceAll(string(n), `\`, `"`)), text(strings.ReplaceAll(string(n), `"`, `\`)),
		}
		return rapid.SampledFrom(changed).Draw(t, "text")
	default:
		return rapid.SampledFrom([]node{word("true"), word("null"), text(n.identity()), list{n}}).Draw(t, "word")
	}
}

// TestHashJSONSpellings: two spellings of one document have one hash and one
// canonical form, and that form is its own.
func TestHashJSONSpellings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := documents(3).Draw(t, "document")
		one, two := space(t)+doc.spell(t), doc.spell(t)+space(t)
		if hashOf(t, one) != hashOf(t, two) {
			t.Fatalf("hashes differ:\n%s\n%s", one, two)
		}
		form, err := schemas.CanonicalJSON(nil, []byte(one))
		if err != nil {
			t.Fatal(err)
		}
		again, err := schemas.CanonicalJSON(nil, form)
		if err != nil || !bytes.Equal(form, again) {
			t.Fatalf("the canonical form of\n%s is\n%s (%v)", form, again, err)
		}
	})
}

// TestHashJSONChanges: documents have one hash only if they are one document. The
// second document is a changed copy of the first, or one of its own. Numbers and
// texts have runs of their own, because changes deep in a document are rare.
func TestHashJSONChanges(t *testing.T) {
	strings := rapid.Map(texts(), func(s string) node { return text(s) })
	for name, first := range map[string]*rapid.Generator[node]{
		"numbers": numbers(), "texts": strings, "documents": documents(2),
	} {
		t.Run(name, func(t *testing.T) { checkPairs(t, first, change) })
		t.Run(name+" of their own", func(t *testing.T) {
			checkPairs(t, first, func(t *rapid.T, _ node) node { return first.Draw(t, "two") })
		})
	}
}

func checkPairs(t *testing.T, first *rapid.Generator[node], second func(*rapid.T, node) node) {
	pairs, differed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		pairs++
		one := first.Draw(t, "one")
		two := second(t, one)
		same := one.identity() == two.identity()
		if !same {
			differed++
		}
		a, b := one.spell(t), two.spell(t)
		if (hashOf(t, a) == hashOf(t, b)) != same {
			t.Fatalf("same document: %t, hashes say otherwise:\n%s\n%s", same, a, b)
		}
	})
	if differed < pairs/5 { // -short makes fewer pairs
		t.Errorf("only %d of %d pairs were different documents; the test shows nothing", differed, pairs)
	}
}

func hashOf(t *rapid.T, src string) [32]byte {
	hash, err := schemas.HashJSON([]byte(src))
	if err != nil {
		t.Fatalf("%s\n%v", src, err)
	}
	return hash
}
