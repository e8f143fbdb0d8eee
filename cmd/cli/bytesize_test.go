package cli

import (
	"math"
	"strings"
	"testing"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "268435456": 256 << 20, "64KiB": 64 << 10, "256MiB": 256 << 20, "2GiB": 2 << 30, "9223372036854775807": math.MaxInt64,
		"": 0, "0": 0, "0MiB": 0, "MiB": 0, "-1": 0, "+1": 0, "1.5GiB": 0, "1 GiB": 0, "1MB": 0, "1mib": 0, "1K": 0, "many": 0,
		"9223372036854775808": 0, "8589934592GiB": 0,
	} {
		var s byteSize
		err := s.UnmarshalText([]byte(text))
		if int64(s) != want || (err == nil) != (want > 0) {
			t.Errorf("%q is read as %d, %v; want %d", text, s, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "such as 256MiB") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
