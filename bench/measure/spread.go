package measure

import (
	"fmt"
	"slices"
)

// Spread is the middle and the ends of some values.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// SpreadOf returns the spread of values; that of none is zero. The median of an even number is the
// mean of the two in the middle.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// Text is the spread for people, with so many decimals.
func (s Spread) Text(decimals int) string {
	return fmt.Sprintf("%.*f (%.*f to %.*f)", decimals, s.Median, decimals, s.Min, decimals, s.Max)
}

// MiB are bytes in the unit that people read.
func MiB(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Scatter is a permutation of the 64-bit numbers, the finalizer of splitmix64. Numbers that follow
// each other come to be far apart: keys in ascending order would be an easy case for every store on
// disk.
func Scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
