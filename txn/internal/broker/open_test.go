package broker

import "testing"

// TestOffsetsPartition: as brokers place groups, by the hash code of a Java string.
func TestOffsetsPartition(t *testing.T) {
	for group, want := range map[string]int32{
		"":                   0,
		"hello":              99162322 % 50,
		"polygenelubricants": 0,              // hash code -2147483648
		"reader":             934979389 % 50, // hash code -934979389
		"\U0001F600":         1772899 % 50,   // two UTF-16 units
	} {
		if got := offsetsPartition(group, 50); got != want {
			t.Errorf("%q: partition %d, want %d", group, got, want)
		}
	}
}
