package ledger_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/processors/ledger"
	"github.com/onceward/onceward/schemas"
)

func TestDecimal(t *testing.T) {
	const (
		malformed = "not a decimal number"
		places    = "the number has more places behind the point than there are"
		outside   = "the number is outside the range of 64 bits"
	)
	for _, c := range []struct{ text, want string }{
		{"0", "0"}, {"-0", "0"}, {"12", "12"}, {"-12.30", "-12.30"}, {"0.05", "0.05"}, {"-0.05", "-0.05"},
		{"1e2", "100"}, {"1.5E1", "15"}, {"1.5e+1", "15"}, {"15e-1", "1.5"}, {"0e-99", "0.000000000000000000"},
		{"9223372036854775807", "9223372036854775807"}, {"-92233720368547758.08", "-92233720368547758.08"},
		{"0.000000000000000001", "0.000000000000000001"}, {"0.1000000000000000000000", "0.100000000000000000"},
		{"100000000000000000000e-20", "1.000000000000000000"}, {"0e99999999999999999999", "0"},
		{"9223372036854775808", outside}, {"1e19", outside}, {"1e99999999999999999999", outside},
		{"0.0000000000000000001", places}, {"1e-19", places}, {"1e-99999999999999999999", places},
		{"", malformed}, {"-", malformed}, {".5", malformed}, {"5.", malformed}, {"1_000", malformed}, {" 1", malformed},
		{"NaN", malformed}, {"--1", malformed}, {"+1", malformed}, {"1e", malformed}, {"0x10", malformed},
		{"1e1.5", malformed}, {"٣", malformed}, {"007", malformed}, {"-01.5", malformed}, {"00", malformed},
	} {
		d, err := ledger.ParseDecimal(c.text)
		got := d.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q is %s, want %s", c.text, got, c.want)
		}
	}
}

// TestDecimalIsExact compares with rational numbers: a decimal has the value of its text, its form
// can be read again, and a change of scale changes nothing or is an error.
func TestDecimalIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := ledger.Decimal{Units: rapid.Int64().Draw(rt, "units"), Scale: rapid.Uint8Range(0, ledger.ScaleMax).Draw(rt, "scale")}
		text := d.String()
		value, ok := new(big.Rat).SetString(text)
		back, err := ledger.ParseDecimal(text)
		if !ok || err != nil || back != d {
			rt.Fatalf("%+v is written as %s and read as %+v, %v", d, text, back, err)
		}
		scale := rapid.Uint8Range(0, ledger.ScaleMax).Draw(rt, "other")
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
		want := new(big.Rat).Mul(value, new(big.Rat).SetInt(power))
		fits := want.IsInt() && want.Num().IsInt64()
		units, err := d.In(scale)
		if fits != (err == nil) || fits && want.Num().Int64() != units {
			rt.Fatalf("%s in a scale of %d is %d, %v, want %s", text, scale, units, err, want)
		}
		if err != nil && schemas.ReasonOf(err) != err.Error() {
			rt.Fatalf("the reason of %v is withheld", err)
		}
	})
}

func TestDecimalJSON(t *testing.T) {
	var got []ledger.Decimal
	if err := json.Unmarshal([]byte(`["12.30", 12.30, 9007199254740993, 1e2]`), &got); err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprint(got); s != "[12.30 12.30 9007199254740993 100]" {
		t.Error(s)
	}
	form, err := json.Marshal(got)
	if want := `["12.30","12.30","9007199254740993","100"]`; err != nil || string(form) != want {
		t.Errorf("the form is %s, %v", form, err)
	}
	for _, bad := range []string{`"x"`, `true`, `{}`, `[1]`, `1e400`, `""`, `null`, `"007"`} {
		var d ledger.Decimal
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s is read as %s", bad, d)
		}
	}
}

// TestDecimalNull: an amount that is null is no 0, and a pointer tells one that may be missing.
func TestDecimalNull(t *testing.T) {
	var required struct{ Amount ledger.Decimal }
	if err := json.Unmarshal([]byte(`{"Amount":null}`), &required); err == nil {
		t.Errorf("null is read as %s", required.Amount)
	}
	optional := struct{ Amount *ledger.Decimal }{&ledger.Decimal{Units: 1}}
	if err := json.Unmarshal([]byte(`{"Amount":null}`), &optional); err != nil || optional.Amount != nil {
		t.Errorf("null is read as %v, %v", optional.Amount, err)
	}
}

// FuzzParseDecimal: what is read has exactly the value of the text.
func FuzzParseDecimal(f *testing.F) {
	for _, seed := range []string{"0", "-12.30", "1e2", "15e-1", "0.0000000000000000010",
		"9223372036854775808", "1e-999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ledger.ParseDecimal(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(text, "eE") && len(text) > 20 {
			return // a rational number with a large exponent takes for ever
		}
		value, ok := new(big.Rat).SetString(text)
		again, ok2 := new(big.Rat).SetString(d.String())
		if !ok || !ok2 || value.Cmp(again) != 0 {
			t.Errorf("%q is read as %s", text, d)
		}
	})
}
