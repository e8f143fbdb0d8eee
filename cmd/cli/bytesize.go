package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a number of bytes as people write it: 268435456, 256MiB, 1GiB. Units with other
// meanings in other programs, such as MB, are refused.
type byteSize int64

// byteUnits are the units, the ones that end like another first.
var byteUnits = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"", 1}}

// UnmarshalText reads a size.
func (s *byteSize) UnmarshalText(text []byte) error {
	for _, unit := range byteUnits {
		digits, ok := strings.CutSuffix(string(text), unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || n == 0 || n > uint64(math.MaxInt64/unit.bytes) {
			break
		}
		*s = byteSize(int64(n) * unit.bytes)
		return nil
	}
	return fmt.Errorf("%q is no size; give a number of bytes, or one with KiB, MiB or GiB behind it, such as 256MiB", text)
}
